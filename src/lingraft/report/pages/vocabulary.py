"""What the page says of the vocabulary and its rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lingraft.report import numbers
from lingraft.report.pieces import readable
from lingraft.report.table import Column, Row, Table, row, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lingraft.recipe import Recipe
    from lingraft.report.variants import Variant

EXAMPLES_PER_RULE = 6
OWN_KINDS = ("unigram", "byte-bpe", "wordpiece", "given")
"""Tokenizers that need not write their pieces as the source's does."""
NUMBER, SHARE = partial(numbers.fixed, decimals=2), partial(numbers.percent, decimals=2)
STATISTICS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("tokens_per_word", "tokens per word (fertility)", NUMBER),
    ("characters_per_token", "characters per token", NUMBER),
    ("bytes_per_token", "bytes per token", NUMBER),
    ("unknown_rate", "unknown tokens", SHARE),
    ("character_coverage", "characters covered", SHARE),
    ("marks_kept", "accents, vowel signs and joiners kept", SHARE),
    ("round_trip", "sentences that come back exactly", SHARE),
    ("sentences", "sentences measured", numbers.count),
    ("tokens", "tokens", numbers.count),
)


def tokenizer_statistics(tokenizer: dict[str, Any]) -> Table:
    """The new tokenizer beside the source's, on text it was trained on and on text it was not."""
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


def vocabulary_facts(recipe: Recipe, tokenizer: dict[str, Any]) -> list[str]:
    """What became of the source's vocabulary, a sentence each; empty for one of its own."""
    counts = tokenizer.get("extension")
    if counts is None:
        return []
    facts = [f"{numbers.count(counts['source'])} pieces of the source's."]
    if "removed" in counts:
        facts = [f"Of {facts[0][:-1]}, {numbers.count(counts['removed'])} are left out."]
    elif counts["added"]:
        facts.append(
            f"{numbers.count(counts['added'])} added, of which no text can give "
            f"{numbers.count(counts['unreachable'])}."
        )
    streams = tokenizer.get("streams") or {recipe.languages[0]: tokenizer}
    measured = {f"held-out text of {name}": stats.get("changed") for name, stats in streams.items()}
    measured["resources.source_text"] = tokenizer.get("source_text")
    return facts + [
        f"In {name}, {numbers.percent(stats['changed'], 2)} of the source's "
        f"{numbers.count(stats['tokens'])} tokens are others now."
        for name, stats in measured.items()
        if stats is not None
    ]


def norms(variant: Variant) -> Table | None:
    """Lengths of the embedding rows by where they came from; None where nobody measured them."""
    embeddings = (variant.result("graft") or {}).get("embeddings", {})
    sides = {"word embeddings": embeddings, "output projection": embeddings.get("output", {})}
    rows: list[Row] = []
    for name, side in sides.items():
        if (lengths := side.get("norms")) is None:
            continue
        source = numbers.significant(lengths["source"])
        rows.append(row(name, "source's", numbers.ABSENT, source, source))
        rows += [
            row(
                name,
                rule,
                numbers.count(group["rows"]),
                numbers.significant(group["before"]),
                numbers.significant(group["after"]),
            )
            for rule, group in lengths["groups"].items()
        ]
    columns = ("matrix", Column("rows that are", "text"), "rows", "as made", "as they start")
    return table("Median lengths of the rows", columns, rows) if rows else None


def provenance(variant: Variant, kind: str) -> Table | None:
    """By which rule the rows of the embedding matrix came to be, with a few pieces for each."""
    graft = variant.result("graft")
    if graft is None:
        return None
    counts = {str(rule): int(n) for rule, n in graft["embeddings"]["provenance"].items()}
    total = max(sum(counts.values()), 1)
    source_kind = "" if variant.recipe.tokenizer.kind in OWN_KINDS else kind
    examples = _examples(variant.run.stage("graft").path / "provenance.tsv", kind, source_kind)
    rows = [
        (rule, numbers.count(n), numbers.percent(n / total), "  ".join(examples.get(rule, ())))
        for rule, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    examples_column = Column("for example", "long", lang=variant.recipe.languages[0])
    title = "Provenance of the embeddings"
    return table(title, ("rule", "rows", "share", examples_column), rows)


def _examples(path: Path, kind: str, source_kind: str) -> dict[str, list[str]]:
    """The first pieces of each rule; 'new ← source' where the two are spelt differently."""
    examples: dict[str, list[str]] = {}
    if not path.is_file():
        return examples
    with path.open(encoding="utf-8", newline="\n") as file:
        next(file, None)
        for line in file:
            _, piece, rule, _, source_piece = (*line.rstrip("\n").split("\t"), "", "", "", "", "")[
                :5
            ]
            pieces = examples.setdefault(rule, [])
            if len(pieces) < EXAMPLES_PER_RULE:
                new, old = readable(piece, kind), readable(source_piece, source_kind)
                pieces.append(new if old in ("", new) else f"{new} ← {old}")
    return examples
