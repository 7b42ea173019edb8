"""One cell's job, its costs, and the commands around a study."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from huggingface_hub import ModelCard
from tiny_study import GRID, Here, run_here, write_study
from transformers import AutoConfig, AutoModelForCausalLM

from lingraft.errors import DataError, LingraftError, NoRoomError, TrainingError
from lingraft.recipe.methods import read_recipe
from lingraft.rundir import Run
from lingraft.study import cell, collect, estimate, grid, planning, processes, studydir
from lingraft.study.estimate import Cost
from lingraft.study.rows import EndRow


@pytest.fixture
def study(tmp_path, tiny_source, korean_text):
    def written(*body, **changes):
        return write_study(tmp_path, tiny_source("roberta"), korean_text, *body, **changes)

    return written


@pytest.fixture
def here(monkeypatch):
    """Cells of the command line run in this process."""
    start = Here()
    monkeypatch.setattr(processes, "start", start)
    return start


# -- the job


def test_an_unexpected_error_is_one_line_with_its_kind_and_the_log_has_the_rest(
    monkeypatch, tmp_path, caplog
):
    def fail(folder):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(cell, "take_steps", fail)
    monkeypatch.setattr(cell.log.logger, "propagate", True)
    assert cell.work(tmp_path) == 1
    assert processes.failure(tmp_path, 1) == "ZeroDivisionError: by zero"
    assert "Traceback" in caplog.text or caplog.records[0].exc_info


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (DataError("broken"), "diverged"),
        (TrainingError("diverged, too"), "diverged"),
        (NoRoomError("full"), "full"),
    ],
)
def test_a_task_that_fails_behind_one_that_diverged_does_not_speak_for_it(
    second, said, monkeypatch, tmp_path
):
    errors = [TrainingError("diverged"), second]
    (tmp_path / cell.STEPS).write_text(json.dumps([{"step": "finetune"}] * 2))

    def fail(run):
        raise errors.pop(0)

    monkeypatch.setitem(cell.ACTIONS, "finetune", fail)
    with pytest.raises(LingraftError, match=f"^{said}$"):
        cell.take_steps(tmp_path)
    assert not errors


def test_the_reason_of_an_earlier_failure_does_not_outlive_it(monkeypatch, tmp_path):
    (tmp_path / cell.FAILURE).write_text("earlier\n")
    monkeypatch.setattr(cell, "take_steps", lambda folder: None)
    assert cell.work(tmp_path) == 0
    assert processes.failure(tmp_path, -9) == "killed by SIGKILL (out of memory?); it said: nothing"


def test_a_job_waits_for_the_process_that_another_study_left_behind(tmp_path, monkeypatch):
    run = Run(tmp_path / "cell")
    held = run.locked()
    held.__enter__()
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            held.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", sleep)
    with run.locked(60):
        assert len(waits) == 2


@pytest.mark.slow
def test_a_process_ends_when_the_pipe_from_its_study_does(tmp_path):
    code = "from lingraft.study import cell; import time; cell.end_with_the_study(); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    process.stdin.close()
    assert process.wait(20) == -15


def test_a_curve_is_thinned_without_losing_its_ends():
    points = [(step, float(step)) for step in range(1, 1001)]
    thinned = collect._thinned(points)
    assert len(thinned) <= collect.LONGEST_CURVE
    assert (thinned[0], thinned[-1]) == (points[0], points[-1])
    assert [t for t, _ in thinned] == pytest.approx([y for _, y in thinned], abs=0.51)
    assert collect._thinned(points[:1]) == ((1, 1.0),)
    assert collect._thinned(points[:60]) == tuple(points[:60])


@pytest.mark.parametrize(
    ("keep", "left"),
    [("all", {"graft", "phase-1", "phase-2"}), ("final", {"phase-2"}), ("none", set())],
)
def test_keep_decides_which_weights_stay(study, tmp_path, keep, left):
    (one,) = grid.cells(study('[[grids]]\nmethod = ["xpt"]\n'))
    run = Run(tmp_path / "cell")
    for folder in ("graft/model", "phase-1/best", "phase-2/best"):
        (run.path / folder).mkdir(parents=True)
        (run.path / folder / "model.safetensors").touch()
        (run.path / folder).parent.joinpath("done.json").touch()
    studydir.prune(run, one.recipe, keep)
    assert {path.parts[-3] for path in run.path.glob("*/*/model.safetensors")} == left
    assert len(list(run.path.glob("*/done.json"))) == 3


def test_progress_adds_the_phases_before_to_the_last_row(tmp_path):
    run, planned = Run(tmp_path / "cell"), {"phase-1": 100.0, "phase-2": 300.0}
    run.path.mkdir()
    assert studydir.seen_tokens(run, planned) == 0
    run.metrics_path.write_text('{"phase": "phase-2", "tokens": 40}\n{"phase": "pha')
    assert studydir.seen_tokens(run, planned) == 140


# -- costs


def test_what_is_frozen_saves_a_third_of_the_operations_on_it(study):
    head = '[set]\n"training.budget" = { value = 1000, unit = "tokens" }\n'
    whole, frozen = grid.cells(
        study('[[grids]]\nmethod = ["xpt-sp", "mono-trans"]\n', 'base = "base.toml"\n' + head)
    )
    costs = [estimate.cost_of(one.recipe) for one in (whole, frozen)]
    assert [cost.tokens for cost in costs] == [1000, 1000]
    rows, rate = 300 * 32, 0.15
    body = costs[0].parameters - rows
    assert costs[0].flops == pytest.approx(6 * 1000 * (body + rate * rows))
    assert costs[1].flops < 0.75 * costs[0].flops


@pytest.mark.parametrize("tied", [True, False])
def test_a_causal_model_predicts_every_token_and_looks_its_input_up(
    tied, tmp_path, tiny_source, korean_text
):
    source = shutil.copytree(tiny_source("llama"), tmp_path / "source")
    config = AutoConfig.from_pretrained(source, tie_word_embeddings=tied)
    AutoModelForCausalLM.from_config(config).save_pretrained(source)
    head = 'base = "base.toml"\n[set]\n"training.budget" = { value = 1000, unit = "tokens" }\n'
    body = '[[grids]]\nmethod = ["xpt-sp"]\n'
    (one,) = grid.cells(write_study(tmp_path, source, korean_text, body, head))
    cost = estimate.cost_of(one.recipe)
    multiplied = cost.body + 300 * 32
    assert cost.parameters == multiplied + (0 if tied else 300 * 32)
    assert cost.flops == pytest.approx(6 * 1000 * multiplied)


def test_cells_are_ordered_by_operations_or_by_tokens_where_a_size_is_not_known():
    costs = [Cost(5.0, 9.0, 1), Cost(3.0, 11.0, 1), Cost(4.0, 9.0, 1)]
    assert estimate.order(costs) == [0, 2, 1]
    assert estimate.order([*costs, Cost(1.0, None, None)]) == [3, 1, 2, 0]


def ended(device, threads, seconds):
    machine = {"device": device, "threads": threads}
    return EndRow(
        study="s", cell="c", fingerprint="f", axes={}, status="done", seconds=seconds,
        machine=machine,
    )  # fmt: skip


def test_the_measured_speed_counts_cells_of_this_machine_and_their_share_of_its_cores():
    cost = Cost(1.0, 600.0, 1)
    found = [(cost, ended("cpu", 2, 3.0)), (cost, ended("cpu", 1, 6.0)), (cost, ended("A", 1, 1.0))]
    speed = estimate.measured(found, "cpu", 2, 1)
    assert speed.flops_per_second == pytest.approx(200)
    assert speed.basis == "measured: 2 finished cells on cpu"
    assert speed.seconds([cost, cost]) == pytest.approx(6)
    assert speed.seconds([cost, Cost(1.0, None, None)]) is None
    assert estimate.measured(found, "A", 2, 3).flops_per_second == pytest.approx(1800)
    assert estimate.measured(found, "H", 2, 1) is None


# -- commands


def test_a_dry_run_says_what_is_to_do_and_touches_nothing(study, here, command, tmp_path):
    study()
    out = tmp_path / "out"
    said = command("study", tmp_path / "study.toml", "--out", out, "--dry-run").out
    assert said.count("to do") == 4
    assert "4 cells, 4 to run: " in said
    assert "(guessed: 30% of the " in said
    assert 'for the weights that stay (keep = "final")' in said
    assert not out.exists()
    assert here.started == []


def test_the_study_command_runs_cells_and_writes_a_page(study, here, command, tmp_path):
    study(GRID.replace("[0, 1]", "[0]"))
    out, file = tmp_path / "out", tmp_path / "study.toml"
    finished = command("study", file, "--out", out, "--only", "scratch", "--jobs", "2")
    assert finished.status == 0, finished.err
    assert here.cells == ["scratch-s0"]
    assert finished.out.splitlines()[-4:] == [
        f"results: {out / 'results.jsonl'}",
        f"report:  {out / 'report.html'}",
        "next:    Not everything has been run. What is done is kept:",
        f"         lingraft study {file} --jobs 2 --out {out}",
    ]
    assert "scratch-s0: done in" in finished.err
    trained = studydir.StudyDir(out).cell("scratch-s0")
    assert (
        command("stage", trained.path, "model").status == 0
    )  # a cell's model is exported as a run's
    card = ModelCard.load(trained.model_path / "README.md")
    assert "perplexity" in {one.metric_type for one in card.data.eval_results}
    (out / "report.html").unlink()
    assert command("study", file, "--out", out, "--report-only").status == 0
    assert (out / "report.html").is_file()
    said = command("study", file, "--out", out, "--dry-run").out
    assert "(measured: 1 finished cell on " in said
    assert "2 cells, 1 to run: " in said


def test_a_failed_cell_gives_exit_status_1(study, here, command, tmp_path):
    study(GRID.replace("[0, 1]", "[0]"))
    here.statuses["scratch-s0"] = 3
    finished = command("study", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert finished.status == 1
    assert "failed: scratch-s0; the same command tries again" in finished.out
    assert "scratch-s0: failed: exit status 3; it said: nothing" in finished.err
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_report_without_results_says_what_to_do(study, command, tmp_path):
    study()
    finished = command("study", tmp_path / "study.toml", "--out", tmp_path / "o", "--report-only")
    assert finished.status == 1
    assert "holds no result of this study; run it without --report-only first" in finished.err


def test_a_study_that_cannot_work_is_one_line_before_anything_runs(study, command, here, tmp_path):
    study(GRID.replace("scratch", "scrach"))
    finished = command("study", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert finished.status == 1
    (line,) = finished.err.splitlines()
    assert "method 'scrach' is not known; did you mean 'scratch'?" in line


def test_a_cell_leaves_no_paths_of_this_machine_in_the_results(study, tmp_path):
    run_here(study(GRID.replace("[0, 1]", "[0]")), tmp_path / "out")
    text = (tmp_path / "out" / "results.jsonl").read_text()
    assert str(tmp_path) not in text
    assert os.uname().nodename not in json.dumps(
        [json.loads(line)["machine"] for line in text.splitlines() if '"end"' in line]
    )
    assert planning.current_rows(study(GRID.replace("[0, 1]", "[0]")), tmp_path / "out")


@pytest.mark.parametrize(
    ("family", "objective"), [("llama", "clm"), ("t5", "denoise"), ("bert", "mlm")]
)
def test_a_cell_learns_what_the_kind_of_its_source_learns(family, objective, tiny_source, tmp_path):
    lines = ['language = "ko"', "[source]", f'model = "{tiny_source(family)}"']
    lines += ["[corpus]", 'text = ["ko.txt"]', "[training]", 'preset = "xpt2021"']
    (tmp_path / "asked.toml").write_text("\n".join(lines), encoding="utf-8")
    studydir.write_recipe(Run(tmp_path), read_recipe(tmp_path / "asked.toml"))
    phases = cell.recipe_in(Run(tmp_path)).phases
    assert {phase.objective for phase in phases} == {objective}
