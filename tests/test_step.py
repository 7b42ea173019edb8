"""The one resumable step is stopped at every file operation, by every signal, and once more."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lingraft.errors import DataError
from lingraft.rundir import Step

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
    assert [path for path, text in texts.items() if any(map(text.__contains__, names))] == [
        "rundir.py"
    ]
