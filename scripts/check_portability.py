"""Load an exported model in another Python environment and compare: ids, loading report, logits.

Of an encoder–decoder the ids are those of the sentences and of what it generates for them.

    python scripts/check_portability.py RUN/model --python /path/to/other/bin/python
    python scripts/check_portability.py --families --python /path/to/other/bin/python

Both sides use stock transformers only; neither imports lingraft. With --families a tiny random
model of every family is exported first, as a run does it, and of some with other rotary positions
(docs/reference/families.md); for each the largest difference of a logit, and what it is without
the keys that the export writes for older versions. Nothing is installed: make the other
environment by hand.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

INNER = r"""
import json, sys
import torch, transformers
from transformers import AutoConfig, AutoTokenizer

sys.modules["lingraft"] = None  # an import of it would fail
folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
pair_of_stacks, auto = config.is_encoder_decoder, getattr(transformers, config.architectures[0])
model, info = auto.from_pretrained(folder, output_loading_info=True, trust_remote_code=False)
mask = tokenizer.mask_token or tokenizer.unk_token or ""  # T5 and causal models have none
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

OF_FAMILIES = r"""
import json, sys
import torch, transformers
from transformers import AutoConfig

sys.modules["lingraft"] = None
answers = {}
for folder in sys.argv[1:]:
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        auto = getattr(transformers, config.architectures[0])
        model, info = auto.from_pretrained(
            folder, output_loading_info=True, trust_remote_code=False, attn_implementation="eager"
        )
        ids = torch.arange(5, 101)[None]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if config.is_encoder_decoder:
            inputs["decoder_input_ids"] = ids
        with torch.no_grad():
            logits = model.float().eval()(**inputs).logits[0].float()
        # how safetensors names tied tensors is no loss
        strays = sorted(info["missing_keys"]) + sorted(info["mismatched_keys"])
        answers[folder] = {"logits": logits.tolist(), "strays": strays}
    except Exception as error:
        answers[folder] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"[:90]}
print(json.dumps({"version": transformers.__version__, "models": answers}))
"""
ROTARY: dict[str, tuple[str, dict[str, Any]]] = {
    "base 50,000": (
        "llama mistral ministral qwen2 qwen3 smollm3 helium olmo2 phi phi3 granite",
        {"rope_theta": 5e4},
    ),
    "llama3": (
        "llama",
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        | {"original_max_position_embeddings": 32, "rope_theta": 1e4},
    ),
    "yarn": (
        "llama mistral qwen2 qwen3 olmo2",
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
        | {"rope_theta": 1e4},
    ),
    "longrope": (
        "phi3",
        {"rope_type": "longrope", "short_factor": [1.1] * 8, "long_factor": [2.0] * 8}
        | {"original_max_position_embeddings": 32, "rope_theta": 1e4},
    ),
}
"""Rotary positions other than the class's own, and the families that are tried with them."""
GOOD = 1e-4
UNTIED = ", untied"
KNOWN = {
    "apertus": "keeps numbers of the activation in bf16; up to 0.003",
    "mt5": "4.57 scales what it takes for tied",
    "olmo2, yarn": "4.57 refuses to load it: its OLMo 2 has no YaRN",
}
"""What differs, and why; docs/reference/families.md says so too."""


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


def export(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Tiny random models of all families that 4.57 has a class for: as exported, and as saved."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
    import torch
    from tiny_shapes import SHAPES
    from transformers import AutoConfig
    from transformers.utils import logging

    from lingraft.models import export as exports
    from lingraft.models.families import FAMILIES
    from lingraft.models.loading import auto_class

    logging.disable_progress_bar()
    asked = [(name, "", SHAPES[name]) for name, record in FAMILIES.items() if record.older]
    asked.append(("mt5", UNTIED, SHAPES["mt5"]))
    for title, (names, values) in ROTARY.items():
        rotary = {"rope_parameters": {"rope_type": "default"} | values}
        asked += [  # a copy each: Phi writes its own settings into it
            (name, f", {title}", SHAPES[name] | deepcopy(rotary)) for name in names.split()
        ]
    made = {}
    for name, title, shape in asked:
        ids = {"vocab_size": 320, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        ids |= {"decoder_start_token_id": 2} if FAMILIES[name].decoder_list is not None else {}
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(1)
            config = AutoConfig.for_model(name, **shape, **ids)
            model = auto_class(config).from_config(config, trust_remote_code=False).float().eval()
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
        if title == UNTIED:  # as all released ones; transformers 5 builds it tied
            model.lm_head.weight = torch.nn.Parameter(torch.randn(model.lm_head.weight.shape))
        both = folder / f"{len(made)}-export", folder / f"{len(made)}-saved"
        exports.write_model(model, both[0])
        model.save_pretrained(both[1])
        made[f"{name}{title}"] = both
    return made


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """The difference of a model on both sides, for the table."""
    error = ours.get("error") or theirs.get("error")
    if error:
        return str(error).replace("|", "/")
    strays = ours["strays"] + theirs["strays"]
    return f"{difference([ours], [theirs]):.2g}" + (f"; missing: {strays[0]}" if strays else "")


def deviation(logits: list[list[float]]) -> float:
    """Of the logits of a model."""
    return statistics.pstdev(value for row in logits for value in row)


def families(python: str) -> bool:
    """Compare all families; prints a table, and says whether all agree but those that are known."""
    with tempfile.TemporaryDirectory() as name:
        made = export(Path(name))
        folders = [str(path) for both in made.values() for path in both]
        seen = []
        for interpreter in (sys.executable, python):
            command = [interpreter, "-c", OF_FAMILIES, *folders]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{interpreter} fails:\n{done.stderr[-2000:]}")
            seen.append(json.loads(done.stdout.splitlines()[-1]))
    print(f"transformers {seen[0]['version']} and {seen[1]['version']}\n")
    print("| family | spread | largest difference of a logit | without the old keys | known |")
    print("|---|---|---|---|---|")
    good = True
    for title, both in made.items():
        (ours, theirs), before = ([side["models"][str(path)] for side in seen] for path in both)
        told = [compared(ours, theirs), compared(*before)]
        spread = "" if "error" in ours else f"{deviation(ours['logits']):.2f}"
        known = KNOWN.get(title, "")
        whole = "error" not in {**ours, **theirs} and not ours["strays"] + theirs["strays"]
        good &= bool(known) or (whole and difference([ours], [theirs]) < GOOD)
        print(f"| {title} | {spread} | {told[0]} | {told[1]} | {known} |")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("model", type=Path, nargs="?")
    what.add_argument("--families", action="store_true", help="tiny models of all families")
    parser.add_argument("--python", required=True, help="interpreter with the other transformers")
    arguments = parser.parse_args()
    if arguments.families:
        sys.exit(0 if families(arguments.python) else 1)
    here, there = run(sys.executable, arguments.model), run(arguments.python, arguments.model)
    same_ids = [r["ids"] for r in here["rows"]] == [r["ids"] for r in there["rows"]]  # type: ignore[attr-defined]
    largest = difference(here["rows"], there["rows"]) if same_ids else float("nan")  # type: ignore[arg-type]
    print(f"transformers {here['version']} and {there['version']}")
    print(f"token ids equal: {same_ids}; pairs equal: {here['pair'] == there['pair']}")
    strays = [seen["strays"] or "none" for seen in (here, there)]
    print(f"missing or unexpected tensors: {strays[0]} / {strays[1]}")
    print(f"largest difference of a logit: {largest:.2g}")
    good = same_ids and here["pair"] == there["pair"] and largest < GOOD
    sys.exit(0 if good and not here["strays"] and not there["strays"] else 1)


if __name__ == "__main__":
    main()
