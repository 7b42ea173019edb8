"""Recipes as a user writes them, as plain data."""


def plain(source, text="unread.txt", /, **tables):
    """A recipe for Korean with some tables more."""
    base = {"language": "ko", "source": {"model": str(source)}, "corpus": {"text": [str(text)]}}
    return base | tables
