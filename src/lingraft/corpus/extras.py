"""Optional packages, imported where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from lingraft.errors import DataError


def require(module: str, purpose: str, extra: str) -> Any:
    """Import a module of an optional extra.

    Args:
        module: its dotted name.
        purpose: what cannot be done without it, for the message.
        extra: the extra of lingraft that brings it.

    Raises:
        DataError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.split(".")[0].replace("_", "-")
        raise DataError(
            f'{purpose}: needs the package {package}; run: pip install "lingraft[{extra}]"'
        ) from None
