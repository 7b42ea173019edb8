"""Check that the Hugging Face Hub answers, made once before anything waits for it."""

from __future__ import annotations

import functools

from lingraft.errors import DataError

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
