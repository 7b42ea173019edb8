"""A comparison as Markdown, LaTeX, CSV and for the terminal."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from lingraft.comparison.tables import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.comparison.collect import Comparison
    from lingraft.comparison.significance import Tested
    from lingraft.comparison.tables import Entry, Table

STYLES = {1: "bold green", 2: "underline"}
LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "−": "$-$",
        "–": "--",
        "<": "$<$",
        "→": r"$\rightarrow$",
        "†": r"\dag{}",
        "‡": r"\ddag{}",
    }
)


def markdown(table: Table) -> str:
    """A table in Markdown, its notes beneath: the best bold, the second best underlined."""
    head = "| " + " | ".join(_plain(entry) for entry in table.head) + " |"
    lines = [head, "|---|" + "---:|" * (len(table.head) - 1)]
    for line in table.lines:
        entries = []
        for entry in line.entries:
            before, after = {1: ("**", "**"), 2: ("<u>", "</u>")}.get(entry.rank, ("", ""))
            mark = entry.mark.replace("*", "\\*")
            text = f"{before}{entry.text}{after}{mark} {entry.under}".rstrip()
            entries.append(_escaped(text))
        lines.append("| " + " | ".join(entries) + " |")
    return "\n".join([*lines, *(f"\n{_note(note)}" for note in table.notes)]) + "\n"


def _plain(entry: Entry) -> str:
    return _escaped(entry.whole)


def _note(text: str) -> str:
    return _escaped(text).replace("*", "\\*")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def latex(table: Table) -> str:
    r"""A `tabular` with booktabs' rules; `\textbf` is the best, `\underline` the second best."""
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{tabular}{l" + "r" * (len(table.head) - 1) + "}",
        r"\toprule",
        " & ".join(entry.text.translate(LATEX) for entry in table.head) + r" \\",
    ]
    if any(entry.under for entry in table.head):
        lines.append(" & ".join(entry.under.translate(LATEX) for entry in table.head) + r" \\")
    lines.append(r"\midrule")
    lines += [" & ".join(_latex(entry) for entry in line.entries) + r" \\" for line in table.lines]
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, *(f"% {note}" for note in table.notes)]) + "\n"


def _latex(entry: Entry) -> str:
    text = entry.text.translate(LATEX)
    if entry.rank:
        text = (r"\textbf{", r"\underline{")[entry.rank - 1] + text + "}"
    mark = f"$^{{{entry.mark}}}$" if entry.mark == "*" else entry.mark.translate(LATEX)
    under = rf" {{\small {entry.under.translate(LATEX)}}}" if entry.under else ""
    return f"{text}{mark}{under}"


def sheet(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return file.getvalue()


def scores_sheet(comparison: Comparison) -> str:
    """Mean, deviation and seeds of every score, one row a model and score, to full precision."""
    head = ("model", "task", "split", "metric", "mean", "deviation", "seeds", "n", "split_note")
    rows: list[tuple[object, ...]] = []
    by_score = {(one.title.rstrip("‡"), one.metric): one for one in columns(comparison)}
    for label in comparison.labels:
        for part in comparison.parts:
            runs = part.runs.get(label) or part.apart.get(label, ())
            for key in part.keys:
                found = by_score[part.title, key].summaries.get(label)
                if found is None:
                    continue
                outcome = runs[0].outcome
                deviation = "" if found.deviation is None else found.deviation
                score = (key, found.mean, deviation, found.seeds)
                told = (outcome.n(part.split), outcome.split_note)
                rows.append((label, part.task.name, part.split, *score, *told))
    return sheet(head, rows)


def differences_sheet(tested: Sequence[Tested], reference: str) -> str:
    """Every difference, to full precision."""
    head = ("model", "less", "task", "metric", "difference", "low", "high", "p", "seeds", "draws")
    rows = []
    for one in tested:
        found = one.found
        numbers_of = (found.value, found.low, found.high, found.p, one.seeds, found.resamples)
        rows.append((one.label, reference, one.title, one.key, *numbers_of))
    return sheet(head, rows)


def console(table: Table, width: int) -> RichTable:
    """A table for a terminal: the best bold, the second best underlined.

    Args:
        table: of scores.
        width: characters in a line; where models × scores does not fit, a row is a score.
    """
    grid = [table.head, *(line.entries for line in table.lines)]
    widths = [max(len(entry.whole) for entry in column) + 3 for column in zip(*grid, strict=True)]
    if sum(widths) >= width:
        grid = list(zip(*grid, strict=True))
    made = RichTable(title=table.title, title_justify="left")
    for index, entry in enumerate(grid[0]):
        made.add_column(Text(entry.whole), justify="right" if index else "left", overflow="fold")
    for row in grid[1:]:
        made.add_row(*(Text(entry.whole, style=STYLES.get(entry.rank, "")) for entry in row))
    return made


def verdict(comparison: Comparison, table: Table) -> str:
    """What the table of scores says, in a sentence."""
    width = len(table.head) - 2
    wins = {
        line.entries[0].text: sum(entry.rank == 1 for entry in line.entries[1:-1])
        for line in table.lines
    }
    first = max(wins, key=lambda label: wins[label])
    if not wins[first]:
        return f"{len(comparison.labels)} models; there is nothing to compare yet."
    return f"{first} is best of {len(wins)} models in {wins[first]} of {width} columns."
