"""Names and tables that pages and cards of runs, and pages of corpora, share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning.clean import REASONS
from lingraft.corpus.readers.columns import HUB_PREFIX
from lingraft.corpus.result import HELD_OUT, NOT_IN_SUBSET
from lingraft.recipe.embeddings import DRAWN
from lingraft.report import numbers
from lingraft.report.page import Text
from lingraft.report.table import Cell, Column, Table, row, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.recipe import Recipe
    from lingraft.report.variants import TrainedModel

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def title(models: Sequence[TrainedModel]) -> str:
    """Name what was made of what, or which runs are compared."""
    names = [model.run_name for model in models if not model.is_baseline]
    if len(names) > 1:
        return f"{len(names)} runs compared: {', '.join(names)}"
    recipe = models[0].recipe
    return f"{recipe.name}: {source_name(recipe)} → {', '.join(recipe.languages)}"


def source_name(recipe: Recipe) -> str:
    """Name what the run starts from, without the folders of this machine."""
    model = recipe.source.model
    if model is None:
        name = str((recipe.source.architecture or {})["model_type"])
    else:
        parts = Path(model).parts[-2:]
        folder = "/".join(parts if parts[-1] in ("model", "best") else parts[-1:])
        name = model if on_hub(model) else folder
    return name if takes_weights(recipe) else f"{name} (architecture only, random weights)"


def takes_weights(recipe: Recipe) -> bool:
    """Say whether the model has anything of the source's weights, or learns from them."""
    embeddings = recipe.embeddings
    pretrained = recipe.graft.source_weights == "pretrained" or embeddings.copies_special_tokens
    taught = any(phase.distil for phase in recipe.phases)
    rows = any(initializer not in DRAWN for initializer in embeddings.initializers)
    return recipe.source.model is not None and (pretrained or rows or taught)


def on_hub(name: str | None) -> bool:
    """Say whether a model's name is an id on the Hub, and no local directory."""
    return name is not None and HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def notices(corpus: dict[str, Any]) -> list[Text]:
    """Return what was guessed of the files, and what to know of the text."""
    return [Text(told, "strong") for key in ("guesses", "notices") for told in corpus.get(key, ())]


def corpus_sources(sources: Sequence[Mapping[str, Any]]) -> Table:
    """List files that were read, without the folders of this machine."""
    rows = []
    for source in sources:
        name = str(source["name"])
        name = name if name.startswith(HUB_PREFIX) else Path(name).name
        rows.append((name, numbers.size(source["bytes"]), numbers.count(source["documents"])))
    return table("Sources of the text", ("source", "size", "documents"), rows)


def corpus_splits(corpus: dict[str, Any], tokens: Mapping[str, Any]) -> Table:
    """Count what trains and what is held out; tokens by split where they are known."""
    head = ("split", "documents", "sentences", "characters", "tokens", "cut")
    rows = [
        (
            name,
            *(numbers.count(split[key]) for key in head[1:4]),
            *(numbers.count(tokens.get(name, {}).get(key)) for key in head[4:]),
        )
        for name, split in corpus["splits"].items()
    ]
    return table("Splits", head, rows).filled()


def left_out(corpus: dict[str, Any]) -> Table:
    """Count what was left out by reason, the commonest first."""
    counts = by_count(corpus["dropped"] | corpus.get("subset", {}))
    named = {f"{name}{unit_of(name)}": n for name, n in counts.items() if n > 0}
    return bars("Left out", ("reason", "sentences, or documents"), named)


def unit_of(reason: str) -> str:
    """Say that whole documents are left out for a reason; nothing of single sentences."""
    return "" if reason in (*REASONS, HELD_OUT, NOT_IN_SUBSET) else " (documents)"


def by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Put the largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def bars(title: str, head: tuple[str, str], counts: Mapping[str, int], total: int = 0) -> Table:
    """Draw a bar a row, the longest over the whole width.

    Args:
        title: of the table.
        head: what the names and the counts are.
        counts: by name, in the order of the rows.
        total: what the shares are of; 0 takes the sum of the counts.
    """
    whole, most = total or sum(counts.values()), max(counts.values(), default=1)
    rows = []
    for name, n in counts.items():
        width = round(100 * n / max(most, 1), 2)
        share = numbers.percent(n / max(whole, 1))
        rows.append(row(name, numbers.count(n), share, Cell("", width=width)))
    return table(title, (*head, "share", Column("", "bar")), rows)
