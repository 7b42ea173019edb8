"""The tables of a study in several languages: every stream's own test text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.report.table import row, table
from lingraft.report.variants import STREAM
from lingraft.study import tables
from lingraft.study.analysis import incomparable
from lingraft.study.entries import mixed_means, named, spread
from lingraft.study.metrics import BITS, PERPLEXITY, metric_named
from lingraft.study.results import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.report.table import Cell, Table
    from lingraft.stats import Resampling
    from lingraft.study.results import Group, Results

SHOWN = (BITS, PERPLEXITY)


def of(results: Results, sentences: int | None, resampling: Resampling) -> Iterator[Table]:
    """Bits per character by stream, their differences to the reference, and perplexity."""
    for metric in SHOWN:
        title = f"{metric_named(metric).title} by stream"
        names = tuple(f"{STREAM}{stream}/{metric}" for stream in results.streams)
        groups = tables.measured(results.at(sentences), names)
        if not groups:
            continue
        rows = [row(named(group), *_values(group, groups, names)) for group in groups]
        head = ("method", *results.streams, "seeds")
        size = f"{title}, {size_text(sentences)}" if len(results.sizes) > 1 else title
        yield table(size, head, rows, mixed_means(groups))
        if metric != BITS:
            continue
        less = tables.differences(results, sentences, resampling, names)
        if less is not None:
            yield replace(less, title=f"{size}, differences")


def _values(group: Group, groups: list[Group], names: tuple[str, ...]) -> Iterator[Cell | str]:
    """The group's entries; the best of those that compare is marked."""
    for name in names:
        rivals = [rival for rival in groups if incomparable((group, rival), name) is None]
        yield tables.ranked(spread(group, name), group, name, tables.best_sound(rivals, name))
    yield str(len(group.cells))
