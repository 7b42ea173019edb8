"""Tables of tasks in several languages: averages, gaps, directions, significance, XTREME's mean."""

from __future__ import annotations

import csv
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from synthetic_transfer import write_transfer

from lingraft.comparison import across, significance, tables, transfer
from lingraft.comparison.collect import collect
from lingraft.comparison.page import compare
from lingraft.finetuning.outcomes import outcomes
from lingraft.tasks import xtreme

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.comparison.across import Setting
    from lingraft.report.table import Table

QUALITIES = {"A": {"en": 0.9, "de": 0.7, "ko": 0.5}, "B": {"en": 0.9, "de": 0.5, "ko": 0.2}}


def settings_in(folder: Path) -> list[Setting]:
    return tables.settings_of(collect([folder]))


def cells(table: Table, label: str) -> dict[str, str]:
    (row,) = [row for row in table.rows if row.cells[0].text == label]
    return dict(zip((column.title for column in table.columns), map(str, row.cells), strict=True))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for label, quality in QUALITIES.items():
        write_transfer(tmp_path, label, "pawsx", quality, n=400)
    return tmp_path


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """As `two`, with five seeds."""
    for label, quality in QUALITIES.items():
        write_transfer(tmp_path, label, "pawsx", quality, n=400, seeds=tuple(range(5)))
    return tmp_path


def test_languages_count_alike_for_what_needs_no_model() -> None:
    rules = [{"most": {"accuracy": 80.0}}, {"most": {"accuracy": 40.0}}]
    of_language = [across._rules([rules[0]] * 7), across._rules([rules[1]] * 2)]
    assert across._rules(of_language) == {"most": {"accuracy": 60.0}}


def test_average_and_gap_are_those_of_the_scores(two: Path) -> None:
    (setting,) = settings_in(two)
    assert setting.languages == ("en", "de", "ko")
    scores: dict[str, list[dict[str, float]]] = {"A": [], "B": []}
    for one in outcomes(two):
        scores[one.model_label].append(
            {language: one.scores(f"test-{language}")["accuracy"] for language in QUALITIES["A"]}
        )
    shown = across.language_table(setting, {})
    titles = [column.title for column in shown.columns]
    assert titles == ["model", "en", "de", "ko", "average", "gap"]
    for row in shown.rows:
        of_seeds = scores[row.cells[0].text]
        average = fmean(fmean(one.values()) for one in of_seeds)
        by_hand = fmean(one["en"] - (one["de"] + one["ko"]) / 2 for one in of_seeds)
        assert row.cells[4].text == f"{average:.1f}"
        assert row.cells[5].text == f"{by_hand:.1f}"
        for at, language in enumerate(("en", "de", "ko"), 1):
            assert row.cells[at].text == f"{fmean(one[language] for one in of_seeds):.1f}"


def test_a_model_that_lacks_a_language_has_no_average(two: Path) -> None:
    write_transfer(two, "C", "pawsx", {"en": 0.9, "de": 0.9}, n=400)
    (setting,) = settings_in(two)
    shown = across.language_table(setting, {})
    (row,) = [row for row in shown.rows if row.cells[0].text == "C"]
    assert [cell.text for cell in row.cells[3:]] == ["–", "–", "–"]


def test_a_trained_language_that_is_not_scored_is_not_called_included(tmp_path: Path) -> None:
    write_transfer(tmp_path, "A", "pawsx", {"de": 0.7, "ko": 0.5}, n=40)
    (setting,) = settings_in(tmp_path)
    notes = " ".join(across.language_table(setting, {}).notes)
    assert "average: over the 2 languages, en not among them; only" in notes
    assert "gap:" not in notes
    write_transfer(tmp_path, "B", "pawsx", {"de": 0.7, "ko": 0.5}, train=("de", "en"), n=40)
    write_transfer(tmp_path, "C", "pawsx", {"ko": 0.5}, train=("de",), n=40)
    said = [" ".join(across.language_table(one, {}).notes) for one in settings_in(tmp_path)]
    assert sum("over the 2 languages, de included, en not among them; only" in s for s in said) == 1
    assert sum("average: over 1 language, de not among them; only" in s for s in said) == 1
    assert "gap:" not in " ".join(said)


def test_what_chose_the_weights_is_said_where_it_differs(two: Path) -> None:
    write_transfer(two, "C", "pawsx", QUALITIES["A"], select_on="mean", n=400)
    (setting,) = settings_in(two)
    notes = " ".join(across.language_table(setting, {}).notes)
    assert "development sets of en (A, B)." in notes
    assert "the mean over all tested languages (C)." in notes


def test_answers_have_a_gap_of_f1_and_one_of_the_mean_with_exact_match(tmp_path: Path) -> None:
    write_transfer(tmp_path, "A", "xquad", {"en": 0.9, "de": 0.4}, seeds=(0,))
    (setting,) = settings_in(tmp_path)
    (found,) = outcomes(tmp_path)
    english, german = (found.scores(f"test-{one}") for one in ("en", "de"))
    assert setting.keys == ("f1", "exact_match", across.MEAN)
    assert setting.gap("A", "f1") == {0: pytest.approx(english["f1"] - german["f1"])}
    both = [fmean((one["f1"], one["exact_match"])) for one in (english, german)]
    assert setting.gap("A", across.MEAN) == {0: pytest.approx(both[0] - both[1])}
    assert setting.number == across.MEAN
    rows = across.language_table(setting, {}).rows
    assert [row.cells[1].text for row in rows] == ["f1", "exact match", across.MEAN]


def test_languages_and_their_mean_are_tested_against_the_reference(five: Path) -> None:
    found = {
        (one.title, one.label): one
        for one in significance.differences(collect([five], "A"), resamples=200)
    }
    assert set(found) == {(f"pawsx en→{one}", "B") for one in ("", "en", "de", "ko")}
    parts = [found[f"pawsx en→{one}", "B"].found.value for one in ("en", "de", "ko")]
    mean = found["pawsx en→", "B"]
    assert mean.found.value == pytest.approx(fmean(parts))
    assert mean.mark == "*"
    assert found["pawsx en→en", "B"].mark == ""
    assert mean.found.low is not None
    assert mean.found.low < mean.found.value < (mean.found.high or 0)


def test_two_seeds_that_agree_too_little_for_a_t_test_give_no_mark(two: Path) -> None:
    found = significance.differences(collect([two], "A"), resamples=200)
    differing = [one for one in found if one.found.p is not None and one.found.p < 0.05]
    assert differing
    for one in differing:
        assert one.found.p_seeds is not None
        assert one.mark == ("*" if one.found.p_seeds < 0.05 else "")
    assert not all(one.mark for one in differing)


def test_marks_of_the_languages_stand_in_the_table(five: Path) -> None:
    comparison = collect([five], "A")
    tested = significance.differences(comparison, resamples=200)
    shown = transfer.section(tables.settings_of(comparison), tested)
    assert shown is not None
    (row,) = [row for row in shown.languages[0].rows if row.cells[0].text == "B"]
    assert [cell.mark for cell in row.cells[1:5]] == ["", "*", "*", "*"]


def test_a_task_in_many_languages_counts_once_in_the_average(two: Path) -> None:
    for label in QUALITIES:
        write_transfer(two, label, "xnli", {"en": 0.8, "de": 0.8})
    comparison = collect([two])
    found = tables.measured(comparison)
    assert [one.title for one in found] == ["pawsx en→3", "xnli en→2", "average"]
    pawsx, xnli, average = (one.summaries["A"].mean for one in found)
    assert average == pytest.approx((pawsx + xnli) / 2)


def test_there_is_an_average_of_seven_only_with_seven(tmp_path: Path) -> None:
    for task in xtreme.SEVEN[:-1]:
        if task not in ("udpos", "panx"):
            write_transfer(tmp_path, "A", task, {"en": 0.9, "de": 0.5}, seeds=(0,), n=20)
    found = transfer.summary_table(settings_in(tmp_path))
    assert found is not None
    titles = [column.title for column in found.columns]
    assert titles == ["model", "xnli", "pawsx", "xquad", "mlqa", "classification"]
    numbers = [float(cell.text) for cell in found.rows[0].cells[1:]]
    assert numbers[4] == pytest.approx((numbers[0] + numbers[1]) / 2, abs=0.11)
    assert any("No XTREME average: udpos, panx, tydiqa, bucc2018" in one for one in found.notes)
    assert found.columns[1].under == "2 of 15 languages"


def test_directions_are_a_square_with_a_marked_diagonal_and_one_scale(tmp_path: Path) -> None:
    for label, best in (("A", 0.9), ("B", 0.6)):
        for train in ("en", "de", "ko"):
            quality = {one: best if one == train else 0.3 for one in ("en", "de", "ko")}
            write_transfer(tmp_path, label, "pawsx", quality, train=(train,), seeds=(0,))
    settings = settings_in(tmp_path)
    matrices = across.directions(settings)
    assert [(one.label, one.key) for one in matrices] == [("A", "accuracy"), ("B", "accuracy")]
    shown = across.direction_table(matrices[0])
    order = [row.cells[0].text for row in shown.rows]
    assert [column.title for column in shown.columns] == ["trained in", *order, "average", "gap"]
    marks = [[cell.mark for cell in row.cells[1:4]] for row in shown.rows]
    assert marks == [[across.SAME if x == y else "" for x in range(3)] for y in range(3)]
    written = {one.name: one.alone() for one in transfer.heat_maps(matrices, settings)}
    assert set(written) == {"directions-0", "directions-1"}
    for matrix, svg in zip(matrices, written.values(), strict=True):
        for found in matrix.means.values():
            assert f">{found.mean:.1f}</text>" in svg


def test_the_page_and_the_sheet_hold_the_languages(two: Path, tmp_path: Path) -> None:
    _, written = compare([two], tmp_path / "page.html", resamples=100)
    assert "pawsx, trained in en" in written[0].read_text()
    names = {path.name for path in written}
    assert {"page-languages.md", "page-languages.csv", "page-gap.svg"} <= names
    with (tmp_path / "page-languages.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    of_a = {row["test_language"]: float(row["mean"]) for row in rows if row["model"] == "A"}
    assert set(of_a) == {"en", "de", "ko", "average", "gap"}
    assert of_a["gap"] == pytest.approx(of_a["en"] - (of_a["de"] + of_a["ko"]) / 2)
    with (tmp_path / "page.csv").open(encoding="utf-8") as file:
        plain = list(csv.DictReader(file))
    assert {(row["task"], row["test_language"]) for row in plain} == {
        ("pawsx", one) for one in ("en", "de", "ko")
    }


def test_scores_of_two_splits_do_not_stand_side_by_side(two: Path) -> None:
    for place in (two / "B").glob("*/*"):  # reports dev, as a task without a test set does
        for path in place.glob("*-test-*"):
            path.rename(path.with_name(path.name.replace("-test-", "-dev-")))
        scores = place / "scores.json"
        scores.write_text(scores.read_text().replace('"test-', '"dev-'))
    comparison = collect([two], "A")
    found = {one.title: one.models for one in tables.settings_of(comparison)}
    assert found == {"pawsx (test) en→": ("A",), "pawsx (dev) en→": ("B",)}
    titles = {part.title for part in comparison.parts}
    assert {"pawsx (test) en→de", "pawsx (dev) en→de"} <= titles
    assert significance.differences(comparison, resamples=200) == []
    shown = tables.scores(comparison)
    assert [column.title for column in shown.columns[1:-1]] == [
        "pawsx (test) en→3",
        "pawsx (dev) en→3",
    ]
