"""The scripts in benchmarks/ as modules."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name):
    """A script by its name without .py; scripts import one another as they do when they run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        module = importlib.import_module(name)
    assert Path(sys.modules[name].__file__).parent == BENCHMARKS
    return module
