"""Tasks in several languages: averages, gaps, significance, XTREME's mean with retrieval."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from synthetic_transfer import write_transfer

from lingraft.errors import DataError
from lingraft.finetuning import score_tables, significance
from lingraft.finetuning.compare import compare
from lingraft.finetuning.compared import AVERAGE, GAP, MEAN, collect
from lingraft.finetuning.outcomes import outcomes
from lingraft.finetuning.xtreme_average import read_retrievals, summary_table
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
    (setting,) = comparison.settings
    assert list(setting.parts) == ["en", "de", "ko"]
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


def test_scores_on_other_examples_are_in_no_average(five: Path) -> None:
    write_transfer(five, "C", "pawsx", {"en": 0.9, "de": 0.9, "ko": 0.9}, n=300)
    comparison = collect([five], "A")
    row = cells(score_tables.of_languages(comparison, {})[0], "C")
    assert row["en"].endswith("†•")
    assert (row[AVERAGE], row[GAP]) == ("–", "–")


def test_where_nothing_was_transferred_there_is_no_gap(tmp_path: Path) -> None:
    write_transfer(tmp_path, "A", "pawsx", {"de": 0.7, "ko": 0.5}, n=40)  # English is not scored
    write_transfer(tmp_path, "B", "pawsx", {"de": 0.7}, train=("de",), n=40)
    for setting in collect([tmp_path]).settings:
        for label in "AB":
            assert setting.columns(label, "accuracy")[GAP] == {}


def test_answers_have_a_gap_of_f1_and_one_of_the_mean_with_exact_match(tmp_path: Path) -> None:
    write_transfer(tmp_path, "A", "xquad", {"en": 0.9, "de": 0.4}, seeds=(0,))
    (setting,) = collect([tmp_path]).settings
    (one,) = outcomes(tmp_path)
    english, german = (one.scores(f"test-{tag}") for tag in ("en", "de"))
    assert setting.keys == ("f1", "exact_match", MEAN)
    assert setting.key == MEAN
    assert setting.columns("A", "f1")[GAP] == {0: pytest.approx(english["f1"] - german["f1"])}
    both = [fmean((scores["f1"], scores["exact_match"])) for scores in (english, german)]
    assert setting.columns("A", MEAN)[GAP] == {0: pytest.approx(both[0] - both[1])}


def test_languages_and_their_mean_are_tested_against_the_reference(five: Path) -> None:
    comparison = collect([five], "A")
    tested = significance.differences(comparison, resamples=200)
    found = {one.title: one for one in tested}
    assert set(found) == {f"pawsx en→{tag}" for tag in ("", "en", "de", "ko")}
    mean = found["pawsx en→"]
    parts = [found[f"pawsx en→{tag}"].found.value for tag in ("en", "de", "ko")]
    assert mean.found.value == pytest.approx(fmean(parts))
    assert (mean.mark, found["pawsx en→en"].mark) == ("*", "")
    assert mean.found.low is not None
    assert mean.found.low < mean.found.value < (mean.found.high or 0)
    marks = {(one.title, one.key): {one.label: one.mark} for one in tested}
    row = cells(score_tables.of_languages(comparison, marks)[0], "B")
    starred = {tag for tag, text in row.items() if text.endswith(("*", "*•"))}
    assert starred == {tag for tag in ("de", "ko") if found[f"pawsx en→{tag}"].mark} | {AVERAGE}
    (table, *_), _ = compare([five], five / "page.html", reference="A", resamples=200)
    assert cells(table, "B")["pawsx en→3"].endswith("*")


def test_directions_are_rows_with_a_marked_diagonal(tmp_path: Path) -> None:
    for train in ("en", "de"):
        quality = {tag: 0.9 if tag == train else 0.3 for tag in ("en", "de")}
        write_transfer(tmp_path, "A", "pawsx", quality, train=(train,), seeds=(0,))
    (table,) = score_tables.of_languages(collect([tmp_path]), {})
    marks = {row.cells[1].text: [cell.mark for cell in row.cells[3:5]] for row in table.rows}
    heads = [column.title for column in table.columns[3:5]]
    assert marks == {train: ["•" if head == train else "" for head in heads] for train in heads}


def test_scores_of_two_splits_do_not_stand_side_by_side(five: Path) -> None:
    for place in (five / "B").glob("*/*"):  # reports dev, as a task without a test set does
        for path in place.glob("*-test-*"):
            path.rename(path.with_name(path.name.replace("-test-", "-dev-")))
        scores = place / "scores.json"
        scores.write_text(scores.read_text().replace('"test-', '"dev-'))
    comparison = collect([five], "A")
    titles = {setting.title: {*setting.first.runs} for setting in comparison.settings}
    assert titles == {"pawsx (test) en→": {"A"}, "pawsx (dev) en→": {"B"}}
    assert significance.differences(comparison, resamples=200) == []


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


def test_results_are_a_models_by_its_weights_or_else_by_its_name(
    folder: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    made = folder(
        "out",
        tatoeba("called otherwise", "de", (40.0, 60.0), WEIGHTS["A"]),
        tatoeba("B", "de", (10.0, 20.0), None),
        tatoeba("stranger", "de", (1.0, 1.0), "weights of another"),
    )
    found = read_retrievals([made], WEIGHTS)["tatoeba"]
    assert {label: found.by_language(label) for label in found.values} == {
        "A": {"de": 50.0}, "B": {"de": 15.0},
    }  # fmt: skip
    assert "stranger" in caplog.text


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (tatoeba("A", "de", (1, 1), "others"), "A has other weights than the fine-tuned model"),
        (tatoeba("C", "de", (1, 1), "others"), "by one of the compared models (A, B)"),
        ([Score(model="A", metric="accuracy", value=1)], "no finished results of XTREME"),
    ],
    ids=["other weights", "another model", "no benchmark"],
)
def test_results_that_are_nobodys_are_refused(
    folder: Callable[..., Path], rows: Sequence[Any], said: str
) -> None:
    with pytest.raises(DataError) as refused:
        read_retrievals([folder("out", rows)], WEIGHTS)
    assert said in str(refused.value)


def test_two_folders_add_up_unless_they_contradict_each_other(folder: Callable[..., Path]) -> None:
    german = folder("de", bucc("A", "de", 30.0, WEIGHTS["A"]))
    french = folder("fr", bucc("A", "fr", 50.0, None), bucc("B", "fr", 20.0, None))
    found = read_retrievals([german, french, german], WEIGHTS)["bucc2018"]
    assert found.average("A") == {0: 40.0}
    assert found.average("B") == {}  # lacks German
    other = folder("other", bucc("A", "de", 31.0, WEIGHTS["A"]))
    with pytest.raises(DataError, match="another number"):
        read_retrievals([german, other], WEIGHTS)


def test_the_averages_of_seven_and_nine_are_there_with_all_their_tasks(
    tmp_path: Path, folder: Callable[..., Path]
) -> None:
    tuned = tmp_path / "tuned"
    for task in xtreme.SEVEN:
        other = "ko" if task == "tydiqa" else "de"
        write_transfer(tuned, "A", task, {"en": 0.9, other: 0.5}, seeds=(0,), n=20)
    comparison = collect([tuned])
    own = {
        setting.task: setting.columns("A", setting.key)[AVERAGE][0]
        for setting in comparison.settings
    }

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
