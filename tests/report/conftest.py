"""A run on disk as the stages write it, with Korean text, made without training anything."""

import copy
import json
import math

import pytest

from lingraft.recipe import decoding
from lingraft.rundir import Run

TEXT = "문서를 저장하려면 파일 메뉴에서 저장을 선택합니다."
TOKENS = "<s> ▁문서를 ▁저장 하려면 ▁파일 ▁메뉴에서 ▁저장을 ▁선택합니다 . </s>"
DECOYS = ("▁문서", "▁파일", "▁저장", "▁선택", "습니다", "▁이", ".", "▁셀", "▁텍스트")


def statistics(per_word, coverage):
    return {
        "tokens_per_word": per_word, "characters_per_token": 4.53 / per_word,
        "unknown_rate": 1 - coverage, "character_coverage": coverage, "round_trip": 0.997,
    }  # fmt: skip


CORPUS = {
    "language": "ko",
    "scripts": ["Hang", "Kore"],
    "sources": [{"name": "libreoffice-help.ko.txt.xz", "bytes": 812_345, "documents": 17_204}],
    "documents": 17_204,
    "sentences_in": 31_870,
    "dropped": {"duplicate": 4_212, "script": 1_630, "control characters": 3},
    "splits": {
        "train": {"documents": 16_516, "sentences": 24_520, "characters": 1_130_204},
        "test": {"documents": 344, "sentences": 510, "characters": 22_871},
    },
}
TOKENIZER = {
    "kind": "unigram",
    "vocab_size": 4_000,
    "max_tokens": 512,
    "specials": {
        "bos": ["<s>", 0], "pad": ["<pad>", 1], "eos": ["</s>", 2], "unk": ["<unk>", 3],
        "mask": ["<mask>", 4],
    },
    "statistics": {"train": statistics(1.92, 0.9996), "test": statistics(1.98, 0.9991)},
    "source_statistics": {"train": statistics(6.4, 0.31), "test": statistics(6.41, 0.31)},
    "tokens": {
        "train": {"sentences": 24_520, "tokens": 436_120, "cut": 12},
        "test": {"sentences": 510, "tokens": 9_117, "cut": 0},
    },
}  # fmt: skip
GRAFT = {
    "model_type": "modernbert",
    "layers": {"source": 4, "before": 1, "after": 1},
    "parameters": {"total": 6_389_920},
    "notes": ["The first source layer had no attention norm: it has one of weight one."],
    "embeddings": {
        "initializer": "match", "provenance": {"fresh": 3_655, "exact": 341, "special": 4},
    },
}  # fmt: skip
ENVIRONMENT = {
    "command": "lingraft adapt demo/recipe.toml --set hardware.precision=bf16",
    "lingraft": "0.1.0", "python": "3.11.2", "torch": "2.10.0", "transformers": "5.23.0",
    "tokenizers": "0.22.1",
    "cpu": "2 cores", "precision": "bf16", "started": "2026-11-20T10:15:00+00:00",
}  # fmt: skip


def recipe_data(**changes):
    data = {
        "name": "demo-ko",
        "language": "ko",
        "source": {"model": "/home/someone/models/english-small"},
        "corpus": {"text": ["/home/someone/text/libreoffice-help.ko.txt.xz"]},
        "tokenizer": {"vocab_size": 4_000},
        "embeddings": {"init": "match"},
        "phases": [
            phase("phase-1", ["embeddings", "output_bias", "inserted"], 350_000),
            phase("phase-2", ["all"], 530_000),
        ],
        "baselines": [{"method": "scratch"}],
    }
    return {**data, **changes}


def phase(name, train, tokens):
    return {
        "name": name, "train": train, "budget": {"value": float(tokens), "unit": "tokens"},
        "batch": {"size": 2_048, "unit": "tokens"}, "optimizer": {"learning_rate": 2e-3},
    }  # fmt: skip


def finish(folder, result, seconds=12.5):
    folder.mkdir(parents=True, exist_ok=True)
    content = {"fingerprint": "0123456789abcdef", "seconds": seconds, "result": result}
    (folder / "done.json").write_text(json.dumps(content), "utf-8")


def training_rows(phases, floor, start=8.3, every=10):
    """Loss falls from `start` towards `floor`; phases are (name, steps, tokens a step)."""
    rows, seen = [], 0
    for name, steps, per_step in phases:
        for step in range(every, steps + 1, every):
            seen_now = seen + step * per_step
            loss = floor + (start - floor) * math.exp(-seen_now / 220_000) + 0.08 * math.sin(step)
            rate = 2e-3 * min(1, step / 20) * (1 - step / (steps + 1))
            row = {"phase": name, "step": step, "tokens": step * per_step, "loss": loss}
            rows.append({"kind": "train", **row, "learning_rate": rate})
            if step % (5 * every) == 0:
                rows.append({"kind": "valid", **row, "loss": loss + 0.05})
        seen += steps * per_step
    return rows


def write_training(folder, phases, floor):
    folder.mkdir(parents=True, exist_ok=True)
    rows = training_rows(phases, floor)
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    for name, steps, per_step in phases:
        last = [row for row in rows if row["phase"] == name and row["kind"] == "valid"][-1]
        first_of_two = len(phases) == 2 and name == "phase-1"
        parts = ["embeddings", "output_bias", "inserted"] if first_of_two else ["all"]
        finish(folder / name, {
            "steps": steps, "tokens": steps * per_step, "seconds": steps * per_step / 8_800,
            "best": {"loss": last["loss"]}, "stopped": "budget", "train": parts,
            "trainable_parameters": 2_601_376 if first_of_two else 6_389_920,
        })  # fmt: skip


def metrics(perplexity):
    hits = 100 / (1 + perplexity / 20)
    return {
        "perplexity": perplexity, "hits@1": 0.6 * hits, "hits@5": 0.9 * hits, "hits@10": hits,
        "mrr": 0.7 * hits / 100, "mr": perplexity * 1.7, "positions": 1_366,
    }  # fmt: skip


def sample(text, tokens, masked, right):
    """A sentence as evaluation writes it; the gold piece stands at rank `right`."""
    predictions = []
    for index in masked:
        pieces = [piece for piece in DECOYS if piece != tokens[index]][:5]
        if right < 5:
            pieces[right] = tokens[index]
        top = [[piece, 0.41 / (rank + 1)] for rank, piece in enumerate(pieces)]
        predictions.append({"index": index, "gold": tokens[index], "top": top})
    pieces = [[piece, i in masked] for i, piece in enumerate(tokens)]
    return {"text": text, "tokens": pieces, "predictions": predictions}


def evaluation(perplexity, masks="aaaa", entropy=6.02, right=0):
    return {
        "masks": {"fingerprint": masks, "sentences": 510, "positions": 1_366},
        "metrics": {"bert": metrics(0.92 * perplexity), "mask-only": metrics(perplexity)},
        "words": {"words": 2_000, "bits_per_character": 0.55 * math.log2(perplexity), "exact": 3.0},
        "unigram_entropy": entropy,
        "samples": [sample(TEXT, TOKENS.split(), (2, 7), right)],
    }  # fmt: skip


class Builder:
    """Writes stages of one run; each method can be left out, as in a run that is still going on."""

    def __init__(self, path, **changes):
        self.run = Run(path)
        path.mkdir(parents=True, exist_ok=True)
        recipe = decoding.decode(recipe_data(**changes))
        (path / "recipe.toml").write_text(decoding.to_toml(recipe), "utf-8")
        (path / "environment.json").write_text(json.dumps(ENVIRONMENT), "utf-8")

    def corpus(self, **changes):
        finish(self.run.path / "corpus", {**copy.deepcopy(CORPUS), **changes})
        return self

    def tokenizer(self, **changes):
        finish(self.run.path / "tokenizer", {**copy.deepcopy(TOKENIZER), **changes})
        return self

    def model(
        self, folder="", *, perplexity=46.4, tokens_per_step=2_048, scratch=False, **of_evaluation
    ):
        """Graft, phases and evaluation of the run's own model, or of a baseline in `folder`."""
        path = self.run.path / folder
        self.graft(path)
        if scratch:
            own = recipe_data(baselines=[], phases=[phase("phase-1", ["all"], 880_000)])
            (path / "recipe.toml").write_text(decoding.to_toml(decoding.decode(own)))
        phases = [("phase-1", 430, tokens_per_step)] if scratch else [
            ("phase-1", 170, tokens_per_step), ("phase-2", 260, tokens_per_step)
        ]  # fmt: skip
        write_training(path, phases, math.log(perplexity))
        finish(path / "evaluation", evaluation(perplexity, **of_evaluation))
        return self

    def graft(self, path):
        finish(path / "graft", copy.deepcopy(GRAFT))

    def whole(self, perplexity=46.4, scratch=164.6):
        self.corpus().tokenizer().model(perplexity=perplexity)
        self.model("baselines/scratch", perplexity=scratch, scratch=True, right=2)
        finish(self.run.path / "model", {"files": 6})
        return self


@pytest.fixture
def build(tmp_path):
    """Start a run: `build("name", language=…)`."""

    def start(name="demo-ko", **changes):
        return Builder(tmp_path / name, **changes)

    return start
