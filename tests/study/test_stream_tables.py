"""A study in several languages: bits per character and perplexity of every stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synthetic_study import cell_rows, metric_rows

from lingraft.report.variants import TITLES
from lingraft.stats import Resampling
from lingraft.study import page, task_tables
from lingraft.study.results import collect

if TYPE_CHECKING:
    from lingraft.study.rows import AnyRow

OF_KOREAN = "stream/ko/bits_per_character"
LOSSES = {"xlm": {"en": 5.0, "ko": 6.0}, "metaxlm": {"en": 3.0, "ko": 6.5}}


def named(method: str) -> str:
    return TITLES.get(method, method)


def rows_of(method: str, seed: int) -> list[AnyRow]:
    """A cell whose streams have the losses above."""
    losses = LOSSES[method]
    rows: list[AnyRow] = cell_rows(method, None, seed, losses["en"])
    common = rows[0].model_dump(include={"study", "cell", "fingerprint", "axes"})
    for stream, loss in reversed(losses.items()):
        rows[:0] = [
            row.model_copy(update={"metric": f"stream/{stream}/{row.metric}"})
            for row in metric_rows(common, loss + 0.01 * seed, masks=stream)
        ]
    return rows


def found() -> list[AnyRow]:
    return [row for method in LOSSES for seed in (0, 1) for row in rows_of(method, seed)]


def test_each_stream_has_its_column_and_its_own_best() -> None:
    bits, less, *_ = task_tables.by_stream(collect(found()), None, Resampling(200))

    assert [column.title for column in bits.columns] == ["method", "en", "ko", "seeds"]
    texts = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in bits.rows}
    assert texts[named("xlm")] == ["3.003", "3.603", "2"]
    assert texts[named("metaxlm")] == ["1.803", "3.903", "2"]
    best = {row.cells[0].text: [bool(cell.rank) for cell in row.cells[1:3]] for row in bits.rows}
    assert best == {named("xlm"): [False, True], named("metaxlm"): [True, False]}
    (only,) = less.rows
    assert less.columns[0].title == f"less {named('xlm')}"
    assert only.cells[1].text == "−1.200"
    assert only.cells[2].text == "+0.300"


def test_bits_over_other_words_than_the_references_are_marked_and_never_the_best() -> None:
    rows = [
        row.model_copy(update={"n": 4_900})
        if row.kind == "metric" and (row.metric, row.axes["method"]) == (OF_KOREAN, "metaxlm")
        else row
        for row in found()
    ]

    bits, less, *_ = task_tables.by_stream(collect(rows), None, Resampling(200))

    for table in (bits, less):
        (marked,) = (row for row in table.rows if row.cells[0].text == named("metaxlm"))
        assert [cell.mark for cell in marked.cells[1:3]] == ["", "‡"]
        assert table.notes == (
            f"‡ {named('metaxlm')} (4,900 words): bits/char of ko over other words than those of "
            f"{named('xlm')} (5,000 words), so it compares only roughly.",
        )
    assert not any(row.cells[2].rank for row in bits.rows)


def test_a_study_of_one_text_has_no_such_table() -> None:
    rows = cell_rows("scratch", None, 0, 4.0)

    assert list(task_tables.by_stream(collect(rows), None, Resampling(200))) == []
    assert "Which language gains?" not in page.render("one", rows)


def test_the_page_shows_the_tables() -> None:
    text = page.render("several", found())

    assert "Which language gains?" in text
    assert "Bits/char by stream, differences" in text
