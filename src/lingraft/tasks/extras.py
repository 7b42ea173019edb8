"""The libraries that define the field's metrics, loaded when a score is first computed."""

from __future__ import annotations

import importlib
from typing import Any

from lingraft.errors import DataError


def _require(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataError(
            f'scoring a task needs the package {package}; run: pip install "lingraft[finetune]"'
        ) from None


def sklearn_metrics() -> Any:
    """The module `sklearn.metrics`.

    Raises:
        DataError: it is not installed.
    """
    return _require("sklearn.metrics", "scikit-learn")


def stats() -> Any:
    """The module `scipy.stats`, which takes a second to load."""
    return importlib.import_module("scipy.stats")
