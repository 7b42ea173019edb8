"""Tasks as the last stage of a study: whole studies of tiny models, in this process."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from stopping import at_call
from tiny_study import Ended, Here, kinds, run_here, write_study

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import run as finetuning_run
from lingraft.rundir import Run, read_json
from lingraft.study import cell, grid, planning, rows, runner, steps
from lingraft.study.planning import TASKS_TO_DO
from lingraft.study.results import collect as in_order
from lingraft.study.rows import EndRow, MetricRow, TaskRow
from lingraft.study.studydir import StudyDir

OFFICIAL = Path(__file__).parents[1] / "tasks" / "official"
GRID = '[[grids]]\nmethod = ["untrained", "scratch"]\nsentences = [100, 200]\n'
KORSTS = """
[[tasks]]
name = "korsts"
data = "official"
seeds = 2
settings = { epochs = 1, batch = 4, max_length = 48 }
"""
MOOD = """
[[tasks]]
name = "mood.toml"
seeds = [3]
methods = ["scratch"]
sentences = [200]
"""
OWN = """
name = "mood"
kind = "classification"
files = { train = "mood.csv", dev = "mood.csv", test = "mood.csv" }
epochs = 1
batch = 4
max_length = 32
"""
HEAD = """
name = "tiny"
base = "base.toml"
keep = "KEEP"
[set]
"training.budget" = { value = 2, unit = "steps" }
"training.batch" = { size = 8, unit = "sentences" }
"evaluation.max_words" = 0
"""


@pytest.fixture(scope="module")
def make(tiny_source, korean_text):
    def written(folder, body, keep="none", own=OWN, family="roberta"):
        folder.mkdir(exist_ok=True)
        shutil.copytree(OFFICIAL, folder / "official", dirs_exist_ok=True)
        (folder / "mood.toml").write_text(own)
        (folder / "mood.csv").write_text("text,label\n비가 온다,down\n해가 난다,up\n좋다,up\n")
        head = HEAD.replace("KEEP", keep)
        return write_study(folder, tiny_source(family), korean_text, body, head)

    return written


@pytest.fixture(scope="module")
def finished(make, tmp_path_factory):
    """Two sizes and a floor with two tasks, done; do not change it."""
    folder = tmp_path_factory.mktemp("finished")
    study = make(folder, GRID + KORSTS + MOOD)
    tally, here = run_here(study, folder / "out")
    return study, folder / "out", tally, here


def task_rows(out):
    return [row for row in rows.read(out / "results.jsonl") if isinstance(row, TaskRow)]


def test_every_cell_is_fine_tuned_after_its_evaluation_on_the_tasks_that_are_for_it(finished):
    _, out, tally, here = finished
    names = ["untrained-s0", "scratch-n100-s0", "scratch-n200-s0"]
    assert (tally.done, tally.failed) == (3, [])
    assert sorted(here.started[1:]) == sorted(
        (kind, name) for name in names for kind in ("train", "finetune")
    )
    found = task_rows(out)
    assert {(row.cell, row.task, row.seed) for row in found} == {
        *((name, "korsts", seed) for name in names for seed in (0, 1)),
        ("scratch-n200-s0", "mood", 3),
    }
    assert {score.metric for row in found for score in row.scores} >= {
        "task/korsts/spearman", "task/mood/accuracy",
    }  # fmt: skip
    assert {row.task: row.shown for row in found}["korsts"] == ("task/korsts/spearman",)
    assert all(row.status == "done" and row.machine["device"] for row in found)


def test_weights_are_deleted_once_the_tasks_are_done_and_nothing_runs_again(finished):
    study, out, _, _ = finished
    assert list(out.glob("cells/**/*.safetensors")) == []
    assert list(out.glob("cells/*/weights")) == []
    tally, here = run_here(study, out)
    assert (tally.kept, tally.done, here.started) == (3, 0, [])


def test_a_task_is_done_where_a_causal_model_has_no_dropout_that_the_task_sets(make, tmp_path):
    body = '[[grids]]\nmethod = ["scratch"]\nsentences = [200]\n' + MOOD
    study = make(tmp_path, body, own=OWN + "classifier_dropout = 0.1\n", family="gpt2")
    tally, _ = run_here(study, tmp_path / "out")
    assert (tally.done, tally.failed) == (1, [])
    assert [row.status for row in task_rows(tmp_path / "out")] == ["done"]


def test_a_method_that_does_not_train_is_one_cell_for_all_sizes(finished):
    study, out, _, _ = finished
    first = grid.cells(study)[0]
    assert (first.id, first.axes["sentences"], first.recipe.phases) == ("untrained-s0", None, ())
    (end,) = [
        row for row in planning.current_rows(study, out)
        if isinstance(row, EndRow) and row.cell == first.id
    ]  # fmt: skip
    assert (end.status, end.tokens, end.trained_parameters) == ("done", 0, {})
    found = in_order(planning.current_rows(study, out))
    assert [group.label for group in found.floors] == ["untrained"]
    assert found.sizes == (100, 200)


@pytest.fixture
def again(finished, tmp_path):
    """A copy of the finished study that may be changed: its folder and that of its results."""
    _, out, _, _ = finished
    folder = tmp_path / "copy"
    shutil.copytree(out.parent, folder, symlinks=True)
    return folder, folder / "out"


def test_a_new_task_leaves_all_rows_as_they_are_and_trains_again_only_where_weights_are_gone(
    again, make, monkeypatch
):
    folder, out = again
    before = (out / "results.jsonl").read_text()
    more = KORSTS.replace("korsts", "kqp").replace("seeds = 2", 'methods = ["scratch"]')
    study = make(folder, GRID + KORSTS + MOOD + more)
    planned = planning.plan(study, [], out / "results.jsonl", StudyDir(out))
    assert {one.cell.id for one in planned if one.state == TASKS_TO_DO} == {
        "scratch-n100-s0", "scratch-n200-s0",
    }  # fmt: skip
    said = []
    monkeypatch.setattr(runner.logger, "warning", lambda form, *parts: said.append(form % parts))
    tally, here = run_here(study, out, only=("scratch-n100-s0",))
    assert here.started == [("train", "scratch-n100-s0"), ("finetune", "scratch-n100-s0")]
    assert said == [
        "scratch-n100-s0: its weights are not kept here; it is trained again for its tasks"
    ]
    after = (out / "results.jsonl").read_text()
    assert after.startswith(before)
    added = [json.loads(line) for line in after[len(before) :].splitlines()]
    assert {(row["kind"], row["task"]) for row in added} == {("task", "kqp")}
    assert (tally.done, len(added)) == (1, 3)
    folders = out / "cells" / "scratch-n100-s0" / "tasks" / "cell"
    assert {path.name for path in folders.iterdir()} == {"korsts", "kqp"}


def test_a_cell_that_dies_while_it_is_trained_again_says_so_in_the_row_of_its_task(again, make):
    folder, out = again
    more = KORSTS.replace("korsts", "kqp").replace("seeds = 2", 'methods = ["scratch"]')
    study, name = make(folder, GRID + KORSTS + MOOD + more), "scratch-n100-s0"
    tally, _ = run_here(study, out, only=(name,), start=Here({name: -9}))
    assert tally.failed == [name]
    (failed,) = (row for row in task_rows(out) if row.status == "failed")
    assert failed.message.startswith(
        "task kqp, seed 0: while the cell was trained again for its weights: killed by SIGKILL"
    )


def test_where_the_weights_are_kept_a_new_task_or_seed_needs_no_training(make, tmp_path):
    body = '[[grids]]\nmethod = ["xpt-sp"]\n'
    out = tmp_path / "out"
    run_here(make(tmp_path, body, "final"), out)
    untouched = rows.read(out / "results.jsonl")
    _, here = run_here(make(tmp_path, body + KORSTS, "final"), out)
    assert here.started == [("finetune", "xpt-sp-s0")]
    _, here = run_here(make(tmp_path, body + KORSTS.replace("= 2", "= [1, 5]"), "final"), out)
    assert here.started == [("finetune", "xpt-sp-s0")]
    assert rows.read(out / "results.jsonl")[: len(untouched)] == untouched
    assert [row.seed for row in task_rows(out)] == [0, 1, 5]


def test_a_task_that_fails_fails_its_cell_and_what_was_done_before_it_is_kept(make, tmp_path):
    study, out = make(tmp_path, GRID.replace(", 200", "") + KORSTS), tmp_path / "out"

    def fail():
        raise DataError("the disk\nis full")

    with at_call(2, finetuning_run._Call, "one", fail):
        tally, here = run_here(study, out)
    assert (tally.done, len(tally.failed)) == (1, 1)
    (broken,) = tally.failed
    assert here.started[2] == ("finetune", broken)
    (failed,) = [row for row in task_rows(out) if row.status == "failed"]
    assert failed.message == "task korsts, seed 1: the disk is full"
    assert [f.message for f in in_order(planning.current_rows(study, out)).failures] == [
        failed.message
    ]
    assert len(list((out / "cells" / broken).glob("**/*.safetensors"))) > 0
    planned = planning.plan(study, [broken], out / "results.jsonl")
    assert [(one.state, one.fine_tunings) for one in planned] == [("failed", 1)]
    _, here = run_here(study, out)
    assert here.started == [("finetune", broken)]
    seeds = [(row.seed, row.status) for row in task_rows(out) if row.cell == broken]
    assert seeds == [(0, "done"), (1, "failed"), (1, "done")]
    assert in_order(planning.current_rows(study, out)).failures == ()


def test_rows_of_tasks_that_a_kill_left_unwritten_are_written_without_running_anything(again, make):
    folder, out = again
    study = make(folder, GRID + KORSTS + MOOD)
    written = rows.read(out / "results.jsonl")
    (out / "results.jsonl").unlink()
    rows.append(out / "results.jsonl", [row for row in written if not isinstance(row, TaskRow)])
    tally, here = run_here(study, out)
    assert (tally.done, here.started) == (3, [])

    def key(row):
        return (row.cell, row.task, row.seed)

    assert sorted(task_rows(out), key=key) == sorted(
        (row for row in written if isinstance(row, TaskRow)), key=key
    )


def test_tasks_are_not_started_where_the_training_failed(make, tmp_path):
    study = make(tmp_path, '[[grids]]\nmethod = ["xpt-sp"]\n' + KORSTS)
    tally, here = run_here(study, tmp_path / "out", start=Here({"xpt-sp-s0": 3}))
    assert (here.cells, tally.failed) == (["xpt-sp-s0"], ["xpt-sp-s0"])
    assert task_rows(tmp_path / "out") == []


def test_a_dry_run_counts_the_fine_tunings_and_says_what_is_trained_again(
    again, make, command, monkeypatch
):
    folder, out = again
    make(folder, GRID + KORSTS.replace("seeds = 2", "seeds = 3") + MOOD)
    said = command("study", folder / "study.toml", "--out", out, "--dry-run").out
    assert said.count(TASKS_TO_DO) == 3
    assert "tasks: 3 fine-tunings, counted in TFLOP and time" in said
    rows = [line.split("│") for line in said.splitlines() if TASKS_TO_DO in line]
    assert {row[4].strip() for row in rows} == {"0", "480"}  # of training alone
    assert "trained again, since their weights are gone: untrained-s0, scratch-n100-s0" in said


def test_the_command_prints_the_scores_and_the_page_has_them(again, make, command):
    folder, out = again
    make(folder, GRID + KORSTS + MOOD)
    ended = command("study", folder / "study.toml", "--out", out, "--report-only")
    assert ended.status == 0, ended.err
    assert "korsts" in ended.out
    assert "spearman" in ended.out
    page = (out / "report.html").read_text()
    assert 'id="tasks"' in page
    assert "korsts: trained on 5 examples, scored on 5 (the official splits)." in page
    assert '"Differences of tasks, 200 sentences"' in page
    assert "still to be fine-tuned" not in page
    make(folder, GRID + KORSTS.replace("= 2", "= 3") + MOOD)
    ended = command("study", folder / "study.toml", "--out", out, "--report-only")
    assert re.search(r"(\d+) of \1 cells, fine-tunings to do in \d", ended.out)
    assert "Not everything has been run." in ended.out
    assert "trained and still to be fine-tuned" in (out / "report.html").read_text()


# -- what a study says of its tasks


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (KORSTS.replace("korsts", "korst"), "no task 'korst'"),
        (KORSTS.replace("official", "nowhere"), "nowhere: no such directory"),
        (KORSTS.replace("seeds = 2", "seeds = [1, 1]"), "tasks.0.seeds: a seed is there twice"),
        (KORSTS.replace("seeds = 2", "seeds = 0"), "tasks.0.seeds: must"),
        (KORSTS.replace("seeds", "seed"), "tasks.0.seed: no such key. Did you mean 'seeds'?"),
        (KORSTS + 'methods = ["xpt"]\n', "korsts: no cell has its methods and sentences"),
        (KORSTS + 'methods = ["auto"]\n', "korsts: no cell has its methods and sentences"),
        (KORSTS + 'methods = ["xtp"]\n', "methods names 'xtp', which is no method"),
        (KORSTS + KORSTS, "korsts is there twice for cell untrained-s0"),
    ],
    ids=["task", "files", "twice", "none", "key", "idle", "auto", "method", "same"],
)  # fmt: skip
def test_what_is_wrong_with_a_task_is_one_line_before_anything_runs(body, message, make, tmp_path):
    with pytest.raises((RecipeError, DataError)) as caught:
        run_here(make(tmp_path, GRID + body), tmp_path / "out")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_task_is_known_by_its_data_and_settings_not_by_its_place(make, tmp_path):
    def of(folder, body=KORSTS, **files):
        study = make(tmp_path / folder, GRID + body)
        for name, text in files.items():
            (tmp_path / folder / f"{name}.csv").write_text(text)
        return steps.task_plans(study)[0].fingerprint

    first = of("one")
    assert of("two") == first
    assert of("three", KORSTS.replace("seeds = 2", 'seeds = 5\nmethods = ["scratch"]')) == first
    assert of("four", KORSTS.replace("epochs = 1", "epochs = 2")) != first
    assert of("five", KORSTS + "train_examples = 3\n") != first
    own = of("six", MOOD)
    assert of("seven", MOOD, mood="text,label\n비가 온다,down\n해가 난다,up\n좋다,down\n") != own


def test_a_test_set_of_few_blocks_has_none(finished):
    _, out, _, _ = finished
    scores = [score for row in task_rows(out) for score in row.scores]
    assert {score.blocks for score in scores if score.metric == "task/korsts/spearman"} == {None}


def test_metrics_of_the_evaluation_are_not_those_of_tasks(finished):
    study, out, _, _ = finished
    found = planning.current_rows(study, out)
    assert not any(row.metric.startswith("task/") for row in found if isinstance(row, MetricRow))


def test_a_folder_of_another_task_of_the_name_is_not_taken_for_finished(again, make):
    folder, out = again
    study = make(folder, GRID + KORSTS.replace("epochs = 1", "epochs = 2") + MOOD)
    planned = planning.plan(study, ["scratch-n200-s0"], out / "nothing.jsonl")[0]
    run = Run(out / "cells" / "scratch-n200-s0")
    done = {step.name: step.is_done(run) for step in planned.steps}
    assert done == {
        "training": True, "task korsts, seed 0": False, "task korsts, seed 1": False,
        "task mood, seed 3": True,
    }  # fmt: skip


def test_a_process_is_asked_for_training_and_then_for_each_task_with_its_missing_seeds(again, make):
    folder, out = again
    study = make(folder, GRID + KORSTS.replace("= 2", "= [5, 0, 1]") + MOOD)
    (planned,) = planning.plan(study, ["scratch-n200-s0"], out / "results.jsonl")
    first, second = steps.jobs(planned.todo)
    assert first == {"step": "train"}
    assert (second["recipe"]["tasks"], second["seeds"]) == (["korsts"], [5])


def test_a_learning_curve_is_a_task_a_size_with_a_learning_rate_of_its_own(make, tmp_path):
    curve = KORSTS + "train_sizes = [2, 4]\nlearning_rates = [1e-3, 1e-4]\n"
    study = make(tmp_path, '[[grids]]\nmethod = ["scratch"]\n' + curve)
    tally, _ = run_here(study, tmp_path / "out")
    assert (tally.done, tally.failed) == (1, [])
    assert {(row.task, row.train_examples, row.seed) for row in task_rows(tmp_path / "out")} == {
        (f"korsts@{size}", size, seed) for size in (2, 4) for seed in (0, 1)
    }
    cell = tmp_path / "out/cells/scratch-s0/tasks/cell"
    for path in cell.glob("*/seed-*/scores.json"):
        scores = read_json(path)
        tried = scores["learning_rates"]
        assert sorted(tried) == ["0.0001", "0.001"]
        assert tried[f"{scores['settings']['learning_rate']:g}"] == max(tried.values())
        (row,) = (
            row
            for row in task_rows(tmp_path / "out")
            if (row.task.partition("@")[2], f"seed-{row.seed}")
            == (path.parts[-3].rpartition("@")[2], path.parent.name)
        )
        assert row.learning_rate == scores["settings"]["learning_rate"]
    (planned,) = planning.plan(study, ["scratch-s0"], tmp_path / "out/results.jsonl")
    assert not planned.todo
    assert all(step.is_done(Run(tmp_path / "out/cells/scratch-s0")) for step in planned.steps[1:])


def test_a_task_that_diverges_leaves_no_other_task_undone(make, tmp_path):
    wild = KORSTS.replace("epochs = 1", "epochs = 1, learning_rate = 1e12")
    study = make(tmp_path, '[[grids]]\nmethod = ["scratch"]\nsentences = [200]\n' + wild + MOOD)
    tally, _ = run_here(study, tmp_path / "out")
    assert tally.failed == ["scratch-n200-s0"]
    found = {(row.task, row.status): row.message for row in task_rows(tmp_path / "out")}
    assert set(found) == {("korsts", "failed"), ("mood", "done")}
    assert "seed 0" in found["korsts", "failed"]
    assert "validation loss nan" in found["korsts", "failed"]


def test_a_cell_process_that_dies_in_its_tasks_leaves_a_line_that_names_the_task(make, tmp_path):
    study = make(tmp_path, '[[grids]]\nmethod = ["xpt-sp"]\n' + KORSTS, "final")
    start = Here()

    def dying(folder, slot, jobs, /):
        if kinds(folder) == ["share"]:
            return start(folder, slot, jobs)
        training, _ = json.loads((folder / cell.STEPS).read_text())
        (folder / cell.STEPS).write_text(json.dumps([training]))
        assert cell.work(folder) == 0
        return Ended(-9)

    tally, _ = run_here(study, tmp_path / "out", start=dying)
    assert tally.failed == ["xpt-sp-s0"]
    (failed,) = task_rows(tmp_path / "out")
    assert failed.message.startswith("task korsts, seed 0: killed by SIGKILL (out of memory?)")
