"""Tables of a run's vocabulary and of its embedding rows; vocabulary pieces as people read them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lingraft.report import numbers
from lingraft.report.table import Table, table
from lingraft.tokenizer.state import WORD_START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NUMBER, SHARE = partial(numbers.fixed, decimals=2), partial(numbers.percent, decimals=2)
STATISTICS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("tokens_per_word", "tokens per word (fertility)", NUMBER),
    ("characters_per_token", "characters per token", NUMBER),
    ("unknown_rate", "unknown tokens", SHARE),
    ("character_coverage", "characters covered", SHARE),
    ("marks_kept", "accents, vowel signs and joiners kept", SHARE),
    ("text_kept", "characters that come back", SHARE),
    ("round_trip", "sentences that come back exactly", SHARE),
)


def running(piece: str, kind: str) -> str:
    """Return a readable piece as part of a sentence: with the space that it stands for."""
    if kind == "wordpiece":
        return piece.removeprefix("##") if piece.startswith("##") else f" {piece}"
    return piece.replace(WORD_START, " ")


def statistics(tokenizer: dict[str, Any]) -> Table:
    """Measure the new tokenizer beside the source's on held-out text, of each stream."""
    texts = tokenizer.get("streams") or {"": tokenizer}
    columns = [
        (" ".join(filter(None, (which, name))), of_text[key]["test"])
        for name, of_text in texts.items()
        for which, key in (("new", "statistics"), ("source", "source_statistics"))
        if of_text.get(key)
    ]
    rows = [
        (title, *(show(column.get(key)) for _, column in columns))
        for key, title, show in STATISTICS
    ]
    return table("Tokenizer on held-out text", ("", *(name for name, _ in columns)), rows)


def rows_by_rule(counts: Mapping[str, int]) -> Table:
    """Count embedding rows by the rule that made them."""
    total = max(sum(counts.values()), 1)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [(rule, numbers.count(n), numbers.percent(n / total)) for rule, n in ordered]
    return table("Embeddings", ("rule", "rows", "share"), rows)
