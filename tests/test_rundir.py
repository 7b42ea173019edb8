"""The one resumable step is stopped at every file operation, by every signal, and once more.

A full disk: one sentence everywhere, nothing half-made, and a study that stops at once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from lingraft import rundir
from lingraft.errors import DataError
from lingraft.files import clear_temporary, write_json, write_text, writing
from lingraft.processes import growing
from lingraft.rundir import Run, Step, checkpoint_digests, digest, read_json
from lingraft.training import checkpoint


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_text_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    write_text(tmp_path / "a.txt", "first")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(tmp_path / "a.txt", "second")
    assert (tmp_path / "a.txt").read_text() == "first"
    assert names(tmp_path) == ["a.txt"]


def test_a_checkpoint_is_known_by_all_files_of_its_tokenizer(tmp_path):
    for name in ("config.json", "model.safetensors", "merges.txt"):
        (tmp_path / name).write_text(name, "utf-8")
    before = checkpoint_digests(tmp_path)
    assert [name for name, _ in before] == ["config.json", "merges.txt", "model.safetensors"]
    (tmp_path / "README.md").write_text("no part of it", "utf-8")
    assert checkpoint_digests(tmp_path) == before
    for name in ("source.spm", "bpe.codes"):
        (tmp_path / name).write_text("a", "utf-8")
        first = checkpoint_digests(tmp_path)
        (tmp_path / name).write_text("another", "utf-8")
        assert checkpoint_digests(tmp_path) not in (before, first)


def build(stage, made="x", **result):
    with stage.building(made) as (folder, counts):
        (folder / "data").write_text("data")
        counts.update(result)


def test_a_stage_that_fails_leaves_nothing_and_the_old_one_stands(tmp_path):
    stage = Step(tmp_path / "corpus")
    build(stage, n=1)
    with pytest.raises(TypeError):
        build(stage, "y", n=object())  # JSON has no such thing
    assert stage.is_done("x")
    assert names(tmp_path) == ["corpus"]


def test_only_one_process_works_on_a_run(tmp_path):
    run = Run(tmp_path / "run")
    with run.locked():
        refused = pytest.raises(DataError, match="another lingraft is working on this run")
        with refused, Run(tmp_path / "run").locked():
            pass
    with run.locked():
        assert run.path.is_dir()


def test_a_lock_follows_no_symbolic_link_and_empties_nothing(tmp_path):
    (tmp_path / "mine").write_text("kept")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(DataError, match=r"\.lock: is a symbolic link"), Run(run).locked():
        pass
    (run / ".lock").unlink()
    (run / ".lock").write_text("kept")
    with Run(run).locked():
        pass
    assert (run / ".lock").read_text() == (tmp_path / "mine").read_text() == "kept"


def test_temporary_files_of_dead_processes_are_deleted_and_no_others(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ours, theirs = f".scores.json.{dead.pid}.partial", f".scores.json.{os.getppid()}.partial"
    left = [theirs, ".notes.partial", "mine.12.partial", "scores.json"]
    earlier = f".inputs.{os.getpid()}.partial"  # of a process that had our number before us
    for name in (ours, earlier, *left):
        (tmp_path / name).touch()
    clear_temporary(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(left)


def test_lines_go_on_behind_the_last_whole_block_of_the_same_call(tmp_path):
    out = tmp_path / "out.txt"
    for made_of, rest in (("a", b""), ("b", b"5\n"), ("a", b"3\n4\n5\n")):
        with contextlib.suppress(KeyboardInterrupt), growing(out, made_of, 2) as (file, before):
            assert before == (2 if rest.startswith(b"3") else 0)
            file.write(rest or b"1\n2\n3\nhalf")
            if not rest:
                raise KeyboardInterrupt
            with pytest.raises(DataError, match="another lingraft is writing it"):
                growing(out, made_of).__enter__()
    assert out.read_bytes() == b"1\n2\n3\n4\n5\n"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    "error",
    [
        SafetensorError("I/O error"),
        RuntimeError("enforce fail"),
        Exception("No space left on device (os error 28)"),
    ],
)
def test_what_libraries_raise_on_a_full_disk_names_the_file_once(error, tmp_path):
    with pytest.raises(DataError) as caught, writing(tmp_path), writing(tmp_path / "model"):
        raise error
    assert str(caught.value) == (
        f"{tmp_path / 'model'}: cannot be written ({error}); "
        "make room, then run the same command again"
    )


def test_done_json_holds_fingerprint_seconds_and_result(tmp_path):
    build(Step(tmp_path / "corpus"), n=1)
    path = tmp_path / "corpus" / "done.json"
    data = read_json(path)
    assert list(data) == ["fingerprint", "seconds", "result"]
    path.write_text(path.read_text().replace('"n": 1', '"n": 2'))
    with pytest.raises(DataError, match=r"done\.json: was changed after"):
        Step(tmp_path / "corpus").result()
    for content in ("[]", '{"result": {}}'):  # of an earlier version, without a digest
        path.write_text(content)
        with pytest.raises(DataError, match=r"done\.json: is broken"):
            Step(tmp_path / "corpus").fingerprint()
    write_json(path, data)
    assert Step(tmp_path / "corpus").done() == data


# -- digests


def test_a_large_file_is_read_once_by_all_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(rundir, "LARGE", 1)
    path = tmp_path / "large"
    path.write_text("text")
    before = digest(path)
    rundir._digest.cache_clear()  # what another process knows
    monkeypatch.setattr(rundir.hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    assert digest(path) == before
    monkeypatch.undo()
    path.write_text("other")
    assert digest(path) != before


SCRIPT = Path(__file__).parent / "support" / "stepping.py"
SOURCE = Path(__file__).parents[1] / "src" / "lingraft"
ENDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 130}


def test_a_step_stopped_at_any_file_operation_is_whole_or_not_finished(tmp_path):
    """It takes the place of another one, so what is cleared counts too."""
    words = [sys.executable, SCRIPT, tmp_path]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    cases = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(cases) == 6
    for case in cases:
        assert len(case["found"]) > 12
        for one in case["found"]:
            first, second = one["ends"]
            assert first == ENDS[case["signal"]], case  # the signal has landed
            assert second in (0, first)
            assert set(one["states"]) <= {"old", "new", ""}
            assert (one["end"], one["left"]) == ("new", [])
        assert any(one["ends"][1] == ENDS[case["signal"]] for one in case["found"])


def test_what_was_made_from_other_inputs_is_refused_or_deleted(tmp_path):
    step = Step(tmp_path / "step")
    step.begin({"fingerprint": "a", "seed": 1, "task": "x"})
    (step.path / "checkpoint").mkdir()
    other = {"fingerprint": "b", "seed": 2, "task": "x"}
    with pytest.raises(DataError, match=r"other inputs \(they differ in: seed\); --update"):
        step.is_kept(other, replace=False, mend="--update does it anew")
    assert (step.path / "checkpoint").is_dir()
    step.begin({"fingerprint": "a", "seed": 1, "task": "x"})
    assert (step.path / "checkpoint").is_dir()
    step.begin(other, keep=["checkpoint"])
    assert (step.path / "checkpoint").is_dir()
    assert not step.is_kept({"fingerprint": "c"}, replace=True, mend="")
    assert not step.path.exists()


def test_a_phase_that_an_earlier_version_began_goes_on(tmp_path):
    step = Step(tmp_path / "step")
    (step.path / "checkpoint").mkdir(parents=True)
    (step.path / "inputs").write_text("0123456789abcdef")
    assert step.inputs() == {"fingerprint": "0123456789abcdef"}
    step.begin({"fingerprint": "0123456789abcdef"})
    assert (step.path / "checkpoint").is_dir()


def test_one_file_alone_names_what_says_that_a_step_is_done():
    """So there is one writer of done.json, and one comparison of inputs."""
    names = ('done.json"', '/ "inputs"')
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    found = [path for path, text in texts.items() if any(map(text.__contains__, names))]
    assert found == ["rundir.py"]


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def largest_file(size):
    """Files of this process cannot grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rubbish(folder):
    return [str(path) for path in folder.rglob("*partial*")]


# -- what is said


# -- what is left


def test_a_checkpoint_that_does_not_fit_leaves_nothing(tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr(checkpoint, "write_json", full)
    model = tiny_model("bert")
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path, 1, model, torch.optim.AdamW(model.parameters()), {})
    assert list(tmp_path.iterdir()) == []


def test_fine_tuning_that_does_not_fit_is_told_and_leaves_nothing(tiny_source, tmp_path, command):
    data = "text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(6))
    (tmp_path / "mood.csv").write_text(data)
    (tmp_path / "dev.csv").write_text(data.replace("text ", "other "))
    table = 'name = "mood"\nkind = "classification"\nmetrics = ["accuracy"]\n'
    table += 'files = { train = "mood.csv", dev = "dev.csv" }\nepochs = 1\n'
    (tmp_path / "mood.toml").write_text(table)
    out = tmp_path / "out"
    words = ("finetune", tiny_source("bert"), "--task", tmp_path / "mood.toml", "--seeds", 1)
    with largest_file(50_000):
        ended = command("--quiet", *words, "--out", out)
    assert ended.status == 1
    assert "make room, then run the same command again" in ended.err
    assert ended.err.count("\n") == 1
    assert not rubbish(out)
    assert command(*words, "--out", out).status == 0
