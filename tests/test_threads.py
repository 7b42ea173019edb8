"""OpenMP's threads wait passively, unless the user has chosen or torch is there already."""

import os
import subprocess
import sys

import pytest

from lingraft.threads import CHOICES


def policy(code, **chosen):
    """OMP_WAIT_POLICY in a fresh process, and what torch's OpenMP says that it reads."""
    known = {name: value for name, value in os.environ.items() if name not in CHOICES}
    code += "; import os; print(os.environ.get('OMP_WAIT_POLICY'))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=known | chosen, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout.strip(), ended.stderr


@pytest.mark.parametrize("module", ["lingraft", "lingraft.cli"])
def test_threads_wait_passively_by_default(module):
    assert policy(f"import {module}")[0] == "PASSIVE"


@pytest.mark.parametrize("name", CHOICES)
def test_what_the_user_chose_is_left(name):
    chosen = {"OMP_WAIT_POLICY": "ACTIVE"} if name == CHOICES[0] else {name: "100"}
    assert policy("import lingraft", **chosen)[0] == chosen.get("OMP_WAIT_POLICY", "None")


def test_nothing_is_said_once_torch_is_loaded():
    assert policy("import sys; sys.modules['torch'] = sys; import lingraft")[0] == "None"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="torch's OpenMP is GNU's there")
def test_torch_s_own_library_reads_it():
    _, said = policy("import lingraft, torch", OMP_DISPLAY_ENV="true")
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in said
