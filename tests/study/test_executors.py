"""Cells as jobs of Slurm."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import time

import pytest
from fake_slurm import FakeSlurm
from tiny_study import run_here, write_study

from lingraft import threads
from lingraft.errors import DataError, RecipeError
from lingraft.study import planning, processes, rows, runner
from lingraft.study.executors import slurm, start_of
from lingraft.study.studydir import EXIT, JOB, StudyDir

WORDS = ("#SBATCH --partition=gpu", "#SBATCH --cpus-per-task=4", "#SBATCH --exclusive")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Slurm that says at once how its jobs end."""
    monkeypatch.setattr(slurm, "ASKING_SECONDS", 0.0)
    monkeypatch.setattr(slurm, "PATIENCE", 0.0)
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "a cell"
    place.mkdir()
    return place


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Jobs run this shell script in the place of a cell; $3 is the cell's folder."""

    def script(text):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return script


def end_of(job, seconds=60):
    deadline = time.monotonic() + seconds
    while (status := job.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return status


def test_the_script_has_the_options_and_becomes_the_cell(folder):
    text = slurm.script(folder, {"partition": "gpu", "cpus_per_task": "4", "exclusive": ""})
    lines = text.splitlines()
    assert set(WORDS) <= set(lines)
    assert "#SBATCH --job-name=lingraft-a\\ cell" in lines
    assert lines[-1].startswith(f"exec {sys.executable} -m lingraft.study.cell ")
    assert lines[-1].endswith(f"'{folder}' --job")


@pytest.mark.parametrize("value", ["two words", "it's # 1", 'a "quoted" \\ word'])
def test_an_option_reaches_sbatch_as_it_was_written(value):
    (line,) = slurm.option_lines({"comment": value})
    assert shlex.split(line, comments=False)[1:] == [f"--comment={value}"]
    assert "#" not in re.sub(r"\\.", "", line.removeprefix("#"))


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("pbs", {}, "must be local or slurm; got pbs"),
        ("slurm", {"clusters": "gpu"}, "clusters: jobs of another cluster are not found again"),
        ("slurm", {"wait": ""}, "wait: sbatch would come back only when its job has ended"),
        ("local", {"partition": "gpu"}, "is for jobs of a cluster"),
        ("slurm", {"output": "x"}, "is set by lingraft"),
        ("slurm", {"Time limit": "x"}, "write a long option of sbatch"),
        ("ray", {}, "must be local or slurm; got ray"),
    ],
)
def test_executors_and_options_that_cannot_be_are_refused(kind, options, said):
    with pytest.raises(RecipeError, match=said):
        start_of(kind, options)


def test_where_slurm_is_not_installed_it_says_so(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="sbatch is not here"):
        slurm.Slurm({})(folder, 0, 1)


def test_a_job_that_slurm_refuses_is_one_line(cluster, folder):
    with pytest.raises(DataError, match=r"sbatch refused a cell: .*invalid partition"):
        slurm.Slurm({"partition": "none"})(folder, 0, 1)
    assert not (folder / JOB).exists()


def test_a_job_inherits_no_secret(cluster, folder, python, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    python('env > "$3/env"; ' + ends(0))
    end_of(slurm.Slurm({})(folder, 0, 1))
    seen = (folder / "env").read_text()
    assert "hf_secret" not in seen
    assert "OMP_NUM_THREADS=3" in seen


def test_a_number_is_found_among_what_a_sites_own_sbatch_says(cluster, folder, python):
    python(ends(0))
    wrapped = cluster.folder / "sbatch"
    wrapped.rename(cluster.folder / "real")
    wrapped.write_text(f"#!/bin/sh\necho Welcome to the cluster; exec {cluster.folder}/real\n")
    wrapped.chmod(0o755)
    job = slurm.Slurm({})(folder, 0, 1)
    assert job.job == "1"
    assert end_of(job) == 0
    wrapped.write_text("#!/bin/sh\ncat > /dev/null; echo Welcome\n")
    with pytest.raises(DataError, match="no number of a job for a cell; it said: Welcome"):
        slurm.Slurm({})(folder, 0, 1)


def ends(status):
    """A script's last words, written at once as a cell writes them."""
    return f'echo \'{{"status": {status}}}\' > "$3/half"; mv "$3/half" "$3/{EXIT}"'


@pytest.mark.parametrize(("limited", "said"), [(True, "7"), (False, "2")])
def test_a_job_has_no_threads_of_a_quota_of_the_study_but_those_of_the_user(
    limited, said, cluster, folder, python, monkeypatch
):
    monkeypatch.setenv(threads.COUNT, "2")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "7")
    monkeypatch.setattr(threads, "limited", limited)
    python(f"echo ${threads.COUNT}; {ends(0)}")
    assert end_of(start_of("slurm", {})(folder, 0, 1)) == 0
    assert (folder / "log.txt").read_text() == f"{said}\n"


@pytest.mark.parametrize("status", [0, 3])
def test_a_job_tells_its_exit_status_by_its_folder(status, cluster, folder, python):
    python(ends(status))
    job = slurm.Slurm({})(folder, 0, 1)
    assert end_of(job) == status
    assert not (folder / JOB).exists()


@pytest.mark.slow
def test_a_job_that_slurm_killed_failed_with_slurms_reason(cluster, folder, python):
    (folder / EXIT).write_text('{"status": 0}')  # of an earlier job
    python("echo half a line; sleep 600")
    job = slurm.Slurm({})(folder, 0, 1)
    assert job.poll() is None
    while "half" not in processes.last_line(folder / "log.txt"):
        time.sleep(0.02)
    cluster.kill(job.job)
    assert end_of(job) == 1
    assert processes.failure(folder, 1) == (
        "Slurm ended job 1 (OUT_OF_MEMORY); it said: half a line"
    )


def test_a_job_that_still_runs_is_waited_for_and_not_started_twice(cluster, folder, python):
    python('while [ ! -e "$3/go" ]; do sleep 0.05; done; ' + ends(0))
    first = slurm.Slurm({})(folder, 0, 1)
    again = slurm.Slurm({})(folder, 0, 1)
    assert (again.job, cluster.submitted) == (first.job, 1)
    (folder / "go").touch()
    assert end_of(again) == 0
    slurm.Slurm({})(folder, 0, 1)
    assert cluster.submitted == 2


@pytest.mark.slow
def test_a_job_is_asked_to_stop_once_and_by_a_signal_that_reaches_the_cell(cluster, folder, python):
    python("trap 'echo stopped; exit 143' TERM; echo begun; while :; do sleep 0.05; done")
    job = slurm.Slurm({})(folder, 0, 1)
    while processes.last_line(folder / "log.txt") != "begun":
        time.sleep(0.02)
    job.terminate_once()
    job.terminate_once()
    assert end_of(job) == -signal.SIGTERM
    assert (folder / "log.txt").read_text().count("stopped") == 1


def test_a_queue_that_does_not_answer_ends_no_job(cluster, folder, python):
    python("sleep 600")
    job = slurm.Slurm({})(folder, 0, 1)
    (cluster.folder / "squeue").write_text("#!/bin/sh\nexit 1\n")
    cluster.kill(job.job)
    assert [job.poll() for _ in range(3)] == [None] * 3
    job.kill()


def test_what_jobs_may_be_writing_is_not_deleted(tmp_path, tiny_source, korean_text):
    study = write_study(tmp_path, tiny_source("roberta"), korean_text)
    out = StudyDir(tmp_path / "out")
    (out.path / "cells" / "x").mkdir(parents=True)
    out.study_path.write_text('name = "tiny"\n')
    (out.path / "cells" / "x" / JOB).write_text('{"job": "12"}')
    half = out.path / "cells" / "x" / ".metrics.jsonl.4194305.tmp"
    half.touch()
    with pytest.raises(RecipeError, match=r"jobs of Slurm may still work there \(12\)"):
        out.prepare(study, resume=False, overwrite=True)
    out.prepare(study, resume=False, overwrite=False)
    assert half.is_file()


def test_a_changed_study_does_not_delete_where_jobs_or_processes_of_the_old_one_write(
    tmp_path, tiny_source, korean_text
):
    study = write_study(tmp_path, tiny_source("roberta"), korean_text)
    out = StudyDir(tmp_path / "out")
    out.path.mkdir()
    out.prepare(study, resume=False, overwrite=False)
    (plan, *_) = planning.plan(study, (), out.results_path, out)
    run, shared = out.cell(plan.cell.id), out.share("text", "vocabulary")
    out.open_cell(plan.cell, "other settings", shared)
    (run.path / JOB).write_text('{"job": "12"}')
    with pytest.raises(RecipeError, match=r"jobs of Slurm may still work there \(12\)"):
        runner.run(study, out.path)
    (run.path / EXIT).write_text('{"status": 0}')
    assert plan.cell.id in planning.replaced([plan], out)
    with run.locked(), pytest.raises(DataError, match="another lingraft is working"):
        out.open_cell(plan.cell, plan.fingerprint, shared)
    out.open_cell(plan.cell, plan.fingerprint, shared)
    assert not (run.path / JOB).exists()


def metrics(study, out):
    found = planning.current_rows(study, out)
    return [(row.cell, row.metric, row.value, row.blocks) for row in found if row.kind == "metric"]


@pytest.fixture(scope="module")
def straight(tiny_source, korean_text, tmp_path_factory):
    """A study of two cells, and where it ran on this machine."""
    place = tmp_path_factory.mktemp("straight")
    body = '[[grids]]\nmethod = ["xpt-sp"]\nseed = [0, 1]\n'
    head = 'name = "tiny"\nbase = "base.toml"\n[set]\n'
    head += '"training.budget" = { value = 60 }\n"training.batch" = { size = 8 }\n'
    head += '"phases.0.validation" = { sentences = 10, every_steps = 20 }\n'
    head += '"hardware.checkpoint_steps" = 10\n'
    study = write_study(place, tiny_source("roberta"), korean_text, body, head)
    assert run_here(study, place / "out")[0].done == 2
    return study, place / "out"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_slurm_runs_the_cells_and_one_that_it_killed_goes_on_with_the_next_call(
    straight, cluster, tmp_path
):
    study, there = straight
    out = tmp_path / "out"

    class Killing(slurm.Slurm):
        """Kills a cell's job once it has a checkpoint."""

        def __call__(self, folder, slot, jobs, /):
            job = super().__call__(folder, slot, jobs)
            if folder.name == "xpt-sp-s0":
                while not list(folder.glob("phase-1/checkpoint-*")):
                    assert job.poll() is None, (folder / "log.txt").read_text()
                    time.sleep(0.02)
                cluster.kill(job.job)
            return job

    tally, _ = run_here(study, out, start=Killing({}), jobs=2)
    assert (tally.done, tally.failed) == (1, ["xpt-sp-s0"])
    (failed,) = [one for one in rows.read(out / "results.jsonl") if one.kind == "end"
                 and one.status == "failed"]  # fmt: skip
    assert failed.message.startswith("Slurm ended job 2 (OUT_OF_MEMORY)")
    tally, _ = run_here(study, out, start=slurm.Slurm({}))
    assert (tally.kept, tally.done, tally.failed) == (1, 1, [])
    assert cluster.submitted == 4  # text and vocabulary, two cells, and one of them again
    assert "goes on from step" in (out / "cells/xpt-sp-s0/log.txt").read_text()
    assert metrics(study, out) == metrics(study, there)
    assert not list(out.rglob(JOB))
