from pathlib import Path

import numpy as np
import pytest

from lingraft.corpus import pairs
from lingraft.corpus.pairs import Checker, Pair
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.readers.parallel import Layout, read
from lingraft.errors import DataError

GOOD = Pair("고양이가 잔다.", "The cat sleeps.")


def check(
    *sides: tuple[str, str], **changes: object
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    checker = Checker(("Latn",), ("Hang",), **changes)  # type: ignore[arg-type]
    found = checker.check(Pair(target, source) for source, target in sides)
    return [(pair.source, pair.target) for pair in found], dict(checker.dropped)


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("The cat.", "\u200b ", pairs.EMPTY),
        ("File", "file", pairs.IDENTICAL),
        ("The cat sleeps." * 400, "고양이가 잔다." * 400, pairs.TOO_LONG),
        ("The cat sleeps on the warm stove in the old kitchen of the house all day.", "응",
         pairs.LENGTH_RATIO),
        ("고양이", "고양이가 잔다.", pairs.WRONG_SCRIPT_SOURCE),
        ("The cat", "The dog", pairs.WRONG_SCRIPT_TARGET),
    ],
)  # fmt: skip
def test_a_bad_pair_is_dropped_with_its_reason(source: str, target: str, reason: str) -> None:
    kept, dropped = check((GOOD.source, GOOD.target), (source, target))
    assert kept == [(GOOD.source, GOOD.target)]
    assert dropped == {reason: 1}


def test_a_short_sentence_may_be_much_longer_in_the_other_language() -> None:
    assert check(("Good morning, sir.", "안녕"))[0]


def test_duplicates_are_pairs_that_agree_on_both_sides_after_normalisation() -> None:
    kept, dropped = check(("a cat", "고양이"), ("a  cat ", "고양이"), ("a cat", "괭이"))
    assert kept == [("a cat", "고양이"), ("a cat", "괭이")]
    assert dropped == {pairs.DUPLICATE: 1}


def test_a_side_in_another_language_is_dropped_by_the_function_given() -> None:
    kept, dropped = check(
        ("a cat", "고양이"),
        ("le chat", "고양이"),
        source_foreign=lambda texts: np.array([text.startswith("le") for text in texts]),
    )
    assert kept == [("a cat", "고양이")]
    assert dropped == {pairs.FOREIGN_SOURCE: 1}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    assert pairs.write_tsv([GOOD, Pair("가\n나", "a\tb")], path) == 2
    layout = Layout("en", "ko", columns=(1, 0))
    assert list(read([path], layout, Reading())) == [GOOD, Pair("가 나", "a b")]
    assert [file.name for file in tmp_path.iterdir()] == ["a.tsv"]


def test_pairs_whose_sides_are_swapped_are_said_to_be_so() -> None:
    checker = Checker(("Latn",), ("Hang",))
    right = [Pair("고양이가 잔다.", "The cat sleeps.")]
    swapped = [Pair(f"The {word} sleeps.", f"{word} 고양이가 잔다.") for word in ("a", "b")]
    foreign = [Pair("Кошка спит.", "The cat sleeps.")] * 9
    checked = checker.check([*foreign, *right, *swapped])
    with pytest.raises(DataError, match="other way round: 1 fit their languages, 2 would"):
        list(checked)
