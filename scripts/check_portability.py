"""Load an exported model in another Python environment and compare: ids, loading report, logits.

Of an encoder–decoder the ids are those of the sentences and of what it generates for them.

    python scripts/check_portability.py RUN/model --python /path/to/other/bin/python

Both sides use stock transformers only; neither imports lingraft.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

INNER = r"""
import json, sys
import torch, transformers
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

sys.modules["lingraft"] = None  # an import of it would fail
folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
pair_of_stacks = AutoConfig.from_pretrained(folder, trust_remote_code=False).is_encoder_decoder
auto = AutoModelForSeq2SeqLM if pair_of_stacks else AutoModelForMaskedLM
model, info = auto.from_pretrained(folder, output_loading_info=True, trust_remote_code=False)
mask = tokenizer.mask_token or tokenizer.unk_token  # T5 has none
texts = [f"{mask} 1234 test.", f"a {mask} b", "é 한국어 ไทย"]
rows = []
for text in texts:
    encoded = tokenizer(text, return_tensors="pt")
    ids = encoded["input_ids"][0].tolist()
    if pair_of_stacks:
        ids += model.eval().generate(**encoded, max_new_tokens=20)[0].tolist()
        encoded["decoder_input_ids"] = encoded["input_ids"]
    with torch.no_grad():
        logits = model.eval()(**encoded).logits[0].float()
    rows.append({"ids": ids, "logits": logits[:, :200].tolist()})
strays = {key: sorted(value) for key, value in info.items() if value}
pair = tokenizer("a", "b")["input_ids"]
version = transformers.__version__
print(json.dumps({"version": version, "strays": strays, "rows": rows, "pair": pair}))
"""


def run(python: str, folder: Path) -> dict[str, object]:
    """Load the model with one interpreter and return what it saw."""
    done = subprocess.run(
        [python, "-c", INNER, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{python} cannot load {folder}:\n{done.stderr[-2000:]}")
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def difference(ours: list[dict], theirs: list[dict]) -> float:  # type: ignore[type-arg]
    """Largest absolute difference of a logit."""
    return max(
        abs(a - b)
        for mine, other in zip(ours, theirs, strict=True)
        for row, row_other in zip(mine["logits"], other["logits"], strict=True)
        for a, b in zip(row, row_other, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--python", required=True, help="interpreter with the other transformers")
    arguments = parser.parse_args()
    here, there = run(sys.executable, arguments.model), run(arguments.python, arguments.model)
    same_ids = [r["ids"] for r in here["rows"]] == [r["ids"] for r in there["rows"]]  # type: ignore[attr-defined]
    largest = difference(here["rows"], there["rows"]) if same_ids else float("nan")  # type: ignore[arg-type]
    print(f"transformers {here['version']} and {there['version']}")
    print(f"token ids equal: {same_ids}; pairs equal: {here['pair'] == there['pair']}")
    strays = [seen["strays"] or "none" for seen in (here, there)]
    print(f"missing or unexpected tensors: {strays[0]} / {strays[1]}")
    print(f"largest difference of a logit: {largest:.2g}")
    good = same_ids and here["pair"] == there["pair"] and largest < 1e-4
    sys.exit(0 if good and not here["strays"] and not there["strays"] else 1)


if __name__ == "__main__":
    main()
