"""The two targets of tests leave nothing out, and CI runs both."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_two_targets_of_tests_leave_nothing_out():
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    chosen = [line.partition(" -m ")[2] for line in lines if "/pytest " in line]
    assert chosen == ['"not slow"', "slow"]


@pytest.mark.parametrize(
    "path", [".ci/run", ".github/workflows/ci.yml", ".github/workflows/release.yml"]
)
def test_ci_runs_both(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.findall(r"make (test\S*)$", text, re.MULTILINE) == ["test", "test-slow"]
