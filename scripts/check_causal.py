"""Run `lingraft adapt` on tiny random models of ten causal architectures and check what comes out.

    python scripts/check_causal.py [OUT]

A row for each: exit status, tensors that the stock class misses in the export, and whether greedy
text is the same before and after export, with and without a cache.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

STEPS, NEW_TOKENS = 50, 24
PROMPTS = ("나무는 ", "큰 바다")


def text(path: Path) -> Path:
    """Lines of made-up Korean."""
    draw = random.Random(0)
    words = ["".join(chr(draw.randrange(0xAC00, 0xAD00)) for _ in range(2)) for _ in range(300)]
    lines = (" ".join(draw.choices(words, k=12)) + "." for _ in range(1_000))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def greedy(model: Any, tokenizer: Any, *, cache: bool) -> list[list[int]]:
    """What a model writes after the prompts."""
    return [
        model.generate(
            **tokenizer(prompt, return_tensors="pt"), max_new_tokens=NEW_TOKENS, do_sample=False,
            use_cache=cache,
        )[0].tolist()
        for prompt in PROMPTS
    ]  # fmt: skip


def main() -> None:
    import tiny_causal
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from lingraft.rundir import Run

    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    corpus, failed = text(out / "ko.txt"), 0
    print("| family | exit | missing | same text | cached = uncached |\n|---|---|---|---|---|")
    for family in tiny_causal.TOKENIZERS:
        source = tiny_causal.save(out / "sources" / family, family)
        command = [
            "lingraft", "adapt", "--source", str(source), "--text", str(corpus), "--lang", "ko",
            "--budget", f"{STEPS}steps", "tokenizer.vocab_size=800", "training.batch.size=512",
            "training.batch.unit=tokens",
            "tokenizer.max_tokens=64", "--out", str(out / family), "--force",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            failed += 1
            print(f"| {family} | {done.returncode} | {done.stderr.splitlines()[-1]} | | |")
            continue
        run = Run(out / family)
        model, found = AutoModelForCausalLM.from_pretrained(
            run.model_path, output_loading_info=True, trust_remote_code=False
        )
        tokenizer = AutoTokenizer.from_pretrained(run.model_path, trust_remote_code=False)
        phases = sorted(path.name for path in run.path.glob("phase-*") if path.is_dir())
        trained = AutoModelForCausalLM.from_pretrained(run.weights(phases), trust_remote_code=False)
        said = greedy(model, tokenizer, cache=True)
        same = said == greedy(trained, tokenizer, cache=True)
        uncached = said == greedy(model, tokenizer, cache=False)
        missing = len(found["missing_keys"]) + len(found["unexpected_keys"])
        failed += not (same and uncached and not missing)
        print(f"| {family} | 0 | {missing} | {same} | {uncached} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
