"""The tables of a study on a terminal: as many columns as can be read, and where the others are.

What is the same in all rows stands above the table, once.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report.table import fits
from lingraft.study import causal_tables, tables, task_tables
from lingraft.study.entries import MIXED
from lingraft.study.metrics import BITS, BYTES, PERPLEXITY
from lingraft.study.panels import METHOD, in_words, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lingraft.report.table import Table
    from lingraft.study.results import Group, Results

FIRST = tuple(tables.titles((BYTES, PERPLEXITY, BITS, "mask-only/hits@1", "tokens_per_character")))
"""Columns that give way last."""
LAST = ("trained", "parameters", "tokens", "seeds")
"""Columns that give way first, in this order."""
NAME = 28
"""Characters that the column of labels needs at least; longer labels are wrapped."""
HEADING = 11
"""Characters of a heading in a line, unless a word is longer."""


def shown(results: Results, width: int, page: Path) -> Iterator[Table]:
    """The metrics at every size, then the scores of tasks.

    Args:
        results: the study's results.
        width: characters in a line.
        page: has all columns.
    """
    for size in results.sizes:
        whole = causal_tables.quality(results, size)
        yield fitted(whole, results.at(size), width, page)
    for size in results.sizes:
        of_tasks = task_tables.scores(results, size)
        if of_tasks is not None:
            titled = replace(of_tasks, title=f"tasks, {of_tasks.title}")
            yield fitted(titled, results.at(size), width, page)


def fitted(table: Table, groups: Sequence[Group], width: int, page: Path) -> Table:
    """The table in as many characters.

    Args:
        table: its first column has the labels of groups.
        groups: whose labels are said in short.
        width: characters in a line.
        page: what the note says has all columns.
    """
    table = _short(table, groups)
    head = [replace(column, title=_heading(column.title)) for column in table.columns]
    wrapped = replace(table, columns=tuple(head))
    titles = [column.title for column in head]
    given_up = []
    for title in _giving_way(titles[1:]):
        trial = wrapped.only(titles)
        if len(titles) <= 2 or fits(trial, width, NAME) or fits(trial, width, NAME, stacked=True):
            break
        titles.remove(title)
        given_up.append(title)
    if not given_up:
        return wrapped
    names = [column.title for column in table.columns if _heading(column.title) in given_up]
    note = f"Left out at {width} characters a line: {'; '.join(names)}. All columns: {page}"
    return replace(wrapped.only(titles), notes=(*table.notes, note))


def _giving_way(titles: Sequence[str]) -> list[str]:
    """The columns in the order in which they give way."""
    first, last = (tuple(map(_heading, names)) for names in (FIRST, LAST))
    least = [title for title in last if title in titles]
    most = [title for title in first[::-1] if title in titles]
    return [*least, *(t for t in titles[::-1] if t not in (*least, *most)), *most]


def _heading(title: str) -> str:
    return textwrap.fill(title, HEADING, break_long_words=False, break_on_hyphens=False)


def _short(table: Table, groups: Sequence[Group]) -> Table:
    """What is the same in all rows once, in the title: parts of labels, and columns."""
    measured = [row for row in table.rows if row.role == ""]
    if len(measured) < 2:
        return table

    def alike_in(at: int) -> bool:
        """Whether all have the same there; what only guesses has no size and no seeds."""
        shown = [row.cells[at] for row in table.rows if row.cells[at].text != numbers.ABSENT]
        return len({*shown, *(row.cells[at] for row in measured)}) == 1

    labels, alike = _labels(groups)
    same = {at for at in range(1, len(table.columns)) if alike_in(at)}
    if len(same) == len(table.columns) - 1:
        same.discard(1)  # a column of scores stays
    columns = (f"{table.columns[at].title} {measured[0].cells[at].whole}" for at in sorted(same))
    once = ", ".join(filter(None, [alike, *columns]))
    rows = []
    for row in table.rows:
        name = row.cells[0].text
        label = name.removesuffix(MIXED)
        short = replace(row.cells[0], text=labels.get(label, label) + name[len(label) :])
        cells = (short, *row.cells[1:])
        rows.append(replace(row, cells=tuple(c for at, c in enumerate(cells) if at not in same)))
    return replace(
        table,
        title=f"{table.title}; all rows: {once}" if once else table.title,
        columns=tuple(c for at, c in enumerate(table.columns) if at not in same),
        rows=tuple(rows),
    )


def _labels(groups: Sequence[Group]) -> tuple[dict[str, str], str]:
    """Labels without what all groups share, by label; and what that is.

    The method stays where a label would be empty.
    """
    axes = said(groups)
    shared = {axis: texts[0] for axis, texts in axes.items() if len(set(texts)) == 1 and texts[0]}
    varied = {axis: texts for axis, texts in axes.items() if axis not in shared}
    if METHOD in shared and not all(any(parts) for parts in zip(*varied.values(), strict=True)):
        varied = {METHOD: axes[METHOD], **varied}
        del shared[METHOD]
    labels = {
        group.label: in_words({axis: texts[at] for axis, texts in varied.items() if texts[at]})
        for at, group in enumerate(groups)
    }
    return labels, in_words(shared)
