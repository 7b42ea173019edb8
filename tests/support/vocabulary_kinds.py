"""Keys of [tokenizer] for what a test calls the kind of a vocabulary."""

from lingraft.tokenizer.files import TRAINED


def keys_of(kind):
    """The algorithm of a new vocabulary, or another action; 'source' is the default of both."""
    return {"algorithm": kind} if kind in ("source", *TRAINED) else {"action": kind}
