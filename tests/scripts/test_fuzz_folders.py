"""Some damaged models and edited results: the script itself runs thousands."""

import subprocess
import sys

import pytest
from script_modules import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["models", "results"])
def test_damaged_folders_give_a_line_or_a_result(kind):
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts/fuzz_folders.py", kind, "--number", "20", "--seed", "7"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    assert "success" in ended.stdout
