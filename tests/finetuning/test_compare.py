"""Scores, significance and the page of models after fine-tuning.

Tasks in several languages: averages, gaps, significance, XTREME's mean with retrieval.
"""

from __future__ import annotations

import shutil
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import pytest
from snapshots import check_page
from synthetic_results import write_model, write_run
from synthetic_transfer import write_transfer

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import outcomes, score_tables
from lingraft.finetuning.compare import confusion_table, confusions, differences, marks_of
from lingraft.finetuning.compared import AVERAGE, GAP, TaskComparison, collect
from lingraft.finetuning.score_tables import read_retrievals, summary_table
from lingraft.report import row
from lingraft.report.row import RESULTS, Score, read
from lingraft.rundir import Step
from lingraft.tasks import RETRIEVAL_GROUPS, TASKS, examples as rows, xtreme

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lingraft.report.table import Table, TableCell


def entry(table: Table, row: str, column: int) -> TableCell:
    return next(line.cells[column] for line in table.rows if line.cells[0].text == row)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models on two tasks with three seeds."""
    folder = tmp_path_factory.mktemp("results")
    for label, quality in (("scratch", 0.2), ("xpt", 0.95), ("mbert", 0.7)):
        write_model(folder, label, quality, ["klue-nli", "nsmc"], seeds=(0, 1, 2), n=80)
    write_model(folder, "half", 0.9, ["nsmc"], seeds=(0,), n=80)
    return folder


@pytest.fixture(scope="module")
def found(three: Path) -> TaskComparison:
    return collect([three])


def test_scores_are_means_and_sample_deviations_and_the_best_are_ranked(
    found: TaskComparison,
) -> None:
    table = score_tables.of_tasks(found, {})
    runs = {part.title: part.runs for part in found.parts}
    for column, head in list(enumerate(table.columns))[1:-1]:
        for label in ("scratch", "xpt", "mbert"):
            values = [run.rows[head.under].value for run in runs[head.title][label]]
            cell = entry(table, label, column)
            assert (cell.text, cell.under) == (f"{fmean(values):.1f}", f"± {stdev(values):.1f}")
    assert [entry(table, "xpt", i).rank for i in (1, 2)] == [1, 1]
    assert entry(table, "scratch", 1).rank == 0


# -- significance


def test_a_clear_difference_is_significant_and_none_is_not(tmp_path: Path) -> None:
    task = TASKS["nsmc"]
    examples = [rows.TextExample(str(i), f"text {i}", None, task.labels[0]) for i in range(80)]
    for label, right in (("scratch", 4), ("same", 4), ("good", 76)):
        for seed in (0, 1):
            wrong = [(i + 40 * seed) % 80 >= right for i in range(80)]
            said = [rows.LabelPrediction(str(i), task.labels[one]) for i, one in enumerate(wrong)]
            write_run(tmp_path, label, task, seed, examples, said)
    tested = {one.label: one for one in differences(collect([tmp_path]), 200)}
    assert tested["good"].mark == "*"
    assert tested["good"].found.value == pytest.approx(90)
    assert (tested["same"].found.value, tested["same"].found.p, tested["same"].mark) == (0, 1, "")


# -- files


def test_the_page_is_written(three: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    out = tmp_path / "pages" / "all.html"
    ended = command("report", three, "resamples=100", "reference=mbert", "--out", out).well()
    assert "nsmc" in ended.out
    check_page("comparison", out.read_text("utf-8"))


# -- which runs compare, and under which names


def test_seeds_in_two_folders_are_one_model_and_scratch_is_the_reference(tmp_path: Path) -> None:
    write_model(tmp_path / "a", "xpt", 0.5, ["nsmc"], seeds=(0, 1), n=10)
    write_model(tmp_path / "b", "xpt", 0.5, ["nsmc"], seeds=(1, 2), n=10)
    write_model(tmp_path / "b", "scratch", 0.5, ["nsmc"], n=10)
    folders = [tmp_path / "a", tmp_path / "b"]
    assert sorted(collect(folders).parts[0].rows("xpt", "accuracy")) == [(0,), (1,), (2,)]
    assert collect(folders).reference == "scratch"
    assert collect(folders, "xpt").reference == "xpt"
    with pytest.raises(RecipeError, match="only xpt, scratch"):
        collect(folders, "none")
    write_model(tmp_path / "c", "xpt", 0.5, ["nsmc"], n=10, fingerprint="other")
    with pytest.raises(DataError, match="under different settings"):
        collect([*folders, tmp_path / "c"])


def test_what_was_scored_on_other_examples_is_kept_apart(tmp_path: Path) -> None:
    write_model(tmp_path, "scratch", 0.5, ["nsmc"], n=10)
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], n=12)
    write_model(tmp_path, "half", 0.5, ["nsmc"], seeds=(0, 1), n=10)
    write_model(tmp_path, "half", 0.5, ["nsmc"], seeds=(2, 3), n=12)
    first, second = (
        (part.title, {one: [run.outcome.seed for run in runs] for one, runs in part.runs.items()})
        for part in collect([tmp_path]).parts
    )
    assert first == ("nsmc", {"scratch": [0, 1], "half": [0, 1]})
    assert second == ("nsmc (2)", {"xpt": [0, 1], "half": [2, 3]})


def test_predictions_that_do_not_give_the_saved_score_are_refused(tmp_path: Path) -> None:
    examples, said = nli("eee", "eee")
    file = write_run(tmp_path, "xpt", TASKS["klue-nli"], 0, examples, said) / "scores.json"
    file.write_text(file.read_text().replace('"accuracy": 100.0', '"accuracy": 75.0'))
    with pytest.raises(DataError, match=r"give accuracy 100\.00, scores.json says 75"):
        collect([tmp_path])


def test_a_users_own_task_is_the_one_that_was_saved(tmp_path: Path) -> None:
    table = {"name": "nsmc", "kind": "pair", "files": {"train": "gone.csv", "test": "test.csv"}}
    table |= {"labels": ["contradiction", "entailment", "neutral"], "metrics": ["macro_f1"]}
    more = {"task_definition": table, "shown": ["macro_f1"]}
    write_model(tmp_path, "xpt", 0.7, ["klue-nli"], n=40, **more)
    (part,) = collect([tmp_path]).parts
    assert (part.task.kind, part.task.shown) == ("pair", ("macro_f1",))
    assert part.task.labels == ("contradiction", "entailment", "neutral")  # as in the recipe


# -- confusions


def nli(gold: str, said: str) -> tuple[list[Any], list[Any]]:
    """Examples and predictions of entailment, contradiction and neutral by their letters."""
    names = {label[0]: label for label in TASKS["klue-nli"].labels}
    examples = [rows.TextExample(str(i), f"{i}", "나", names[g]) for i, g in enumerate(gold)]
    return examples, [rows.LabelPrediction(str(i), names[s]) for i, s in enumerate(said)]


def test_confusions_count_labels_entity_types_and_cut_scores() -> None:
    pairs = list(zip(*nli("eeecn", "eccce"), strict=True))
    counts = {(a[0], b[0]): n for (a, b), n in confusions(TASKS["klue-nli"], pairs).items()}
    assert counts == {("e", "e"): 1, ("e", "c"): 2, ("c", "c"): 1, ("n", "e"): 1}
    tags = ("B-PS", "I-PS", "I-PS", "I-PS", "O", "B-LC")
    example = rows.TaggedExample("0", tuple("ab cde"), tags, characters=True)
    said = rows.TagPrediction("0", ("B-PS", "I-PS", "I-PS", "O", "B-DT", "B-PS"))
    found = confusions(TASKS["klue-ner"], [(example, said)])
    assert found == {("PS", "PS"): 2, ("PS", "O"): 1, ("LC", "PS"): 1}
    gold = rows.TextExample("0", "a", "b", None, 3.0)
    found = confusions(TASKS["klue-sts"], [(gold, rows.ScorePrediction("0", 2.9))])
    assert found == {("similar", "different"): 1}


def test_what_gold_was_taken_for_is_counted_for_each_model(three: Path) -> None:
    part = next(part for part in collect([three]).parts if part.title == "klue-nli")
    (table,) = confusion_table(part)
    assert [column.title for column in table.columns][2:] == list(part.runs)
    assert sum(int(line.cells[1].text) for line in table.rows) == 80


def test_rows_of_a_seed_that_was_trained_anew_are_its_own(tmp_path):
    """Its inputs, and so its fingerprint and its place, are those of before."""
    found = []
    for quality in (0.9, 0.2):
        shutil.rmtree(tmp_path / "base", ignore_errors=True)
        write_model(tmp_path, "base", quality, ["nsmc"], seeds=(0,))
        outcomes.write_results(tmp_path)
        (outcome,) = outcomes.outcomes(tmp_path)
        (scores,) = (split.scores for split in outcome.splits.values())
        found.append({row.metric: row.value for row in read(tmp_path / RESULTS)})
        assert found[-1] == scores
    assert found[0] != found[1]


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
        own, tags = [one for one in outcomes.outcomes(five) if one.model_label == label], "en de ko"
        by_seed = [{t: one.scores(f"test-{t}")["accuracy"] for t in tags.split()} for one in own]
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
    ways = zip(("en→xx", "xx→en"), both, strict=True)
    rows = [retrieved(label, "tatoeba", own, f1, layer=1, direction=w, **more) for w, f1 in ways]
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


def test_results_of_other_weights_do_not_count(folder: Callable[..., Path]) -> None:
    assert not read_retrievals([folder("out", tatoeba("A", "de", (1, 1), "others"))], WEIGHTS)
    folders = [folder(str(n), bucc("A", "de", n, WEIGHTS["A"])) for n in (30.0, 31.0)]
    with pytest.raises(DataError, match="another number"):
        read_retrievals(folders, WEIGHTS)


def test_averages_are_there_with_all_the_tasks(tmp_path: Path, folder: Callable[..., Path]) -> None:
    tuned = tmp_path / "tuned"
    for task in xtreme.SEVEN:
        other = "ko" if task == "tydiqa" else "de"
        write_transfer(tuned, "A", task, {"en": 0.9, other: 0.5}, seeds=(0,), n=20)
    comparison = collect([tuned])
    own = {one.name: one.number("A")[0] for one in comparison.results}

    def shown(*folders: Path) -> dict[str, str]:
        table = summary_table(comparison, read_retrievals(folders, comparison.weights))
        return cells(table, "A")

    eight = shown(folder("tatoeba", tatoeba("A", "de", (40.0, 60.0), None)))
    assert eight["average of seven"] == f"{fmean(own.values()):.1f}"
    assert "XTREME average" not in eight
    nine = shown(tmp_path / "tatoeba", folder("bucc", bucc("A", "de", 36.0, None)))
    assert nine["retrieval"] == "43.0"
    assert nine["XTREME average"] == f"{fmean([*own.values(), 50.0, 36.0]):.1f}"
    pair = fmean((own["xnli"], own["pawsx"]))
    assert nine["classification"] == f"{pair:.1f}"
