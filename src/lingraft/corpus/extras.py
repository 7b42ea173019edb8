"""Optional packages, imported where they are needed."""

from __future__ import annotations

import importlib
import importlib.util
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
        raise _missing(module, purpose, extra) from None


def check(module: str, purpose: str, extra: str) -> None:
    """Refuse what needs a package that is not installed, before it is needed; imports nothing.

    Args, Raises: as `require`; the module is a package.
    """
    if importlib.util.find_spec(module) is None:
        raise _missing(module, purpose, extra)


def _missing(module: str, purpose: str, extra: str) -> DataError:
    package = module.split(".")[0].replace("_", "-")
    return DataError(
        f'{purpose}: needs the package {package}; run: pip install "lingraft[{extra}]"'
    )
