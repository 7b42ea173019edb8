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
from lingraft.study.notes import asked, is_of_words, words_note
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
        main = next((g for g in groups if g.label == results.reference()), groups[0])
        rows = [row(named(group), *_values(group, groups, names, main)) for group in groups]
        head = ("method", *results.streams, "seeds")
        size = f"{title}, {size_text(sentences)}" if len(results.sizes) > 1 else title
        other = [note for name in names for note in words_note(groups, main, name)]
        yield table(size, head, rows, (*other, *mixed_means(groups)))
        if metric != BITS:
            continue
        less = tables.differences(results, sentences, resampling, names)
        if less is not None:
            yield replace(less, title=f"{size}, differences")


def _values(
    group: Group, groups: list[Group], names: tuple[str, ...], main: Group
) -> Iterator[Cell | str]:
    """The group's entries, with marks for the best of those that compare and for other words."""
    for name in names:
        rivals = [
            rival
            for rival in groups
            if incomparable((group, rival), name) is None
            and asked(rival, name) == asked(group, name)
        ]
        cell = spread(group, name)
        if is_of_words(name):
            cell = tables.marked(cell, group, main, name)
        yield tables.ranked(cell, group, name, tables.best_sound(rivals, name))
    yield str(len(group.cells))
