"""Running the cells of a study; most of them in this process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from stopping import killed_at
from tiny_study import HEAD, Here, kinds, run_here, write_study

from lingraft import log, threads
from lingraft.errors import DataError, RecipeError
from lingraft.rundir import FORMAT, Run
from lingraft.study import estimate, grid, planning, processes, rows, runner, steps, studydir
from lingraft.study.recipe import read_study
from lingraft.study.rows import CurveRow, EndRow, MetricRow
from lingraft.study.studydir import StudyDir


@pytest.fixture(scope="module")
def make(tiny_source, korean_text):
    def written(folder, *body, **changes):
        folder.mkdir(exist_ok=True)
        return write_study(folder, tiny_source("roberta"), korean_text, *body, **changes)

    return written


@pytest.fixture(scope="module")
def finished(make, tmp_path_factory):
    """A study of four cells that has run; do not change it."""
    folder = tmp_path_factory.mktemp("finished")
    study = make(folder)
    tally, here = run_here(study, folder / "out")
    assert tally.done == 4
    assert here.started[0][0] == "share"
    return study, folder / "out"


@pytest.fixture
def again(finished, tmp_path):
    """A copy of it that may be changed."""
    study, out = finished
    return study, Path(shutil.copytree(out, tmp_path / "out", symlinks=True))


def metrics(study, out):
    """What was measured, without times."""
    found = planning.current_rows(study, out)
    return [(row.cell, row.metric, row.value, row.blocks) for row in found if row.kind == "metric"]


def test_every_cell_has_metrics_curves_and_an_end_in_the_order_of_the_grid(finished):
    study, out = finished
    found = planning.current_rows(study, out)
    names = [cell.id for cell in grid.cells(study)]
    assert list(dict.fromkeys(row.cell for row in found)) == names
    for name in names:
        own = [row for row in found if row.cell == name]
        assert {row.metric for row in own if isinstance(row, MetricRow)} >= {
            "mask-only/perplexity", "mask-only/hits@10", "bits_per_character", "exact",
        }  # fmt: skip
        curves = [row for row in own if isinstance(row, CurveRow)]
        assert {(row.phase, row.split) for row in curves} == {
            ("phase-1", "train"), ("phase-1", "valid"),
        }  # fmt: skip
        assert isinstance(own[-1], EndRow)
        assert own[-1].status == "done"
        assert own[-1].machine["device"]
        assert own[-1].trained_parameters == {"phase-1": own[-1].parameters}


def test_blocks_add_up_to_the_metrics(finished):
    found = [row for row in planning.current_rows(*finished) if isinstance(row, MetricRow)]
    sums = {}
    for row in found:
        if row.blocks:
            total, count = (sum(values) for values in zip(*row.blocks, strict=True))
            sums[row.cell, row.metric] = (row.value, total / count)
    loss = {key: pair for key, pair in sums.items() if key[1] == "mask-only/loss"}
    assert len(loss) == 4
    assert all(value == pytest.approx(mean, rel=1e-4) for value, mean in loss.values())
    assert {key[1] for key in sums} >= {"mask-only/perplexity", "bits_per_character"}


def test_words_are_told_one_by_one_and_how_they_were_scored_too(finished):
    found = planning.current_rows(*finished)
    rows = [row for row in found if isinstance(row, MetricRow) and row.words]
    assert {row.metric for row in rows} == {"bits_per_character"}
    assert len(rows) == 4
    for row in rows:
        bits, characters = (sum(part) for part in zip(*row.words, strict=True))
        assert bits / characters == pytest.approx(row.value, rel=1e-4)
        assert sum(count > 0 for _, count in row.words) == row.n
    ends = [row for row in found if isinstance(row, EndRow)]
    assert {row.machine["evaluation"] for row in ends} == {f"form {FORMAT['evaluation']}"}


def test_text_and_vocabulary_are_made_once_and_linked_into_ordinary_runs(finished, command):
    _, out = finished
    assert len(list((out / "shared").glob("*/tokenizer/done.json"))) == 2 - 1
    cell = out / "cells" / "xpt-sp-s1"
    for name in ("corpus", "tokenizer"):
        assert (cell / name).is_symlink()
        assert not os.path.isabs(os.readlink(cell / name))  # noqa: PTH115, PTH117
        assert (cell / name / "done.json").is_file()
    ended = command("report", cell, "--out", out.parent / "cell.html")
    assert ended.status == 0, ended.err


def test_only_the_last_phase_keeps_its_weights(finished):
    _, out = finished
    weights = [path.relative_to(out / "cells") for path in out.glob("cells/**/*.safetensors")]
    assert {path.parts[1:3] for path in weights} == {("phase-1", "best")}
    assert len({path.parts[0] for path in weights}) == 4


def test_a_finished_cell_is_skipped_even_where_its_folder_is_gone(again):
    study, out = again
    shutil.rmtree(out / "cells")
    tally, here = run_here(study, out)
    assert (tally.kept, tally.done, here.started) == (4, 0, [])


def test_results_may_come_from_elsewhere(again, tmp_path):
    study, out = again
    tally, here = run_here(study, tmp_path / "new", results=out / "results.jsonl")
    assert (tally.kept, here.started) == (4, [])
    assert not (tmp_path / "new" / "results.jsonl").exists()


def test_results_may_be_copied_into_a_new_folder(again, tmp_path):
    study, out = again
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(out / "results.jsonl", copy)
    with pytest.raises(RecipeError, match="holds files but no study of lingraft"):
        run_here(study, copy, overwrite=True)
    tally, here = run_here(study, copy)
    assert (tally.kept, here.started) == (4, [])


def test_results_that_a_call_names_are_never_deleted(again):
    study, out = again
    tally, here = run_here(study, out, overwrite=True, results=out / "results.jsonl")
    assert (tally.kept, here.started) == (4, [])
    assert len(rows.latest(rows.read(out / "results.jsonl"))) == 4
    assert not list(out.glob("cells/*"))


def test_a_study_whose_deletion_is_interrupted_takes_nothing_that_is_half_deleted(again):
    study, out = again
    with killed_at(1, shutil, "rmtree"), pytest.raises(KeyboardInterrupt):
        run_here(study, out, overwrite=True)
    folder = StudyDir(out)
    (vocabulary,) = out.glob("shared/tokenizer-*")
    assert not studydir.is_shared(Run(vocabulary))
    plans = planning.plan_of_call(study, out, runner.Options())
    assert not any(folder.owns(plan.cell, plan.fingerprint) for plan in plans)


def test_a_cell_whose_deletion_is_interrupted_is_not_taken(again):
    study, out = again
    plan, *_ = planning.plan_of_call(study, out, runner.Options())
    folder = StudyDir(out)
    with killed_at(1, shutil, "rmtree"), pytest.raises(KeyboardInterrupt):
        folder.open_cell(plan.cell, "of other settings", Run(out))
    assert not folder.owns(plan.cell, plan.fingerprint)


def test_a_study_that_cannot_run_deletes_nothing(again):
    study, out = again
    with pytest.raises(RecipeError, match="no cell matches"):
        run_here(study, out, overwrite=True, only=("scrach",))
    assert len(rows.latest(rows.read(out / "results.jsonl"))) == 4
    assert len(list(out.glob("cells/*"))) == 4


def test_a_dry_run_counts_what_overwrite_would_delete_as_to_do(make, finished, tmp_path, command):
    _, out = finished
    make(tmp_path)
    called = ("study", tmp_path / "study.toml", "--out", out, "--dry-run")
    assert "4 cells, 0 to run" in command(*called).out
    assert "4 cells, 4 to run" in command(*called, "--overwrite").out
    assert "contradict" in command(*called, "--overwrite", "--resume").err
    assert (out / "results.jsonl").is_file()


def test_a_changed_study_adds_its_new_cells_and_keeps_the_others(again, make, tmp_path):
    study, out = again
    body = '[[grids]]\nmethod = ["xpt-sp"]\nseed = [1, 2]\n'
    changed = make(tmp_path / "changed", body)
    tally, here = run_here(changed, out)
    assert (tally.kept, here.cells) == (1, ["xpt-sp-s2"])
    assert {row.cell for row in planning.current_rows(changed, out)} == {"xpt-sp-s1", "xpt-sp-s2"}
    assert len({row.cell for row in planning.current_rows(study, out)}) == 4


def test_cells_of_other_settings_are_named_before_their_folders_are_deleted(
    again, make, tmp_path, monkeypatch, command
):
    _, out = again
    body = '[[grids]]\nmethod = ["xpt-sp"]\nseed = [1, 2]\n'
    make(tmp_path / "changed", body, HEAD.replace("value = 4", "value = 5"))
    study = str(tmp_path / "changed" / "study.toml")
    planned = " ".join(command("study", study, "--out", out, "--dry-run").out.split())
    assert "made by other settings than the study's: xpt-sp-s1; these folders" in planned
    assert (out / "cells" / "xpt-sp-s1" / "phase-1").is_dir()
    said = []
    monkeypatch.setattr(runner.logger, "warning", lambda text, *values: said.append(text % values))
    run_here(read_study(Path(study)), out)
    assert "other settings than the study's: xpt-sp-s1;" in said[0]
    assert len([row for row in rows.read(out / "results.jsonl") if row.kind == "end"]) == 6


def test_rows_are_named_as_the_present_study_names_their_cell(again, make, tmp_path):
    _, out = again
    body = '[[grids]]\nmethod = ["xpt-sp"]\n"graft.inserted_before" = [1]\n'
    renamed = make(tmp_path / "renamed", body)
    found = planning.current_rows(renamed, out)
    assert {row.cell for row in found} == {grid.cells(renamed)[0].id}
    assert found[0].axes["graft.inserted_before"] == 1


def test_a_cell_that_has_another_id_since_there_is_another_axis_keeps_its_folder_and_weights(
    again, make, tmp_path
):
    _, out = again
    body = '[[grids]]\nmethod = ["xpt-sp"]\n"graft.inserted_before" = [1]\nseed = [1]\n'
    renamed = make(tmp_path / "renamed", body)
    (plan,) = planning.plan(renamed, (), out / "results.jsonl", StudyDir(out))
    assert plan.has_weights
    assert (out / "cells" / "xpt-sp-s1").is_dir()  # a plan changes nothing
    (out / "results.jsonl").unlink()
    tally, here = run_here(renamed, out)
    assert (tally.done, here.started) == (1, [])
    assert (out / "cells" / plan.cell.id / "phase-1" / "best").is_dir()
    assert not (out / "cells" / "xpt-sp-s1").exists()


def test_rows_that_a_kill_left_unwritten_are_written_without_training_again(again):
    study, out = again
    expected = metrics(study, out)
    (out / "results.jsonl").unlink()
    tally, here = run_here(study, out)
    assert (tally.done, here.started) == (4, [])
    assert metrics(study, out) == expected


def test_a_method_that_has_fewer_phases_where_the_source_is_tied_runs_in_a_study(
    tiny_source, korean_text, tmp_path
):
    body = '[[grids]]\nmethod = ["eeve"]\n'
    head = 'name = "tiny"\nbase = "base.toml"\n[set]\n"training.budget" = { value = 10 }\n'
    head += '"training.batch" = { size = 8 }\n"tokenizer.new_pieces" = 20\n'
    scored = {"sentences": 10, "words": 0, "samples": 0, "untouched": False}
    study = write_study(tmp_path, tiny_source("llama"), korean_text, body, head, evaluation=scored)
    tally, _ = run_here(study, tmp_path / "out")
    assert (tally.done, tally.failed) == (1, [])
    found = planning.current_rows(study, tmp_path / "out")
    phases = {row.phase for row in found if isinstance(row, CurveRow)}
    assert phases == {"phase-3", "phase-4", "phase-6", "phase-7"}


def test_the_time_of_a_cell_begins_with_its_process_however_long_that_waited_for_its_turn(again):
    study, out = again
    cell = out / "cells" / "scratch-s0"
    (out / "results.jsonl").unlink()
    ended = (cell / "evaluation" / "done.json").stat().st_mtime
    os.utime(cell / "began", (ended - 100, ended - 100))
    run_here(study, out)
    ends = {row.cell: row for row in rows.read(out / "results.jsonl") if isinstance(row, EndRow)}
    assert ends["scratch-s0"].seconds == pytest.approx(100, abs=0.1)
    assert 0 < ends["scratch-s1"].seconds < 100


def test_a_failed_cell_does_not_stop_the_others_and_is_tried_again(make, tmp_path):
    study, out = make(tmp_path, '[[grids]]\nmethod = ["scratch", "xpt-sp"]\n'), tmp_path / "out"
    out.mkdir()
    killed = Here({"scratch-s0": -signal.SIGKILL})
    tally, here = run_here(study, out, start=killed)
    assert tally.failed == ["scratch-s0"]
    assert tally.done == 1
    assert len(here.cells) == 2
    (failed,) = [row for row in planning.current_rows(study, out) if row.cell == "scratch-s0"]
    assert failed.status == "failed"
    assert failed.message.startswith("killed by SIGKILL (out of memory?)")
    tally, here = run_here(study, out)
    assert here.cells == ["scratch-s0"]
    assert (tally.kept, tally.done, tally.failed) == (1, 1, [])
    states = {
        row.cell: row.status for row in planning.current_rows(study, out) if row.kind == "end"
    }
    assert set(states.values()) == {"done"}


def test_the_message_of_a_failed_cell_is_the_error_that_its_process_met(make, tmp_path):
    body = (
        '[[grids]]\nmethod = ["xpt-sp", "scratch"]\n'
        '[[rules]]\nwhen = { method = "scratch" }\n'
        'set = { "training.max_train_sentences" = 100000 }\n'
    )
    study = make(tmp_path, body)
    tally, _ = run_here(study, tmp_path / "out")
    assert (tally.done, len(tally.failed)) == (1, 1)
    outcomes = rows.latest(rows.read(tmp_path / "out" / "results.jsonl")).values()
    (message,) = [one.end.message for one in outcomes if one.end.status == "failed"]
    assert "100,000" in message or "100000" in message


def test_where_the_text_cannot_be_shared_its_cells_fail_with_the_reason(make, tmp_path):
    study = make(tmp_path, language="en")
    tally, here = run_here(study, tmp_path / "out")
    assert len(tally.failed) == 4
    assert here.cells == []
    found = rows.read(tmp_path / "out" / "results.jsonl")
    assert all("the script of language 'en'" in row.message for row in found)


class Stub(Here):
    """Cells that only count: they run until they have been looked at a few times."""

    def __init__(self, looks=3):
        super().__init__()
        self.looks, self.slots, self.most, self.live = looks, [], 0, set()

    def __call__(self, folder, slot, jobs, /):
        if kinds(folder) == ["share"]:
            return super().__call__(folder, slot, jobs)
        self.started.append(("train", folder.name))
        self.slots.append(slot)
        assert slot not in self.live
        self.live.add(slot)
        self.most = max(self.most, len(self.live))
        return Counted(self, slot)


class Counted:
    def __init__(self, stub, slot):
        self.stub, self.slot, self.left, self.stopped = stub, slot, stub.looks, False

    def poll(self):
        self.left -= 1
        if self.left > 0 and not self.stopped:
            return None
        self.stub.live.discard(self.slot)
        return -signal.SIGTERM if self.stopped else 1

    def terminate_once(self):
        self.stopped = True

    def kill(self):
        self.stopped = True

    def wait(self):
        return 1


def test_as_many_cells_run_at_a_time_as_there_are_jobs_and_the_cheapest_start_first(make, tmp_path):
    body = '[[grids]]\n"training.budget" = [{value=8}, {value=2}, {value=4}]\nseed = [0, 1]\n'
    study, stub = make(tmp_path, body), Stub()
    tally, _ = run_here(study, tmp_path / "out", start=stub, jobs=2)
    assert stub.most == 2
    assert set(stub.slots) == {0, 1}
    assert len(tally.failed) == 6
    budgets = {
        cell.id: sum(phase.budget.value for phase in cell.recipe.phases)
        for cell in grid.cells(study)
    }
    assert [budgets[name] for name in stub.cells] == [2, 2, 4, 4, 8, 8]


class Crowded(Stub):
    """Refuses a third cell beside two that run."""

    refused = 0

    def __call__(self, folder, slot, jobs, /):
        if len(self.live) == 2:
            self.refused += 1
            raise DataError("sbatch refused: QOSMaxSubmitJobPerUserLimit")
        return super().__call__(folder, slot, jobs)


def test_a_cell_that_is_refused_waits_until_another_has_ended_and_stops_none(make, tmp_path):
    body = '[[grids]]\n"training.budget" = [{value=8}, {value=2}, {value=4}]\nseed = [0, 1]\n'
    study, stub = make(tmp_path, body), Crowded()
    tally, _ = run_here(study, tmp_path / "out", start=stub, jobs=3)
    assert (len(tally.failed), stub.most, len(stub.cells)) == (6, 2, 6)
    assert stub.refused > 0


@pytest.mark.slow
def test_what_an_earlier_call_trained_is_not_the_speed_of_this_one(make, tmp_path, monkeypatch):
    starts = []
    monkeypatch.setattr(log.Ticker, "start_at", lambda _, count: starts.append(count))
    study, out = make(tmp_path), tmp_path / "out"
    run_here(study, out, start=Stub())
    assert not starts
    monkeypatch.setattr(steps.TrainStep, "progress", lambda *_: 0.5)
    run_here(study, out, start=Stub())
    assert starts[0] > 0  # half of the first cell; then each cell that ended, and half of the next
    assert starts == pytest.approx([starts[0] * (1 + 2 * number) for number in range(4)])


def test_progress_is_in_tokens_where_the_operations_of_a_cell_are_not_known(
    make, tmp_path, monkeypatch
):
    costs = iter([estimate.Cost(500.0, 1e12, 9), *[estimate.Cost(500.0, None)] * 3])
    monkeypatch.setattr(estimate, "cost_of", lambda _: next(costs))
    ticker = log.Ticker("study", None, "", None)

    @contextlib.contextmanager
    def progress(_, total, unit):
        ticker.total, ticker.unit = total, unit
        yield ticker

    monkeypatch.setattr(runner, "progress", progress)
    run_here(make(tmp_path), tmp_path / "out", start=Stub())
    line = ticker.line(time.monotonic(), "")
    assert line.startswith("study: 2,000/2,000 tokens (100%)")


def test_a_cell_that_is_refused_while_none_runs_ends_the_study(make, tmp_path):
    class Full(Stub):
        def __call__(self, folder, slot, jobs, /):
            if kinds(folder) == ["share"]:
                return super().__call__(folder, slot, jobs)
            raise DataError("sbatch refused: invalid partition")

    with pytest.raises(DataError, match="invalid partition"):
        run_here(make(tmp_path), tmp_path / "out", start=Full(), jobs=3)


def test_a_signal_stops_the_cells_and_writes_no_failure(make, tmp_path):
    study, stub = make(tmp_path), Stub(looks=10_000)

    def interrupt():
        while not stub.live:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(runner.Interrupted, match="stopped by SIGTERM") as caught:
        run_here(study, tmp_path / "out", start=stub)
    thread.join()
    assert caught.value.exit_status == 143
    assert len(stub.cells) == 1
    assert not stub.live
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_a_folder_of_something_else_is_not_touched(make, tmp_path):
    study, out = make(tmp_path), tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    for options in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(RecipeError, match="holds files but no study of lingraft"):
            run_here(study, out, **options)
    assert [path.name for path in out.iterdir() if path.name != ".lock"] == ["thesis.txt"]


def test_a_study_that_was_killed_while_it_wrote_its_first_file_can_be_run_again(make, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / f".study.toml.{os.getpid()}.tmp").touch()
    study = make(tmp_path / "study")
    tally, _ = run_here(study, out, start=Stub(looks=1))
    assert len(tally.failed) == 4
    assert not list(out.glob(".*.tmp"))


def test_a_study_of_several_processes_is_refused_and_not_called_another_lingraft(
    make, tmp_path, monkeypatch
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RecipeError, match=r"study: works in one process.*--jobs"):
        run_here(make(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_study_needs_resume_or_overwrite(again, make, tmp_path):
    _, out = again
    head = 'name = "other"\nbase = "base.toml"\n[set]\n"training.budget" = { value = 2 }\n'
    other = make(tmp_path / "other", '[[grids]]\nmethod = ["scratch"]\n', head)
    with pytest.raises(RecipeError, match="holds the study 'tiny', not 'other'"):
        run_here(other, out, only=("scratch",))
    assert len(rows.latest(rows.read(out / "results.jsonl"))) == 4
    assert run_here(other, out, resume=True)[0].done == 1
    assert len(rows.latest(rows.read(out / "results.jsonl"))) == 5
    assert run_here(other, out, overwrite=True)[0].done == 1
    assert len(rows.latest(rows.read(out / "results.jsonl"))) == 1


def test_cores_and_gpus_are_shared_out(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "cores", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    found = [processes.machine_share(slot, 3) for slot in range(3)]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["3", "5", "3"]
    assert {one["OMP_NUM_THREADS"] for one in found} == {"2"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert processes.machine_share(0, 2) == {}
    monkeypatch.setattr(threads, "limited", True)  # it is not the user's
    assert processes.machine_share(0, 2) == {"OMP_NUM_THREADS": "4"}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert processes.visible_gpus(tmp_path) == ["0", "1"]


LONG = 150
"""Steps of a cell that is killed on the way."""


def children_of(folder):
    """Processes of the cells in a folder that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"lingraft.study.cell" in words and any(str(folder).encode() in word for word in words):
            found.append(int(path.parent.name))
    return found


def until(condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def filled(path):
    return path.is_file() and path.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_study_that_was_killed_leaves_nothing_running_and_ends_with_the_same_numbers(
    make, tmp_path
):
    body = '[[grids]]\nmethod = ["xpt-sp"]\nseed = [0, 1]\n'
    head = 'name = "tiny"\nbase = "base.toml"\n[set]\n'
    head += f'"training.budget" = {{ value = {LONG} }}\n"training.batch" = {{ size = 8 }}\n'
    head += '"phases.0.validation" = { sentences = 10, every_steps = 50 }\n'
    study = make(tmp_path, body, head)
    out, study_file = tmp_path / "out", tmp_path / "study.toml"
    tally, _ = run_here(study, tmp_path / "straight")
    assert tally.done == 2

    words = [sys.executable, "-m", "lingraft", "--quiet", "study", str(study_file)]
    words += ["--out", str(out), "--jobs", "2"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    logs = [out / "cells" / f"xpt-sp-s{seed}" / "metrics.jsonl" for seed in (0, 1)]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(words, env=environment, stdout=said, stderr=said)
        until(lambda: any(map(filled, logs)) or process.poll() is not None)
        process.kill()
        assert process.wait() == -signal.SIGKILL, (tmp_path / "said").read_text()
    until(lambda: not children_of(out), 60)
    assert not (out / "results.jsonl").exists()
    assert list(out.glob("cells/*/phase-1/checkpoint-*"))

    ended = subprocess.run(
        [*words, "--only", "xpt-sp"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert metrics(study, out) == metrics(study, tmp_path / "straight")
    said = [(out / "cells" / f"xpt-sp-s{seed}" / "log.txt").read_text() for seed in (0, 1)]
    assert any("goes on from step" in text for text in said)
    assert json.loads((out / "results.jsonl").read_text().splitlines()[-1])["status"] == "done"
