"""`lingraft evaluate`: it parses, calls and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.cli import options as ask, parsing
from lingraft.evaluation.settings import Scoring

if TYPE_CHECKING:
    from collections.abc import Iterator


@parsing.takes(lambda: (Scoring,))
def command(
    model: ask.Model,
    text: Annotated[list[str], typer.Option()],
    settings: ask.OwnKeys = None,
    against: list[str] | None = None,
    lang: str = "und",
) -> dict[str, Any]:
    """Score a model on text that it has not seen.

    lingraft evaluate runs/ko/model --text held-out.txt --lang ko

    lingraft evaluate runs/ko/model --text held-out.txt --against FacebookAI/xlm-roberta-base --json

    Of a masked model: perplexity, hits@k, MRR, mean rank, and bits per character of whole words. Of
    a causal model: bits per byte and per character of whole documents, perplexity, and ranks of the
    next token.

    Options:
        text: Held-out text: files or folders.
        against: Other models of the same kind, to compare on the same text.
        lang: Language of a masked model's text, for sentence splitting.
    """
    from lingraft.pipeline import standalone
    from lingraft.report.table import Column, table

    given = parsing.read(Scoring, settings)
    result = standalone.evaluate([model, *(against or ())], text, lang, given)
    parsing.show(table("", (Column("what", "text"), Column("value", "long")), list(_flat(result))))
    return result


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the numbers and words of plain data by their paths."""
    for key, entry in value.items() if isinstance(value, dict) else ():
        path = f"{name} {key}".strip()
        if isinstance(entry, dict):
            yield from _flat(entry, path)
        else:
            shown = f"{entry:,.6g}" if isinstance(entry, float) else entry
            yield path, ", ".join(map(str, shown)) if isinstance(shown, list) else str(shown)
