"""Optional packages, imported where they are needed.

Check that the Hugging Face Hub answers, made once before anything waits for it.
"""

from __future__ import annotations

import functools
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


SECONDS = 20.0
"""For which the Hub may be silent; its library tries ten seconds several times a file."""


@functools.cache
def check_answers() -> None:
    """Refuse to wait for a Hub that accepts connections and says nothing.

    Raises:
        DataError: it says nothing for `SECONDS`. Whatever else it does, who asks for a file tells.
    """
    from huggingface_hub import constants, get_session  # a second's import, only for Hub ids

    if constants.HF_HUB_OFFLINE:
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=SECONDS)
    except Exception as error:  # of the HTTP client, which is another in each version
        if "Timeout" in type(error).__name__:
            raise DataError(
                f"{constants.ENDPOINT}: the Hub does not answer for {SECONDS:g} seconds; try again "
                "later, or set HF_HUB_OFFLINE=1 to go on with what has been downloaded"
            ) from error
