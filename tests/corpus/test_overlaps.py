"""What is held out of one stream is learnt in none, and of pairs of which either side is."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from lingraft.corpus import aligned, streams
from lingraft.corpus.engine import job
from lingraft.corpus.result import HELD_OUT
from lingraft.corpus.split import SPLITS
from lingraft.corpus.stage import SplitFile
from lingraft.recipe import Corpus, Recipe, Stream
from lingraft.recipe.methods import recipe_from

SHARES = {"valid": 0.1, "test": 0.1}
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
    text = {"name": "ko", "language": "ko", "corpus": {"text": [str(tmp_path / "ko.txt")]}}
    pairs = {
        "name": "pairs",
        "language": "ko/de",
        "corpus": {"text": [str(tmp_path / "ko-de.tsv")]},
    }
    for stream in (text, pairs):
        stream["corpus"] |= SHARES  # type: ignore[attr-defined]
    return recipe_from({"source": {"model": "m"}, "streams": [text, pairs]})


def lines(folder: Path, split: str) -> list[str]:
    return (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines()


def test_no_sentence_is_on_two_sides_of_all_streams_together(tmp_path: Path, recipe: Recipe):
    out = tmp_path / "out"
    out.mkdir()
    streams.prepare(recipe, out)
    sides = {s: {x for name in ("ko", "pairs") for x in lines(out / name, s)} for s in SPLITS}
    assert all(sides.values())
    for one, other in itertools.combinations(SPLITS, 2):
        assert not sides[one] & sides[other]


@pytest.mark.parametrize(
    ("language", "settings"), [("ko/de", {}), ("ko", {"split_sentences": False})]
)
def test_a_line_of_several_sentences_is_held_out_if_one_of_them_is(
    tmp_path: Path, recipe: Recipe, language: str, settings: dict[str, bool]
):
    two = [f"{korean(n)} {korean(n + 1)}" for n in range(0, 300, 2)]
    path = tmp_path / "two.tsv"
    if "/" in language:
        two = [f"{side}\t{german(n, 'heute')}" for n, side in enumerate(two)]
    else:
        path = tmp_path / "two.txt"
    path.write_text("".join(line + "\n" for line in two))
    corpus = Corpus(text=(str(path),), **SHARES, **settings)
    text = recipe.streams[0]
    other = text.model_copy(update={"name": "two", "language": language, "corpus": corpus})
    out = tmp_path / "out"
    out.mkdir()
    found = streams.prepare(recipe.model_copy(update={"streams": (text, other)}), out)
    assert all(found["streams"][name]["dropped"][HELD_OUT] for name in ("ko", "two"))
    sides = ["".join(x for name in ("ko", "two") for x in lines(out / name, s)) for s in SPLITS]
    assert all(sum(korean(n) in side for side in sides) <= 1 for n in range(300))


def test_lines_of_a_finished_corpus_that_was_not_cut_are_compared_by_sentences(
    tmp_path: Path, recipe: Recipe
):
    two = tmp_path / "two.txt"
    two.write_text("".join(f"{korean(n)} {korean(n + 1)}\n" for n in range(0, 300, 2)))
    made = job.make(Corpus(text=(str(two),), split_sentences=False, **SHARES), "ko", tmp_path / "c")
    assert made["splits"]["test"]["sentences"]
    text = recipe.streams[0]
    corpus = Corpus(text=(str(tmp_path / "c"),))  # which decides on what the run leaves open
    other = text.model_copy(update={"name": "two", "corpus": corpus})
    out = tmp_path / "out"
    out.mkdir()
    streams.prepare(recipe.model_copy(update={"streams": (text, other)}), out)
    sides = ["".join(x for name in ("ko", "two") for x in lines(out / name, s)) for s in SPLITS]
    assert all(sum(korean(n) in side for side in sides) <= 1 for n in range(300))


def test_what_goes_is_counted_and_what_stays_is_whole(tmp_path: Path, recipe: Recipe):
    out = tmp_path / "out"
    out.mkdir()
    found = streams.prepare(recipe, out)
    for name, all_of_them in (("ko", 300), ("pairs", 900)):
        result, folder = found["streams"][name], out / name
        for split in SPLITS:
            counts, texts = result["splits"][split], lines(folder, split)
            starts = np.load(folder / f"{split}.documents.npy")
            assert counts["sentences"] == len(texts)
            assert counts["documents"] == len(starts)
            if name == "pairs":
                assert starts.tolist() == list(range(0, len(texts), 2))
        kept = sum(counts["documents"] for counts in result["splits"].values())
        assert result["dropped"][HELD_OUT] == all_of_them - kept > 0
        assert sorted(path.suffix for path in folder.iterdir()) == [".npy"] * 3 + [".txt"] * 3


@pytest.mark.parametrize(("count", "held"), [(30, 3), (200, 5)])
def test_few_pairs_hold_out_a_tenth_up_to_five_as_few_documents_do(
    tmp_path: Path, count: int, held: int
):
    path = tmp_path / "ko-de.tsv"
    path.write_text("".join(f"{korean(n)}\t{german(n, 'heute')}\n" for n in range(count)))
    out = tmp_path / "out"
    out.mkdir()
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
