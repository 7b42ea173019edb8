from pathlib import Path

import numpy as np
import pytest

from lingraft.corpus import parallel
from lingraft.corpus.pairs import Layout, read
from lingraft.corpus.parallel import Checker, Limits, Pair
from lingraft.corpus.readers.lines import Reading
from lingraft.errors import DataError

GOOD = Pair("The cat sleeps.", "고양이가 잔다.", "0")


def check(
    *pairs: tuple[str, str], **changes: object
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    checker = Checker(("Latn",), ("Hang",), **changes)  # type: ignore[arg-type]
    found = checker.check(Pair(*sides, str(n)) for n, sides in enumerate(pairs))
    return [(pair.source, pair.target) for pair in found], dict(checker.dropped)


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("The cat.", "\u200b ", parallel.EMPTY),
        ("File", "file", parallel.IDENTICAL),
        ("The cat sleeps." * 400, "고양이가 잔다." * 400, parallel.TOO_LONG),
        ("The cat sleeps on the warm stove in the old kitchen of the house all day.", "응",
         parallel.LENGTH_RATIO),
        ("고양이", "고양이가 잔다.", parallel.WRONG_SCRIPT_SOURCE),
        ("The cat", "The dog", parallel.WRONG_SCRIPT_TARGET),
    ],
)  # fmt: skip
def test_a_bad_pair_is_dropped_with_its_reason(source: str, target: str, reason: str) -> None:
    kept, dropped = check((GOOD.source, GOOD.target), (source, target))
    assert kept == [(GOOD.source, GOOD.target)]
    assert dropped == {reason: 1}


def test_a_short_sentence_may_be_much_longer_in_the_other_language() -> None:
    assert check(("Good morning, sir.", "안녕"))[0]


def test_a_pair_without_letters_passes_the_script_check() -> None:
    assert check(("1 + 1", "1 + 1 ="))[0]


def test_duplicates_are_pairs_that_agree_on_both_sides_after_normalisation() -> None:
    kept, dropped = check(("a cat", "고양이"), ("a  cat ", "고양이"), ("a cat", "괭이"))
    assert kept == [("a cat", "고양이"), ("a cat", "괭이")]
    assert dropped == {parallel.DUPLICATE: 1}


def test_duplicates_are_found_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "BATCH_PAIRS", 2)
    kept, dropped = check(*[("a cat", "고양이")] * 5)
    assert (len(kept), dropped) == (1, {parallel.DUPLICATE: 4})


def test_a_side_in_another_language_is_dropped_by_the_function_given() -> None:
    kept, dropped = check(
        ("a cat", "고양이"),
        ("le chat", "고양이"),
        source_foreign=lambda texts: np.array([text.startswith("le") for text in texts]),
    )
    assert kept == [("a cat", "고양이")]
    assert dropped == {parallel.FOREIGN_SOURCE: 1}


def test_no_scripts_switch_the_script_check_off() -> None:
    checker = Checker(limits=Limits())
    assert list(checker.check([Pair("고양이", "ねこ", "0")]))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    assert parallel.write_tsv([GOOD, Pair("a\tb", "가\n나", "1")], path) == 2
    found = [(pair.source, pair.target) for pair in read([path], Layout("en", "ko"), Reading())]
    assert found == [(GOOD.source, GOOD.target), ("a b", "가 나")]
    assert [file.name for file in tmp_path.iterdir()] == ["a.tsv"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        parallel.write_tsv([GOOD], tmp_path / "missing" / "a.tsv")
