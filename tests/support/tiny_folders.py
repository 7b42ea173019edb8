"""Tiny models and texts, and the commands that read them or what they make: for damaged folders."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch
from tiny_causal import save as save_causal
from tiny_shapes import SHAPES
from tiny_tokenizers import build as tokenizer_of
from tiny_translators import save as save_translator
from tiny_translators import write_task
from transformers import AutoConfig, AutoModelForMaskedLM

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "own.toml": 'name = "own"\nkind = "classification"\nfiles = {train = "in.tsv", dev = "in.tsv"}',
    "study.toml": 'name = "tiny"\nbase = "run/recipe.toml"\n'
    'set = {"training.budget" = {value = 2, unit = "steps"}}\n[[grids]]\n'
    'method = ["xpt", "scratch"]',
    "gold.txt": "".join(f"{line} 1 1\n{line} 2 2\n" for line in range(1, 7)),
}
ADAPT = """adapt --text text.txt --lang ko --budget 2steps tokenizer.vocab_size=300
    hardware.row_tokens=64 tokenizer.max_tokens=64 evaluation.max_words=8 --out run --source """
TUNE = "finetune {} --task {} --seeds 1 epochs=1 --out {}"
ENCODER = ["check M"] * 8 + ["evaluate M --text a.txt --lang ko max_words=4"] * 4
ENCODER += ["analyze alignment M --text a.txt b.txt --out links.txt"] * 3
ENCODER += ["convert sentence-encoder M --out made", "convert seq2seq M --out made"]
ENCODER += [f"{ADAPT} M training.preset=xpt2021", TUNE.format("M", "own.toml", "tuned")]
TRANSLATOR = ["check M"] * 3 + ["translate M --text a.txt --out said.txt beams=1"] * 4
TRANSLATOR += [TUNE.format("M", "pairs/ko-en.toml", "said")]
CAUSAL = ["check M"] * 8 + ["evaluate M --text a.txt"] * 3 + [f"{ADAPT} M training.preset=auto"]
MODELS = {"roberta": ENCODER, "bert": ENCODER, "llama": CAUSAL, "bart": TRANSLATOR}
DRAWS = "resamples=100"
STUDY = "study run study.toml --out study"
RESULTS = {
    "run": [f"{ADAPT} roberta training.preset=xpt2021", "report run", "check run/recipe.toml"],
    "tuned": [TUNE.format("roberta", "own.toml", "tuned"), f"report tuned {DRAWS}"],
    "said": [TUNE.format("bart", "pairs/ko-en.toml", "said"), f"report said {DRAWS}"],
    "study": [STUDY, "study report study", "study plan study.toml --out study"],
    "found": [f"analyze retrieval roberta bert --pairs pairs --out found {DRAWS}",
              "convert sentence-encoder roberta --out made retrieval=found"],
    "links": ["analyze alignment roberta --gold s=gold.txt --text a.txt b.txt --out links "
              f"{DRAWS}"],
    "corpus": ["data clean text.txt --lang ko --out corpus"],
}  # fmt: skip


def build(home: Path, *, results: bool) -> dict[str, list[str]]:
    """Make models and texts in `home`; by name of a folder the commands that read it.

    Of results the first command makes the folder.
    """
    torch.set_num_threads(1)
    drawn = random.Random(0)
    words = [chr(drawn.randrange(0xAC00, 0xAD00)) * drawn.randint(1, 3) for _ in range(200)]
    lines = [" ".join(drawn.choices(words, k=9)) + ".\n" for _ in range(300)]
    write_task(home / "pairs")
    texts = FILES | {"text.txt": "".join(lines), "a.txt": "".join(lines[:6])}
    texts["b.txt"] = "".join(lines[6:12])
    rows = (f"{line[:-1]}\t{'ab'[place % 2]}\n" for place, line in enumerate(lines[:16]))
    texts["in.tsv"] = "text\tlabel\n" + "".join(rows)
    texts |= {f"pairs/tatoeba.kor-eng.{code}": texts["a.txt"] for code in ("eng", "kor")}
    for name, text in texts.items():
        (home / name).write_text(text, "utf-8")
    for family in ("roberta", "bert"):
        tokenizer = tokenizer_of(family)
        ids = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        config = AutoConfig.for_model(family, **SHAPES[family], **ids)
        AutoModelForMaskedLM.from_config(config).save_pretrained(home / family)
        tokenizer.save_pretrained(home / family)
    save_causal(home / "llama", "llama")
    save_translator(home / "bart", "bart")
    return RESULTS if results else MODELS
