"""The two targets of tests leave nothing out, and both are run before a release."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


def test_the_two_targets_of_tests_leave_nothing_out():
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    chosen = [line.partition(" -m ")[2] for line in lines if "/pytest " in line]
    assert chosen == ['"not slow"', "slow"]


def commands(path):
    return re.findall(
        r"^[^#\n]*\bmake (\S.*)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE
    )


def test_ci_runs_what_the_readme_names():
    assert commands(".ci/run") == ["check", "test"]


def test_both_run_for_every_change_and_every_python_beside_each_other():
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"]["test"]
    assert job["strategy"]["matrix"].keys() == {"python", "tests"}
    assert job["strategy"]["matrix"]["tests"] == ["fast", "slow"]
    steps = {step["run"]: step["if"] for step in job["steps"] if "run" in step}
    fast, slow = (f"matrix.tests == '{kind}'" for kind in ("fast", "slow"))
    assert steps == {"make check": fast, "make test": fast, "make test-slow": slow}


def test_a_release_passes_both():
    assert commands(".github/workflows/release.yml")[:3] == ["check", "test", "test-slow"]
