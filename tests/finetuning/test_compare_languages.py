"""Tasks in several languages: averages, gaps, significance, XTREME's mean with retrieval."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from synthetic_transfer import write_transfer

from lingraft.errors import DataError
from lingraft.finetuning import score_tables
from lingraft.finetuning.compare import differences, marks_of
from lingraft.finetuning.compared import AVERAGE, GAP, collect
from lingraft.finetuning.outcomes import outcomes
from lingraft.finetuning.score_tables import read_retrievals, summary_table
from lingraft.report import row
from lingraft.report.row import Score
from lingraft.rundir import Step
from lingraft.tasks import RETRIEVAL_GROUPS, xtreme

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lingraft.report.table import Table

QUALITIES = {"A": {"en": 0.9, "de": 0.7, "ko": 0.5}, "B": {"en": 0.9, "de": 0.5, "ko": 0.2}}
WEIGHTS = {"A": "weights of A", "B": "weights of B"}


def cells(table: Table, *names: str) -> dict[str, str]:
    """The row that begins so."""
    (row,) = [r for r in table.rows if tuple(c.text for c in r.cells[: len(names)]) == names]
    titles = (column.title for column in table.columns)
    return dict(zip(titles, (cell.text + cell.mark for cell in row.cells), strict=True))


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """Two models with five seeds."""
    for label, quality in QUALITIES.items():
        write_transfer(tmp_path, label, "pawsx", quality, n=400, seeds=tuple(range(5)))
    return tmp_path


def test_average_and_gap_are_those_of_the_scores(five: Path) -> None:
    write_transfer(five, "C", "pawsx", {"en": 0.9, "de": 0.9}, n=400)
    comparison = collect([five])
    (result,) = comparison.results
    assert result.languages == ["en", "de", "ko"]
    (table,) = score_tables.of_languages(comparison, {})
    for label in QUALITIES:
        by_seed = [
            {tag: one.scores(f"test-{tag}")["accuracy"] for tag in ("en", "de", "ko")}
            for one in outcomes(five)
            if one.model_label == label
        ]
        row = cells(table, label)
        average = fmean(fmean(one.values()) for one in by_seed)
        gap = fmean(one["en"] - (one["de"] + one["ko"]) / 2 for one in by_seed)
        assert row[AVERAGE] == f"{average:.1f}"
        assert row[GAP] == f"{gap:.1f}"
        assert row["ko"] == f"{fmean(one['ko'] for one in by_seed):.1f}"
    lacks = cells(table, "C")
    assert [lacks[name] for name in ("ko", AVERAGE, GAP)] == ["–", "–", "–"]


def test_languages_are_tested_against_the_reference(five: Path) -> None:
    comparison = collect([five], "A")
    tested = differences(comparison, resamples=200)
    marks = {one.title: one.mark for one in tested}
    assert set(marks) == {f"pawsx en→{tag}" for tag in ("en", "de", "ko")}
    assert (marks["pawsx en→ko"], marks["pawsx en→en"]) == ("*", "")
    row = cells(score_tables.of_languages(comparison, marks_of(tested))[0], "B")
    assert {tag for tag, text in row.items() if text.endswith("*")} == {
        tag for tag in ("de", "ko") if marks[f"pawsx en→{tag}"]
    }


# -- XTREME's average


def retrieved(label: str, task: str, own: str | None, value: float, **axes: Any) -> Score:
    """A row as `lingraft analyze retrieval` writes it."""
    metric = axes.pop("metric", RETRIEVAL_GROUPS[task].scores[0])
    facts = {"chosen_on": "dev"} | ({"weights": own} if own else {})
    return Score(model=label, data=f"{task}-{axes['language']}", split=axes.pop("split", "test"),
                 metric=metric, value=value, reported=axes.pop("reported", True), facts=facts,
                 axes={"task": task, **axes})  # fmt: skip


def tatoeba(label: str, language: str, both: tuple[float, float], own: str | None) -> list[Any]:
    more = {"language": language, "protocol": "metaxlm"}
    rows = [
        retrieved(label, "tatoeba", own, value, layer=1, direction=way, **more)
        for way, value in zip(("en→xx", "xx→en"), both, strict=True)
    ]
    return [*rows, retrieved(label, "tatoeba", own, 99.0, layer=0, reported=False, **more)]


def bucc(label: str, language: str, f1: float, own: str | None) -> list[Any]:
    more = {"language": language, "layer": 2, "protocol": "lingraft"}
    return [
        retrieved(label, "bucc2018", own, f1, **more),
        retrieved(label, "bucc2018", own, 98.0, split="dev", reported=False, **more),
        retrieved(label, "bucc2018", own, 97.0, metric="recall", **more),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as a folder of `lingraft analyze retrieval`."""

    def write(name: str, *rows: Sequence[Any]) -> Path:
        place = tmp_path / name
        place.mkdir()
        Step(place).begin({"fingerprint": "f", "command": "retrieve"})
        row.write(place / "results.jsonl", (one for part in rows for one in part))
        return place

    return write


def test_results_of_other_weights_do_not_count_and_two_values_are_refused(
    folder: Callable[..., Path],
) -> None:
    assert not read_retrievals([folder("out", tatoeba("A", "de", (1, 1), "others"))], WEIGHTS)
    folders = [folder(str(n), bucc("A", "de", n, WEIGHTS["A"])) for n in (30.0, 31.0)]
    with pytest.raises(DataError, match="another number"):
        read_retrievals(folders, WEIGHTS)


def test_the_averages_of_seven_and_nine_are_there_with_all_their_tasks(
    tmp_path: Path, folder: Callable[..., Path]
) -> None:
    tuned = tmp_path / "tuned"
    for task in xtreme.SEVEN:
        other = "ko" if task == "tydiqa" else "de"
        write_transfer(tuned, "A", task, {"en": 0.9, other: 0.5}, seeds=(0,), n=20)
    comparison = collect([tuned])
    own = {one.name: one.number("A")[0] for one in comparison.results}

    def shown(*folders: Path) -> dict[str, str]:
        table = summary_table(comparison, read_retrievals(folders, comparison.weights))
        assert table is not None
        return cells(table, "A")

    eight = shown(folder("tatoeba", tatoeba("A", "de", (40.0, 60.0), None)))
    assert eight["average of seven"] == f"{fmean(own.values()):.1f}"
    assert "XTREME average" not in eight
    nine = shown(tmp_path / "tatoeba", folder("bucc", bucc("A", "de", 36.0, None)))
    assert nine["retrieval"] == "43.0"
    assert nine["XTREME average"] == f"{fmean([*own.values(), 50.0, 36.0]):.1f}"
    pair = fmean((own["xnli"], own["pawsx"]))
    assert nine["classification"] == f"{pair:.1f}"
