"""Tables of a run's vocabulary and of its embedding rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lingraft.report import numbers
from lingraft.report.pages.sections import by_count
from lingraft.report.pieces import readable
from lingraft.report.table import Column, Table, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lingraft.report.variants import Variant

NUMBER, SHARE = partial(numbers.fixed, decimals=2), partial(numbers.percent, decimals=2)
STATISTICS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("tokens_per_word", "tokens per word (fertility)", NUMBER),
    ("characters_per_token", "characters per token", NUMBER),
    ("bytes_per_token", "bytes per token", NUMBER),
    ("unknown_rate", "unknown tokens", SHARE),
    ("character_coverage", "characters covered", SHARE),
    ("marks_kept", "accents, vowel signs and joiners kept", SHARE),
    ("text_kept", "characters that come back", SHARE),
    ("round_trip", "sentences that come back exactly", SHARE),
    ("sentences", "sentences measured", numbers.count),
    ("tokens", "tokens", numbers.count),
)


BY_STREAM = ("tokens_per_word", "characters_per_token", "unknown_rate")
"""Those that are shown of every stream."""


def statistics(tokenizer: dict[str, Any]) -> Table:
    """Measure the new tokenizer beside the source's, on text it was trained on and on other."""
    columns = [
        ("new, train", tokenizer["statistics"]["train"]),
        ("new, held out", tokenizer["statistics"]["test"]),
    ]
    source = tokenizer.get("source_statistics")
    if source is not None:
        columns += [("source, train", source["train"]), ("source, held out", source["test"])]
    rows = [
        (title, *(show(column.get(key)) for _, column in columns))
        for key, title, show in STATISTICS
    ]
    return table("Tokenizer statistics", ("", *(name for name, _ in columns)), rows)


def facts(tokenizer: dict[str, Any]) -> Iterator[str]:
    """Say what became of the source's vocabulary, a sentence each; nothing of one of its own."""
    counts = tokenizer.get("extension")
    if counts is None:
        return
    source = f"{numbers.count(counts['source'])} pieces of the source's"
    if "removed" in counts:
        yield f"Of {source}, {numbers.count(counts['removed'])} are left out."
    else:
        yield f"{source}."
        if counts["added"]:
            yield (
                f"{numbers.count(counts['added'])} added, of which no text can give "
                f"{numbers.count(counts['unreachable'])}."
            )


def by_stream(tokenizer: dict[str, Any]) -> Table | None:
    """Show what the joint vocabulary is to each stream, on held-out text, beside the source's."""
    streams = tokenizer.get("streams")
    if not streams:
        return None
    shown = [one for one in STATISTICS if one[0] in BY_STREAM]
    rows = []
    for name, result in streams.items():
        sides = [result["statistics"]["test"]]
        sides += [result["source_statistics"]["test"]] if "source_statistics" in result else []
        cells = [show(side.get(key)) for side in sides for key, _, show in shown]
        rows.append((str(name), numbers.count(result["tokens"]["train"]["tokens"]), *cells))
    titles = [title for _, title, _ in shown]
    with_source = any("source_statistics" in result for result in streams.values())
    titles += [f"{title}, source" for title in titles] if with_source else []
    return table("Every stream's vocabulary", ("stream", "tokens", *titles), rows)


def rows_by_rule(counts: Mapping[str, int]) -> Table:
    """Count embedding rows by the rule that made them."""
    total = max(sum(counts.values()), 1)
    rows = [
        (rule, numbers.count(n), numbers.percent(n / total)) for rule, n in by_count(counts).items()
    ]
    return table("Embeddings", ("rule", "rows", "share"), rows)


EXAMPLES_PER_RULE = 6


def provenance(variant: Variant, graft: dict[str, Any], kind: str) -> Table:
    """Count the embedding rows by the rule that made them, with a few pieces for each."""
    counts = {str(rule): int(n) for rule, n in graft["embeddings"]["provenance"].items()}
    total = max(sum(counts.values()), 1)
    settings = variant.recipe.tokenizer
    own = settings.action == "use" or settings.algorithm != "source"  # writes pieces its own way
    examples = _examples(
        variant.run.stage("graft").path / "provenance.tsv", kind, "" if own else kind
    )
    rows = [
        (rule, numbers.count(n), numbers.percent(n / total), "  ".join(examples.get(rule, ())))
        for rule, n in by_count(counts).items()
    ]
    column = Column("for example", "long", lang=variant.recipe.languages[0])
    return table("Provenance of the embeddings", ("rule", "rows", "share", column), rows)


def _examples(path: Path, kind: str, source_kind: str) -> dict[str, list[str]]:
    """Return the first pieces of each rule; 'new ← source' where the two are spelt differently."""
    examples: dict[str, list[str]] = {}
    if not path.is_file():
        return examples
    with path.open(encoding="utf-8", newline="\n") as file:
        next(file, None)
        for line in file:
            _, piece, rule, _, source_piece = (*line.rstrip("\n").split("\t"), *[""] * 5)[:5]
            pieces = examples.setdefault(rule, [])
            if len(pieces) < EXAMPLES_PER_RULE:
                new, old = readable(piece, kind), readable(source_piece, source_kind)
                pieces.append(new if old in ("", new) else f"{new} ← {old}")
    return examples
