"""What is held out: its copies win, and no stream learns what another holds out."""

import itertools
import json
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lingraft.corpus import aligned, stage, streams
from lingraft.corpus.cleaning.duplicates import signature
from lingraft.corpus.engine import job
from lingraft.corpus.result import HELD_OUT
from lingraft.corpus.split import SPLITS, split_of
from lingraft.corpus.stage import SplitFile
from lingraft.recipe import Corpus, Recipe, Stream
from lingraft.recipe.methods import recipe_from

WORDS = ["사람", "학교", "바다", "하늘", "책상", "나무", "구름", "시간", "마음", "노래", "도시"]
SHARES = {"valid": 0.02, "test": 0.02}


def sentence(number: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=8)) + f" {number}."


def rows(folder: Path, name: str, texts: dict[str, str]) -> Path:
    path = folder / name
    lines = [json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()]
    path.write_text("".join(lines))
    return path


def named(side: str, count: int) -> list[str]:
    """Names of documents that the hash puts on one side."""
    names = (f"{side}-{n}" for n in itertools.count())
    return list(itertools.islice((x for x in names if split_of(x, 0, **SHARES) == side), count))


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


def mix(value: int) -> int:
    """SplitMix64's finaliser, in Python's integers."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def test_a_signature_is_what_plain_integers_give() -> None:
    step = 0x9E3779B97F4A7C15
    one = "고양이가  Warm 아랫목에서 잔다 😀 그리고 또 잔다"
    folded = " ".join(one.split()).casefold()
    hashes = set()
    for start in range(len(folded) - 15):
        total = 0
        for character in folded[start : start + 16]:
            total = (total * step + ord(character) + 1) % 2**64
        hashes.add(mix(total) >> 32)
    drawn = [mix(n * step % 2**64) >> 32 for n in range(1, 225)]
    expected = [
        min((value * (factor | 1) + offset) % 2**32 for value in hashes)
        for factor, offset in zip(drawn[:112], drawn[112:], strict=True)
    ]
    assert signature(one).tolist() == expected


TENTHS = {"valid": 0.1, "test": 0.1}
ENDINGS = ("nachts", "heute", "immer")


def korean(number: int) -> str:
    syllables = np.random.default_rng(number).integers(0xAC00, 0xD7A3, 14)
    return "".join(map(chr, syllables[:7])) + " " + "".join(map(chr, syllables[7:])) + "."


def german(number: int, ending: str) -> str:
    letters = np.random.default_rng(number).integers(ord("a"), ord("z"), 12)
    return f"Wort {''.join(map(chr, letters))} {ending}."


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """300 Korean sentences, and three translations of each."""
    (tmp_path / "ko.txt").write_text("".join(korean(n) + "\n" for n in range(300)))
    both = ((korean(n), german(n, end)) for n in range(300) for end in ENDINGS)
    (tmp_path / "ko-de.tsv").write_text("".join("\t".join(pair) + "\n" for pair in both))
    both_streams = [
        {"name": name, "language": language, "corpus": {"text": [str(tmp_path / file)]} | TENTHS}
        for name, language, file in (("ko", "ko", "ko.txt"), ("pairs", "ko/de", "ko-de.tsv"))
    ]
    return recipe_from({"source": {"model": "m"}, "streams": both_streams})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def lines(folder: Path, split: str) -> list[str]:
    return (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines()


def test_no_sentence_is_on_two_sides_and_what_goes_is_counted(out: Path, recipe: Recipe):
    found = streams.prepare(recipe, out)
    sides = {s: {x for name in ("ko", "pairs") for x in lines(out / name, s)} for s in SPLITS}
    assert all(sides.values())
    for one, other in itertools.combinations(SPLITS, 2):
        assert not sides[one] & sides[other]
    for name, all_of_them in (("ko", 300), ("pairs", 900)):
        result, folder = found["streams"][name], out / name
        for split in SPLITS:
            counts, texts = result["splits"][split], lines(folder, split)
            starts = np.load(folder / f"{split}.documents.npy")
            assert (counts["sentences"], counts["documents"]) == (len(texts), len(starts))
            if name == "pairs":
                assert starts.tolist() == list(range(0, len(texts), 2))
        kept = sum(counts["documents"] for counts in result["splits"].values())
        assert result["dropped"][HELD_OUT] == all_of_them - kept > 0
        assert sorted(path.suffix for path in folder.iterdir()) == [".npy"] * 3 + [".txt"] * 3


@pytest.mark.parametrize("kind", ["pairs", "lines", "finished"])
def test_a_line_of_several_sentences_is_held_out_if_one_of_them_is(
    tmp_path: Path, out: Path, recipe: Recipe, kind: str
):
    two = [f"{korean(n)} {korean(n + 1)}" for n in range(0, 300, 2)]
    if kind == "pairs":
        two = [f"{side}\t{german(n, 'heute')}" for n, side in enumerate(two)]
    path = tmp_path / ("two.tsv" if kind == "pairs" else "two.txt")
    path.write_text("".join(line + "\n" for line in two))
    corpus = Corpus(text=(str(path),), split_sentences=kind == "pairs", **TENTHS)
    if kind == "finished":
        job.make(corpus, "ko", tmp_path / "made")
        corpus = Corpus(text=(str(tmp_path / "made"),))  # which decides on what the run leaves open
    text, language = recipe.streams[0], "ko/de" if kind == "pairs" else "ko"
    other = text.model_copy(update={"name": "two", "language": language, "corpus": corpus})
    found = streams.prepare(recipe.model_copy(update={"streams": (text, other)}), out)
    assert all(found["streams"][name]["dropped"][HELD_OUT] for name in ("ko", "two"))
    sides = ["".join(x for name in ("ko", "two") for x in lines(out / name, s)) for s in SPLITS]
    assert all(sum(korean(n) in side for side in sides) <= 1 for n in range(300))


@pytest.mark.parametrize(("count", "held"), [(30, 3), (200, 5)])
def test_few_pairs_hold_out_a_tenth_up_to_five_as_few_documents_do(
    out: Path, count: int, held: int
):
    path = out / "ko-de.tsv"
    path.write_text("".join(f"{korean(n)}\t{german(n, 'heute')}\n" for n in range(count)))
    section = Corpus(text=(str(path),), valid=0.001, test=0.001)
    result = aligned.prepare(section, ("ko", "de"), out)
    documents = {split: counts["documents"] for split, counts in result["splits"].items()}
    assert documents == {"train": count - 2 * held, "valid": held, "test": held}
    assert sorted(result["widened"]) == ["test", "valid"]


def test_whole_documents_go_where_most_of_them_is_held_out(tmp_path: Path):
    """Of another stream; a shared heading takes no document away."""
    section = Corpus(text=("x",), split_sentences=False, whole_documents=True)
    stream = Stream(name="one", language="ko", corpus=section)
    file = SplitFile(tmp_path / "train.txt")
    with file:
        file.write(["제목", "긴 글이 여기 하나 있다.", "끝"])
        file.write(["제목", "긴 글이 여기 둘 있다.", "끝"])
        file.save()
    mask = np.array([True, False, True, False, True, False])
    counts, gone = streams._without(tmp_path, "train", mask, stream)
    assert (counts["sentences"], gone) == (3, 3)
    assert lines(tmp_path, "train") == ["제목", "긴 글이 여기 하나 있다.", "끝"]
