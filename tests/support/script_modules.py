"""The files of scripts/ as modules, and those of other folders."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(name, folder="scripts"):
    """A script by its name without .py; scripts import one another as they do when they run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / folder)
        module = importlib.import_module(name)
    assert Path(sys.modules[name].__file__).parent == ROOT / folder
    return module
