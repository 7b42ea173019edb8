"""Runs lm-evaluation-harness on the tests' tiny model and keeps what it wrote.

    python scripts/lm_eval_fixture.py --lm-eval /path/to/venv/bin/lm-eval

What lies in tests/evaluation/lm_eval was made by this command with lm-eval 0.4.13: results.json and
samples.jsonl, as the harness writes them, less what they say of the machine. The tests compare our
log-likelihoods and accuracies with these, and read the JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
KEPT = REPOSITORY / "tests/evaluation/lm_eval"
TASK = "tiny_choices"
sys.path.insert(0, str(REPOSITORY / "tests/support"))


def run(harness: str, folder: Path) -> Path:
    """Run the harness in a folder with the model, the questions and the task; where it wrote."""
    import tiny_judged

    tiny_judged.save(folder / "model")
    tiny_judged.write_questions(folder / "questions.jsonl")
    shutil.copy(KEPT / f"{TASK}.yaml", folder)
    command = [harness, "run", "--model", "hf", "--model_args", "pretrained=model,dtype=float32"]
    command += ["--tasks", TASK, "--include_path", ".", "--device", "cpu", "--batch_size", "4"]
    command += ["--output_path", "out", "--log_samples"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "out/model"


def main() -> None:
    """Make the fixture again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lm-eval", default="lm-eval", help="The harness's command.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        written = run(asked.lm_eval, Path(name))
        (results,) = written.glob("results_*.json")
        (samples,) = written.glob(f"samples_{TASK}_*.jsonl")
        data = json.loads(results.read_text(encoding="utf-8"))
        data["pretty_env_info"] = ""
        text = json.dumps(data, ensure_ascii=False, indent=1) + "\n"
        (KEPT / "results.json").write_text(text, encoding="utf-8")
        rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        kept = ("doc_id", "filtered_resps", "acc", "acc_norm", "acc_bytes")
        lines = [json.dumps({key: row[key] for key in kept}) for row in rows]
        (KEPT / "samples.jsonl").write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")
    print(f"written to {KEPT}")


if __name__ == "__main__":
    main()
