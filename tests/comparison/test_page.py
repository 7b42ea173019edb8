"""The comparison page and the files beside it."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.console import Console
from synthetic_results import made_examples, write_model, write_run

from lingraft.comparison import across, significance, tables
from lingraft.comparison.collect import answers, collect
from lingraft.comparison.errors import analyse
from lingraft.comparison.page import compare
from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import outcomes
from lingraft.report.table import Cell, row, table, terminal
from lingraft.stats import Resampling
from lingraft.tasks import TASKS
from lingraft.tasks.examples import LabelPrediction, TextExample

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingraft.report.table import Table

ALL = ("klue-nli", "klue-sts", "klue-ner", "klue-re", "klue-dp", "klue-mrc")


def entry(table: Table, row: str, column: int) -> Cell:
    return next(line.cells[column] for line in table.rows if line.cells[0].text == row)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for label, quality in (("scratch", 0.4), ("xpt", 0.95), ("mbert", 0.7)):
        write_model(folder, label, quality, ["klue-nli", "nsmc"], seeds=(0, 1, 2), n=80)
    return folder


@pytest.fixture
def three(written: Path, tmp_path: Path) -> Path:
    """Three models on two tasks with three seeds, in a folder that a test may add to."""
    return Path(shutil.copytree(written, tmp_path / "three"))


def test_neither_a_page_nor_a_file_beside_it_is_replaced_that_is_somebody_s(three: Path) -> None:
    for mine, named in ((".html", "is no page of lingraft"), (".csv", "is there already")):
        path = three / f"mine{mine}"
        path.write_text("mine")
        with pytest.raises(DataError, match=named):
            compare([three], three / "mine.html")
        assert path.read_text() == "mine"
        path.unlink()
    for _ in range(2):  # its own files it does replace
        compare([three], three / "mine.html", resamples=10)


def test_best_and_second_best_are_marked_in_every_column(three: Path) -> None:
    table = tables.scores(collect([three]))
    assert [entry(table, "xpt", i).rank for i in (1, 2, 3)] == [1, 1, 1]
    assert [entry(table, "mbert", i).rank for i in (1, 2, 3)] == [2, 2, 2]
    assert entry(table, "scratch", 1).rank == 0


@pytest.mark.parametrize("languages", [False, True])
def test_of_three_models_of_which_two_are_equal_none_is_the_second(languages: bool) -> None:
    for third, ranks in ((0.4, [1, 1, 0]), (0.6, [0, 0, 1]), (0.5, [1, 1, 1])):
        means = {"a": 0.5, "b": 0.5, "c": third}
        summaries = {label: outcomes.summary([mean]) for label, mean in means.items()}
        if languages:
            values = {label: {0: mean} for label, mean in means.items()}
            cells = [across._cell(values, label) for label in means]
        else:
            cells = [tables.Score("task", "accuracy", summaries).cell(label) for label in means]
        assert [cell.rank for cell in cells] == ranks


def test_a_score_is_mean_and_sample_deviation(three: Path) -> None:
    values = [*collect([three]).parts[0].values("xpt", "accuracy").values()]
    mean = sum(values) / 3
    deviation = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
    found = entry(tables.scores(collect([three])), "xpt", 1)
    assert (found.text, found.under) == (f"{mean:.1f}", f"± {deviation:.1f}")


def test_the_average_is_only_of_models_that_have_all_tasks(three: Path) -> None:
    write_model(three, "half", 0.9, ["nsmc"], seeds=(0,), n=80)
    table = tables.scores(collect([three]))
    assert entry(table, "half", 3).text == "–"
    parts = collect([three]).parts
    means = [sum(part.values("xpt", "accuracy").values()) / 3 for part in parts]
    assert entry(table, "xpt", 3).text == f"{sum(means) / 2:.1f}"


def test_a_clear_difference_is_significant_and_none_is_not(tmp_path: Path) -> None:
    for label, quality in (("scratch", 0.2), ("good", 0.95)):
        write_model(tmp_path, label, quality, ["nsmc"], n=80)
    write_model(tmp_path, "same", 0.2, ["nsmc"], n=80)
    for seed in (0, 1):  # a model that says what the reference says
        file = f"seed-{seed}/predictions-dev.jsonl"
        said = (tmp_path / "scratch" / "nsmc" / file).read_text()
        (tmp_path / "same" / "nsmc" / file).write_text(said)
        for name in ("scratch", "same"):
            scores = tmp_path / name / "nsmc" / f"seed-{seed}" / "scores.json"
            if name == "scratch":
                kept = re.search(r'"scores": {[^}]*}', scores.read_text())
            else:
                assert kept is not None
                scores.write_text(re.sub(r'"scores": {[^}]*}', kept.group(), scores.read_text()))
    found = {one.label: one for one in significance.differences(collect([tmp_path]), 200)}
    assert found["good"].mark == "*"
    assert found["good"].found.low > 0
    assert (found["same"].found.value, found["same"].found.p, found["same"].mark) == (0, 1, "")


def test_the_verdict_says_what_is_significant_and_what_comes_next(tmp_path: Path) -> None:
    for label, quality in (("scratch", 0.2), ("good", 0.95)):
        write_model(tmp_path, label, quality, ["nsmc"], n=80)
    found = collect([tmp_path])
    tested = significance.differences(found, 200)
    scores = tables.scores(found, tested)
    assert tables.verdict(found, scores, tested) == (
        "good is best of 2 models. The difference to scratch is significant (p < 0.05)."
    )
    step = tables.next_step(found, scores, tested)
    assert step is not None
    assert step.command.endswith("--keep-models --overwrite")
    assert "models/good" in step.command
    alike = [replace(one, found=replace(one.found, p=0.4)) for one in tested]
    assert tables.verdict(found, scores, alike).endswith(
        "models. But the difference to scratch is not significant (p < 0.05)."
    )
    assert "But none of 2 differences to sc" in tables.verdict(found, scores, [*alike, *alike])
    few = [replace(one, found=replace(one.found, p=None)) for one in tested]
    assert tables.verdict(found, scores, few).endswith(
        " Nothing is known of luck: the test sets have fewer than 10 documents."
    )
    chosen = tables.next_step(found, scores, few)
    assert chosen is not None
    assert "--seeds" not in chosen.command  # which would tell no more
    step = tables.next_step(found, scores, alike)
    assert step is not None
    assert step.command.endswith(" --seeds 4")  # twice as many


def test_a_score_that_a_model_lacks_is_one_line_on_a_small_test_set_too(tmp_path: Path) -> None:
    for label in ("scratch", "good"):
        write_model(tmp_path, label, 0.5, ["klue-sts"], n=4)
    for path in (tmp_path / "good").rglob("scores.json"):
        path.write_text(path.read_text().replace('"pearson"', '"other"'))
    with pytest.raises(DataError, match="says nothing of it"):
        significance.differences(collect([tmp_path]), 100)


@pytest.mark.parametrize(
    ("called", "again"),
    [
        ("lingraft finetune models/good --task my/mood.toml", "models/good --task my/mood.toml"),
        ("lingraft finetune all.toml --out runs/all", "all.toml --out runs/all"),
        ("lingraft finetune models/good --task nsmc --resume", "models/good --task nsmc"),
        ("lingraft.finetuning.run.finetune(...)", "models/good --task nsmc --data data"),
    ],
)
def test_the_call_that_keeps_the_weights_is_the_one_that_fine_tuned(
    called: str, again: str, tmp_path: Path
) -> None:
    for label, quality in (("scratch", 0.2), ("good", 0.95)):
        write_model(tmp_path, label, quality, ["nsmc"], n=80, command=called)
    comparison = collect([tmp_path])
    step = tables.next_step(comparison, tables.scores(comparison), ())
    assert step is not None
    assert step.command == f"lingraft finetune {again} --keep-models --overwrite"


def test_more_seeds_are_asked_for_in_the_recipe_that_was_fine_tuned(tmp_path: Path) -> None:
    for label in ("scratch", "good"):
        write_model(tmp_path, label, 0.5, ["nsmc"], n=80, command="lingraft finetune all.toml")
    comparison = collect([tmp_path])
    tested = significance.differences(comparison, 100)
    alike = [replace(one, found=replace(one.found, p=0.4)) for one in tested]
    step = tables.next_step(comparison, tables.scores(comparison, alike), alike)
    assert step == ("More seeds may tell the models apart (seeds = 4 in the recipe):",
                    "lingraft finetune all.toml")  # fmt: skip


def test_a_model_that_another_one_equals_is_not_called_best(three: Path) -> None:
    best, other = Cell("90.0", rank=1), Cell("80.0", rank=2)

    def said(a: list[Cell], b: list[Cell]) -> str:
        heads = ("model", *map(str, range(len(a))), "seeds")
        scores = table("Scores", heads, [row("a", *a, "2"), row("b", *b, "2")])
        return tables.verdict(collect([three]), scores, ())

    assert said([best, other], [best, best]) == "b is best of 2 models in 1 of 2 columns."
    assert said([best], [best]) == "Neither model is best alone."
    assert said([best] * 2, [best] * 2) == "Neither model is best alone in any of 2 columns."
    assert said([best, other], [other, best]) == (
        "a and b are each best of 2 models in 1 of 2 columns."
    )


def test_where_none_is_best_alone_nothing_is_said_to_be_but_luck(tmp_path: Path) -> None:
    for label in ("scratch", "same"):
        write_model(tmp_path, label, 0.5, ["nsmc"], n=80)
    found = collect([tmp_path])
    (test, *_) = significance.differences(found, 100)
    alike = replace(test, found=replace(test.found, p=1.0))
    best = Cell("90.0", rank=1)
    drawn = table("Scores", ("model", "x", "seeds"), [row(name, best, "2") for name in "ab"])
    assert tables.verdict(found, drawn, [alike]) == (
        "Neither model is best alone. The difference to scratch is not significant (p < 0.05)."
    )
    assert tables.verdict(found, drawn, [alike] * 2).endswith(
        ". None of 2 differences to scratch is significant (p < 0.05)."
    )


def test_a_split_that_is_reported_and_chose_the_weights_is_named(tmp_path: Path) -> None:
    write_model(tmp_path, "good", 0.95, ["nsmc"], n=80)
    write_model(tmp_path, "good", 0.95, ["klue-nli"], split="test")
    notes = [note for note in tables.scores(collect([tmp_path])).notes if "chose" in note]
    assert [note.partition(": ")[2] for note in notes] == ["nsmc."]


def test_examples_that_share_a_premise_are_drawn_together(tmp_path: Path) -> None:
    """Twelve premises of three examples each, right or wrong together, of which eight are drawn."""
    task = TASKS["nsmc"]
    examples = [TextExample(str(i), f"premise {i // 3}", None, task.labels[0]) for i in range(36)]
    said = [LabelPrediction(one.id, task.labels[i // 3 % 2]) for i, one in enumerate(examples)]
    write_run(tmp_path, "xpt", task, 0, examples, said)
    part = collect([tmp_path]).parts[0]
    found = significance.replicates(part, part.runs["xpt"], Resampling(500))
    eighths = found["accuracy", "xpt", 0] * 8 / 100
    assert eighths == pytest.approx(np.round(eighths))
    assert eighths.std() == pytest.approx(8**0.5 / 2, rel=0.1)


@pytest.mark.parametrize(
    ("saved", "says"), [('"accuracy": 75.0', "75.00"), ('"old_name": 100.0', "nothing of it")]
)
def test_predictions_that_do_not_give_the_saved_score_are_refused(
    saved: str, says: str, tmp_path: Path
) -> None:
    task = TASKS["nsmc"]
    examples = [TextExample(str(i), "text", None, task.labels[0]) for i in range(4)]
    said = [LabelPrediction(one.id, task.labels[0]) for one in examples]
    place = write_run(tmp_path, "xpt", task, 0, examples, said)
    file = place / "scores.json"
    file.write_text(file.read_text().replace('"accuracy": 100.0', saved))
    part = collect([tmp_path]).parts[0]
    with pytest.raises(DataError, match=f"give accuracy 100.00, scores.json says {says}"):
        answers(part, part.runs["xpt"][0])


@pytest.mark.parametrize("task", ALL)
def test_the_errors_of_every_kind_of_task_are_tables_and_files(tmp_path: Path, task: str) -> None:
    for label, quality in (("scratch", 0.4), ("xpt", 0.8)):
        write_model(tmp_path, label, quality, [task], n=40)
    found = analyse(collect([tmp_path]).parts[0])
    assert all(table.rows for table in found.tables)
    assert set(found.samples) == {"scratch", "xpt"}
    assert all(lists for lists in found.samples.values())
    lengths = next(sheet for sheet in found.sheets if sheet.name == "length")
    assert sum(int(str(row[1])) for row in lengths.rows) == 40


def test_confusions_add_up_to_the_gold_labels(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.6, ["klue-nli"], n=50)
    found = analyse(collect([tmp_path]).parts[0])
    sheet = next(sheet for sheet in found.sheets if sheet.name == "confusions")
    by_gold: dict[tuple[object, int], float] = {}
    for gold, _, n, mean in sheet.rows:
        key = gold, int(str(n))
        by_gold[key] = by_gold.get(key, 0.0) + float(str(mean))
    assert all(total == pytest.approx(n) for (_, n), total in by_gold.items())
    assert sum(by_gold.values()) == pytest.approx(50)


def test_the_page_and_its_files_are_written(three: Path, tmp_path: Path) -> None:
    target = tmp_path / "pages" / "all.html"
    _, written = compare([three], target, resamples=100)
    page = target.read_text(encoding="utf-8")
    assert "http" not in re.sub(r"https?://(www\.w3\.org|arxiv)", "", page.split("<main>")[0])
    assert page.count("<details>") == 2 + 2 * 3
    names = {path.name for path in written}
    assert {"all.md", "all.tex", "all.csv", "all-differences.csv"} <= names
    assert {"klue-nli-confusions.csv", "klue-nli-surprising.csv", "nsmc-length.csv"} <= names
    rows = list(csv.DictReader(target.with_suffix(".csv").read_text().splitlines()))
    assert len(rows) == 3 * 2
    assert "**" in target.with_suffix(".md").read_text()
    assert r"\textbf{" in target.with_suffix(".tex").read_text()


def test_the_sheet_says_the_training_size_and_what_was_scored_on_other_examples(
    tmp_path: Path,
) -> None:
    for size in (10, 100):
        for label, n in (("A", 20), ("B", 20 if size == 10 else 21)):
            task = replace(TASKS["nsmc"], name=f"nsmc@{size}")
            examples = made_examples(task, n)
            said = [LabelPrediction(one.id, task.labels[0]) for one in examples]
            write_run(tmp_path, label, task, 0, examples, said)
    rows = tables.score_rows(collect([tmp_path]))
    assert {(row["model"], row["task"]): row["same_examples"] for row in rows} == {
        ("A", "nsmc@10"): True,
        ("B", "nsmc@10"): True,
        ("A", "nsmc@100"): True,
        ("B", "nsmc@100"): False,
    }


def test_text_of_examples_is_escaped_in_the_page(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.1, ["nsmc"], n=20)
    for file in tmp_path.glob("*/*/*/examples-dev.jsonl"):
        file.write_text(file.read_text().replace('"text": "', '"text": "<script>'))
    compare([tmp_path], tmp_path / "page.html", resamples=100)
    page = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_splits_that_are_not_official_are_marked_and_named(tmp_path: Path) -> None:
    for label in ("scratch", "xpt"):
        write_model(tmp_path, label, 0.5, ["nsmc"], n=20, note="cut of dev (80 %, seed 0)")
    table = tables.scores(collect([tmp_path]))
    assert table.columns[1].title == "nsmc‡"
    assert any("cut of dev (80 %, seed 0)" in note for note in table.notes)


def test_a_narrow_terminal_gets_a_row_a_score(three: Path) -> None:
    table = tables.scores(collect([three]))
    made = {width: terminal(table, width) for width in (200, 50)}
    assert [len(one.columns) for one in made.values()] == [5, 4]
    Console(width=50).print(made[50])


def test_the_page_must_be_html(three: Path) -> None:
    with pytest.raises(RecipeError, match=r"must end in \.html"):
        compare([three], three / "page.md")


def test_the_command_prints_and_writes(three: Path, command: Callable[..., Any]) -> None:
    found = command("compare", three, "--resamples", 100, "--reference", "mbert")
    assert found.status == 0
    assert "nsmc" in found.out
    assert "less mbert" in (three / "comparison.html").read_text()
