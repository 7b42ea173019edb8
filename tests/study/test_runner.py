"""Running the cells of a study; most of them in this process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from tiny_study import GRID, HEAD, Here, run_here, write_study

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import run
from lingraft.report import row
from lingraft.rundir import Run, Step
from lingraft.study import cell, grid, runner
from lingraft.study.results import collect

OFFICIAL = Path(__file__).parents[1] / "tasks" / "official"
KORSTS = """
[[tasks]]
name = "korsts"
data = "official"
seeds = 2
settings = { epochs = 1, batch = 4, max_length = 48 }
"""
MOOD = '\n[[tasks]]\nname = "mood.toml"\nseeds = [3]\nmethods = ["scratch"]\n'
OWN = """
name = "mood"
kind = "classification"
files = { train = "mood.csv", dev = "mood.csv", test = "mood.csv" }
epochs = 1
batch = 4
max_length = 32
"""


@pytest.fixture(scope="module")
def make(tiny_source, korean_text):
    def written(folder, body=GRID, head=HEAD, **changes):
        folder.mkdir(exist_ok=True)
        shutil.copytree(OFFICIAL, folder / "official", dirs_exist_ok=True)
        (folder / "mood.toml").write_text(OWN)
        (folder / "mood.csv").write_text("text,label\n비가 온다,down\n해가 난다,up\n좋다,up\n")
        return write_study(folder, tiny_source("roberta"), korean_text, body, head, **changes)

    return written


@pytest.fixture(scope="module")
def finished(make, tmp_path_factory):
    """A study of four cells that has run; do not change it."""
    folder = tmp_path_factory.mktemp("finished")
    study = make(folder)
    failed, started = run_here(study, folder / "out")
    assert (failed, len(started)) == ([], 4)
    return study, folder / "out"


@pytest.fixture
def again(finished, tmp_path):
    """A copy of it that may be changed."""
    study, out = finished
    return study, Path(shutil.copytree(out, tmp_path / "out", symlinks=True))


def metrics(out):
    """What was measured, without times."""
    return sorted((r.model, r.metric, r.value) for r in runner.current(out).rows)


def task_rows(out):
    return [one for one in row.read(out / "results.jsonl") if one.data]


def states(study, out):
    return {one.cell.id: one.state for one in runner.plan(study, out)}


def test_every_cell_has_metrics_and_a_curve_and_blocks_add_up_to_the_metrics(finished):
    study, out = finished
    known = runner.current(out)
    assert known.planned == [one.id for one in grid.cells(study)]
    assert known.failures == {}
    for name in known.planned:
        own = {one.metric: one for one in known.rows if one.model == name}
        assert own.keys() >= {"mask-only/perplexity", "mask-only/hits@10", "curve/loss"}
        assert own["curve/loss"].value == min(loss for _, loss in own["curve/loss"].points)
        bits = own["bits_per_character"]
        for pairs in (bits.blocks, bits.words):
            total, characters = (sum(part) for part in zip(*pairs, strict=True))
            assert total / characters == pytest.approx(bits.value, rel=1e-4)
        assert sum(count > 0 for _, count in bits.words) == bits.n
        assert {"tokens", "seconds", "parameters", "device", "torch"} <= bits.facts.keys()


def test_text_and_vocabulary_are_made_once_and_the_study_can_be_moved(finished, command):
    _, out = finished
    assert len(list(out.glob("shared/*/tokenizer/done.json"))) == 1
    assert len(list(out.glob("shared/corpus-*/corpus/done.json"))) == 1
    one = out / "cells" / "xpt-sp-s1"
    for name in ("corpus", "tokenizer"):
        assert not os.path.isabs(os.readlink(one / name))  # noqa: PTH115, PTH117
        assert (one / name / "done.json").is_file()
    weights = {path.parts[-3:-1] for path in out.glob("cells/**/*.safetensors")}
    assert weights == {("phase-1", "best")}


def test_a_finished_study_runs_nothing_and_lost_rows_come_back(again):
    study, out = again
    expected = metrics(out)
    path = out / "results.jsonl"
    for damage in (b"", path.read_bytes()[:-20]):  # half a line, which a kill left
        path.write_bytes(damage)
        assert run_here(study, out) == ([], [])
        assert metrics(out) == expected


def test_a_larger_study_runs_its_new_cells_alone(again, make, tmp_path):
    _, out = again
    larger = make(tmp_path / "larger", GRID.replace("[0, 1]", "[0, 1, 2]"))
    assert run_here(larger, out, only=("xpt-sp",)) == ([], ["xpt-sp-s2"])
    assert states(larger, out)["scratch-s2"] == "to do"


def test_a_study_whose_base_has_changed_is_refused_until_update_or_force(again, make, tmp_path):
    _, out = again
    body = '[[grids]]\nmethod = ["xpt-sp"]\nseed = [0, 1]\n[[rules]]\nwhen = { seed = 1 }\n'
    changed = make(tmp_path / "new", body + 'set = { "training.dropout" = 0.2 }\n')
    before = (out / "results.jsonl").read_text()
    with pytest.raises(RecipeError, match=r"cells of other inputs \(xpt-sp-s1\); --update keeps"):
        run_here(changed, out)
    assert (out / "results.jsonl").read_text() == before
    assert states(changed, out) == {"xpt-sp-s0": "done", "xpt-sp-s1": runner.CHANGED}
    assert run_here(changed, out, update=True) == ([], ["xpt-sp-s1"])
    assert (out / "results.jsonl").read_text().startswith(before)  # what was measured stays
    assert {one.model for one in runner.current(out).rows} == {"xpt-sp-s0", "xpt-sp-s1"}
    _, started = run_here(changed, out, force=True)
    assert len(started) == 2
    assert len({one.inputs for one in row.read(out / "results.jsonl")}) == 2


def test_a_failed_cell_does_not_stop_the_others_and_is_tried_again(make, tmp_path):
    study, out = make(tmp_path, '[[grids]]\nmethod = ["scratch", "xpt-sp"]\n'), tmp_path / "out"
    failed, started = run_here(study, out, start=Here({"scratch-s0": -signal.SIGKILL}))
    assert (failed, len(started)) == (["scratch-s0"], 2)
    assert "killed; out of memory?" in runner.current(out).failures["scratch-s0"]
    assert run_here(study, out) == ([], ["scratch-s0"])
    assert runner.current(out).failures == {}


def test_the_message_of_a_failed_cell_is_the_error_that_it_met(make, tmp_path):
    study, out = make(tmp_path, '[[grids]]\nmethod = ["scratch"]\n', language="en"), tmp_path / "o"
    assert run_here(study, out)[0] == ["scratch-s0"]
    assert states(study, out) == {"scratch-s0": "failed"}
    assert "the script of language 'en'" in runner.current(out).failures["scratch-s0"]


def test_a_second_process_on_a_study_or_on_a_cell_is_told_so(again, make, tmp_path, monkeypatch):
    study, out = again
    with Run(out).locked(), pytest.raises(DataError, match="another lingraft is working on this"):
        run_here(study, out)
    larger = make(tmp_path / "larger", '[[grids]]\nmethod = ["scratch"]\nseed = [5]\n')
    monkeypatch.setattr(cell, "GRACE_SECONDS", -10)
    with Run(out / "cells" / "scratch-s5").locked():
        monkeypatch.setattr(runner, "LOCK_SECONDS", 0)
        assert run_here(larger, out)[0] == ["scratch-s5"]
    failures = runner.current(out).failures
    assert "scratch-s5: another lingraft is working on this" in failures["scratch-s5"]
    assert run_here(larger, out)[0] == []


# -- tasks


def test_tasks_are_done_once_and_a_new_one_trains_again_where_weights_are_gone(make, tmp_path):
    head, out = HEAD.replace("[set]", 'keep = "none"\n[set]'), tmp_path / "out"
    body = '[[grids]]\nmethod = ["untrained", "scratch"]\nsentences = [100, 200]\n'
    failed, started = run_here(make(tmp_path, body + MOOD, head), out)
    assert (failed, len(started), started[0]) == ([], 3, "untrained-s0")  # one for all sizes
    found = task_rows(out)
    expected = {(f"scratch-n{size}-s0", "mood", 3) for size in (100, 200)}
    assert {(one.model, one.data, one.seed) for one in found} == expected
    assert ("test", "accuracy") in {(one.split, one.metric) for one in found if one.reported}
    assert list(out.glob("cells/**/*.safetensors")) == []
    results = collect(runner.current(out).rows)
    assert [g.label for g in results.at(100)] == ["scratch", "untrained"]
    assert results.sizes == [100, 200]

    before = [(one.key, one.value) for one in row.read(out / "results.jsonl")]
    more = make(tmp_path, body + MOOD + KORSTS.replace("seeds = 2", "sentences = [100]"), head)
    assert list(states(more, out).values()) == ["to do", "to do", "done"]
    assert run_here(more, out, only=("scratch-n100-s0",)) == ([], ["scratch-n100-s0"])
    after = [(one.key, one.value) for one in row.read(out / "results.jsonl")]
    assert after[: len(before)] == before
    new = task_rows(out)[len(found) :]
    assert {(one.data, one.seed) for one in new} == {("korsts", seed) for seed in (0, 1, 2)}


def test_scores_of_other_settings_are_no_rows_of_the_new_ones(make, tmp_path, monkeypatch):
    body, out = '[[grids]]\nmethod = ["scratch"]\n' + MOOD, tmp_path / "out"
    assert run_here(make(tmp_path, body), out)[0] == []
    before = {one.inputs for one in task_rows(out)}
    body += "settings = { epochs = 2 }\n"
    refused = Mock(side_effect=RecipeError("no such dropout"))
    with monkeypatch.context() as patch:
        patch.setattr(run, "finetune", refused)
        for _ in range(2):
            assert run_here(make(tmp_path, body), out)[0] == ["scratch-s0"]
    assert {one.inputs for one in task_rows(out)} <= before
    assert run_here(make(tmp_path, body), out)[0] == []
    assert {one.inputs for one in runner.current(out).rows if one.data}.isdisjoint(before)


def test_axes_of_fine_tuning_share_the_trained_model_and_the_best_on_dev_is_shown(make, tmp_path):
    axes = '"finetune.train_examples" = [2, 4]\n"finetune.learning_rate" = [1e-3, 1e-7]\n'
    body = '[[grids]]\nmethod = ["scratch"]\n' + axes + KORSTS.replace("seeds = 2", "seeds = 1")
    body += '[select]\n"finetune.learning_rate" = "dev"\n'
    study, out = make(tmp_path, body), tmp_path / "out"
    assert run_here(study, out) == ([], ["scratch-s0"])
    found = [one for one in task_rows(out) if one.reported]
    assert {(one.axes["finetune.learning_rate"], one.facts["learning_rate"],
             one.axes["finetune.train_examples"], one.facts["train_examples"])
            for one in found} == {(r, r, n, n) for r in (1e-3, 1e-7) for n in (2, 4)}  # fmt: skip
    results = collect(runner.current(out).rows, study.select)
    best = {group.cells[0].axes["finetune.train_examples"]: group for group in results.groups}
    for size, group in best.items():
        rivals = [one for one in found if one.facts["train_examples"] == size]
        first = max(rivals, key=lambda one: one.facts["dev"])
        assert group.values("task/korsts/spearman") == [first.value]
    assert set(best) == {2, 4}
    (path,) = out.glob("cells/*/done.json")
    assert Step(path.parent).inputs()["tasks"]
    assert run_here(study, out)[1] == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (MOOD.replace("scratch", "lapt"), "no cell has its methods and sentences"),
        (MOOD + MOOD, "mood is there twice for a cell"),
        ('"evaluation.samples" = [1, 2]\n', "differ in nothing that decides a result"),
        ('"finetune.learning_rate" = [1e-5]\n', r"add \[\[tasks\]\]"),
    ],
)
def test_tasks_that_cannot_be_done_are_refused(body, message, make, tmp_path):
    with pytest.raises(RecipeError, match=message):
        runner.plan(make(tmp_path, GRID + body), tmp_path / "out")


# -- the command, kills, jobs


def test_the_command_runs_plans_and_reports(again, make, tmp_path, command):
    _, out = again
    make(tmp_path / "again")
    file = tmp_path / "again" / "study.toml"
    command("study", "run", file, "--out", out).well()
    planned = command("study", "plan", file, "--out", out, "--only", "xpt-sp", "scratch", "--json")
    assert {one["state"] for one in json.loads(planned.out)["cells"]} == {"done"}
    (out / "report.html").unlink()
    reported = json.loads(command("study", "report", out, "--json").out)
    assert list(reported["scores"][0])[:3] == ["method", "PPL", "bits/char"]
    assert (out / "report.html").is_file()
    refused = command("study", "run", file, "--out", out, "timeout_min=3")
    assert "options are slurm's alone" in refused.err


LONG = 80
"""Steps of a cell that is stopped on the way."""


def filled(path):
    return path.is_file() and path.stat().st_size > 0


@pytest.mark.slow
def test_a_killed_study_leaves_nothing_running_and_ends_with_the_same_numbers(make, tmp_path):
    body = '[[grids]]\nmethod = ["xpt-sp"]\nseed = [0, 1]\n'
    head = HEAD.replace("value = 4", f"value = {LONG}")
    head += '"phases.0.validation" = { max_sentences = 10, every_steps = 50 }\n'
    study, out = make(tmp_path, body, head), tmp_path / "out"
    run_here(study, tmp_path / "straight")
    words = [sys.executable, "-m", "lingraft", "study", "run", str(tmp_path / "study.toml")]
    words += ["--out", str(out), "--jobs", "2"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    logs = [out / "cells" / f"xpt-sp-s{seed}" / "metrics.jsonl" for seed in (0, 1)]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(words, env=environment, stdout=said, stderr=said)
        deadline = time.monotonic() + 240
        while not any(map(filled, logs)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
    for one in out.glob("cells/*"):
        with Run(one).locked(60):  # its process has ended
            pass
    assert not (out / "results.jsonl").exists()
    assert list(out.glob("cells/*/phase-1/checkpoint-*"))
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert metrics(out) == metrics(tmp_path / "straight")
    said = [(path.parent / "log.txt").read_text() for path in logs]
    assert any("goes on from step" in text for text in said)


@pytest.mark.slow
def test_cells_are_jobs_of_submitit(make, tmp_path):
    pytest.importorskip("submitit")
    body = '[[grids]]\nmethod = ["scratch"]\n[[grids]]\nmethod = ["xpt-sp"]\nsentences = [10000]\n'
    study, out = make(tmp_path, body), tmp_path / "out"
    start = cell.start_of("submitit-local", {"timeout_min": 5}, out)
    failed, _ = run_here(study, out, start=Submitted(start), jobs=2)
    assert failed == ["xpt-sp-n10000-s0"]
    message = runner.current(out).failures["xpt-sp-n10000-s0"]
    assert "10,000" in message or "10000" in message
    with pytest.raises(RecipeError, match="--executor"):
        cell.start_of("submitit-local", {"no_such_thing": 5}, out)


class Submitted(Here):
    def __init__(self, start):
        super().__init__()
        self.start = start

    def __call__(self, folder, slot, jobs, /):
        self.started.append(folder.name)
        return self.start(folder, slot, jobs)
