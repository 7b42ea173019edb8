"""What is held out: its copies win, and a small corpus has some of it too; by both ways."""

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from lingraft.corpus import stage
from lingraft.corpus.split import SPLITS, split_of
from lingraft.recipe import Corpus

WORDS = ["사람", "학교", "바다", "하늘", "책상", "나무", "구름", "시간", "마음", "노래", "도시"]
SHARES = {"valid": 0.02, "test": 0.02}


def sentence(number: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=8)) + f" {number}."


def rows(folder: Path, name: str, texts: dict[str, str]) -> Path:
    path = folder / name
    lines = [json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()]
    path.write_text("".join(lines))
    return path


def named(side: str, count: int, **shares: float) -> list[str]:
    """Names of documents that the hash puts on one side."""
    shares = SHARES | shares
    names = (f"{side}-{n}" for n in range(100_000))
    found = (x for x in names if split_of(x, 0, shares["valid"], shares["test"]) == side)
    return [next(found) for _ in range(count)]


def split(
    paths: list[Path], out: Path, **changes: Any
) -> tuple[dict[str, set[str]], dict[str, Any]]:
    out.mkdir()
    section = Corpus(text=tuple(map(str, paths)), **SHARES | changes)
    result = stage.prepare(section, "ko", out)
    assert {path.name for path in out.iterdir()} == {
        f"{split}.{kind}" for split in SPLITS for kind in ("txt", "documents.npy")
    }
    return {s: set((out / f"{s}.txt").read_text().splitlines()) for s in SPLITS}, result


@pytest.mark.parametrize("held_out", ["valid", "test"])
def test_the_held_out_copy_of_a_sentence_is_kept_whatever_is_read_first(
    tmp_path: Path, held_out: str
):
    many = {f"text-{n}": sentence(n) for n in range(600)}
    shared = {name: sentence(9_000 + n) for n, name in enumerate(named(held_out, 20))}
    base = rows(tmp_path, "b.jsonl", many | shared)
    trained = dict(zip(named("train", 20), shared.values(), strict=True))
    added = rows(tmp_path, "a.jsonl", trained)
    alone, _ = split([base], tmp_path / "alone")
    first, counts = split([added, base], tmp_path / "first")
    last, _ = split([base, added], tmp_path / "last")
    assert set(shared.values()) <= first[held_out]
    assert first == last == alone
    assert counts["dropped"] == {"duplicate": 20}


def test_the_held_out_one_of_two_documents_that_are_nearly_alike_is_kept(tmp_path: Path):
    many = {f"text-{n}": sentence(n) for n in range(600)}
    long = " ".join(sentence(n) for n in range(2_000, 2_040))
    pair = {named("train", 1)[0]: long + " 하나 더.", named("test", 1)[0]: long + " 끝이다."}
    path = rows(tmp_path, "a.jsonl", pair | many)
    found, counts = split([path], tmp_path / "out", near_duplicates=True)
    assert counts["dropped"]["near duplicate"] == 1
    assert "끝이다." in found["test"]
    assert "하나 더." not in found["train"]


def test_a_small_corpus_holds_out_the_five_documents_with_the_lowest_places(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    texts = {name: sentence(n) for n, name in enumerate(named("train", 98))}
    with caplog.at_level(logging.INFO, logger="lingraft"):
        found, result = split([rows(tmp_path, "a.jsonl", texts)], tmp_path / "out")
    assert {name: len(found[name]) for name in SPLITS} == {"train": 88, "valid": 5, "test": 5}
    assert result["widened"] == ["valid", "test"]
    assert "give fewer than 5 documents to valid and test, so more are held" in caplog.text
    backwards = dict(reversed(texts.items()))
    again, _ = split([rows(tmp_path, "b.jsonl", backwards)], tmp_path / "again")
    assert again == found


@pytest.mark.parametrize(("documents", "held_out"), [(3, 1), (10, 1), (25, 2), (50, 5)])
def test_few_documents_hold_out_a_tenth_and_at_least_one(
    tmp_path: Path, documents: int, held_out: int
):
    texts = {name: sentence(n) for n, name in enumerate(named("train", documents))}
    found, _ = split([rows(tmp_path, "a.jsonl", texts)], tmp_path / "out")
    assert len(found["valid"]) == len(found["test"]) == held_out
