"""Write research/pages/results.md and its figures from research/rows and research/notes.

    python research/scripts/results_page.py

A function of the files alone: no date, no path, nothing random; a test makes it again and compares.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import archive
from studies import causal_tables, factor, plots, tables, task_tables, verdicts
from studies.results import collect, size_text

from lingraft.crosslingual import by_layer
from lingraft.errors import DataError
from lingraft.report import numbers
from lingraft.report.table import markdown
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from studies.drawing import Figure
    from studies.results import Results

    from lingraft.report.figure import Figure as PlainFigure
    from lingraft.report.table import Table

FOLDER = Path(__file__).parents[1]
MOST_COLUMNS = 8
"""A table of more stands behind a fold in documents."""
MOST_CHARACTERS = 160
"""So does one whose rows are longer: its cells would be broken into many lines."""
HEAD = """# Results

<!-- Made by `python research/scripts/results_page.py` from research/rows and
research/notes: change those, not this file. -->
"""
HOW_TO_READ = """## How to read the tables

Numbers are the mean ± sample standard deviation over the seeds. The best of each column is bold.
Wide tables stand behind a fold, below their main columns.

- **PPL, hits@k, MRR, MR**: perplexity, per cent of hits among the first k guesses, mean reciprocal
  rank and mean rank. They are over masked tokens of held-out text, all of them hidden.
- **bits/char**: bits per character, measured on whole words. It compares across vocabularies.
- For PPL, MR and all that counts bits, lower is better.
- **unigrams**: guessing by how often each token occurs, and nothing else.
- **Intervals** are 95 %, from a paired bootstrap over blocks of the test text and over seeds. The p
  beside them is of the same bootstrap.
- **over 3 seeds**: the p of a paired t-test over the seeds. Where it and the bootstrap disagree,
  believe the t-test: two or three seeds drawn again differ too little.
- **text alone**: there is one seed, so nothing is known of others.
- **§**: trained in different precision, fp32 and bf16.
- **†**: over other masked tokens; **‡**: over other words. The note beneath the table names them.

Of causal models:

- **bits/byte, bits/char**: of every byte and character of whole held-out documents.
- A column that ends with **kept**: bits per byte of text of the source's language, which trained
  nothing. It says what is left of that language.
- **tokens/char**: how many tokens the vocabulary needs for a character. Lower is better.

A **data-efficiency factor** says how many times more sentences scratch needs to be as good as the
method is. Between two sizes it follows a straight line over log(sentences), for PPL of its
logarithm. Nothing is extrapolated.

- **not reached (> x)**: scratch is not as good with x times as many, the most that it was given.
- **< x**: its smallest size is already better.
- **y % not reached**: that is so in y per cent of the resamples.
"""
HOW_TO_READ_TASKS = """Scores are in per cent, and higher is better for all of them. They are the
mean ± sample standard deviation over all fine-tunings. Rows in italics are of a model that was not
trained: what fine-tuning alone reaches. For intervals, blocks of the test set, seeds of training,
and seeds of fine-tuning within them are drawn again. Scores that are no means use jackknife values
of the blocks. “text and fine-tunings alone”: there is one seed of training, so nothing is known of
others.

"""
PAGE = "pages/results.md"
FIGURE = re.compile(r"<!-- figure: ([\w-]+) -->")
"""A place in the notes of a study for one of its figures, by name: beside what was found."""
CHOSEN = re.compile(r"<!-- figure of:\n((?:.+\n)+)-->")
"""The same for a figure of some of its labels, where all are too many: `NAME = LABEL` a line."""
MAIN = ("method", "PPL", "bits/byte", "bits/char", "hits@1", "MRR")
"""Columns of wide tables that stand outside the fold,"""
COUNTS = ("seeds", "tokens")
"""and these beside them."""
MEAN = "mean"
"""How rows of alignment call the mean over the sets."""
MOST_STREAMS, MOST_LINES = 7, 8
"""Streams of a table, and lines of a figure, that stand outside the fold."""


def files(folder: Path) -> dict[str, str]:
    """The page and its figures.

    Args:
        folder: has rows/study-NAME.jsonl.xz, and notes/study-NAME.md where there is something to
            say; notes/page.md, if it is there, stands at the top of the page.
            `<!-- figure: NAME -->` in the notes of a study is where this figure stands; `figure
            of:`, with `NAME = LABEL` a line, draws how these labels learn. recipes/study-NAME.toml
            is linked.

    Returns:
        By path relative to the folder.

    Raises:
        DataError: rows do not compare, or notes name a label that they do not hold.
    """
    svgs: dict[str, str] = {}
    sections = []
    for path in sorted((folder / "rows").glob("study-*.jsonl.xz")):
        section, figures = study(path.name.removesuffix(".jsonl.xz"), folder)
        sections.append(section)
        svgs |= figures
    top = folder / "notes/page.md"
    head = [HEAD, top.read_text(encoding="utf-8")] if top.is_file() else [HEAD]
    return {PAGE: "\n".join([*head, HOW_TO_READ, *sections]), **svgs}


def study(name: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The section of one study, and its figures by path relative to the folder."""
    results, resampling = collect(archive.read(name, folder / "rows")), Resampling()
    curve, several = (
        factor.by_training_set(results),
        len(results.sizes) > 1,
    )  # one size says nothing
    drawings = verdicts.figures(results, resampling)
    of_data = [*drawings["data_figures"], *drawings["factor_figures"]]
    of_tasks = [*drawings["task_figures"], *drawings["task_factor_figures"]]
    of_examples = [*drawings["curve_figures"], *drawings["curve_factor_figures"]]
    curves = [*drawings["loss_figures"][-1:], *drawings["initializer_figures"][-1:]]
    figures = (*of_data, *of_tasks, *of_examples, *curves)
    start = f"figures/{name}"
    pictures = {plot.name: _picture(plot, f"../{start}-{plot.name}.svg") for plot in figures}
    notes = folder / f"notes/{name}.md"
    text = notes.read_text(encoding="utf-8").strip() if notes.is_file() else ""
    text, svgs = _chosen(text, results, notes, start)
    parts = [
        f"## {name}",
        FIGURE.sub(lambda place: pictures.pop(place[1]), text),
        f"{verdicts.verdict(results, resampling)} {_about(results, name, folder)}",
        *_tables(results, resampling),
        *_under("What more data brings", drawings["data_figures"], pictures),
        *_under("How much data it is worth", drawings["factor_figures"], pictures),
        *(_factors(results, resampling) if several else ()),
        *_tasks(results, resampling),
        *_behind([pictures[drawing.name] for drawing in of_tasks if drawing.name in pictures]),
        *_factors(results, resampling, results.task_metrics),
        *_under("How many examples it is worth", of_examples, pictures),
        *_factors(curve, resampling, curve.task_metrics if curve else ()),
        *_initializers(results, resampling),
        *_under(
            "Bits per byte while training" if causal_tables.shown(results) else "Losses",
            curves,
            pictures,
        ),
        *_machines(results),
    ]
    svgs |= {f"{start}-{plot.name}.svg": plot.alone() for plot in figures}
    svgs |= {f"{start}-{plot.name}.svg": plot.svg for plot in crosslingual(name, folder)}
    return "\n\n".join(part for part in parts if part) + "\n", svgs


def crosslingual(name: str, folder: Path) -> list[PlainFigure]:
    """Retrieval and alignment by layer, where the study has their tables; its notes show them."""
    accuracy: dict[str, dict[int, list[float]]] = {}
    for row in archive.table(name, "retrieve", folder / "rows"):
        accuracy.setdefault(row["model"], {}).setdefault(row["layer"], []).append(row["value"])
    means = {
        model: {layer: fmean(values) for layer, values in layers.items()}
        for model, layers in accuracy.items()
    }
    rates: dict[str, dict[int, float]] = {}
    flat = {}
    for row in archive.table(name, "align", folder / "rows"):
        if row["set"] == MEAN and row["layer"] is None:
            flat[row["model"]] = 100 * row["aer"]
        elif row["set"] == MEAN:
            rates.setdefault(row["model"], {})[row["layer"]] = 100 * row["aer"]
    found = []
    if means:
        found += [
            by_layer.as_figure(
                "retrieval", means, "accuracy (%)", "Accuracy of retrieval by layer", {}
            )
        ]
    if rates:
        axis = "alignment error rate (%)"
        found += [by_layer.as_figure("aer", rates, axis, "Alignment error rate by layer", flat)]
    return found


def _chosen(text: str, results: Results, notes: Path, start: str) -> tuple[str, dict[str, str]]:
    """The notes with their figure of some labels, and this figure by its path."""
    place = CHOSEN.search(text)
    if place is None:
        return text, {}
    pairs = (line.partition(" = ") for line in place[1].splitlines())
    names = {label.strip(): name.strip() for name, _, label in pairs}
    if lacking := [label for label in names if label not in results.labels]:
        labels = "; ".join(results.labels)
        raise DataError(f"{notes}: no cell is called {lacking[0]!r}; there are {labels}")
    drawing = plots.learning(results, results.sizes[-1], names=names)
    if drawing is None:
        raise DataError(f"{notes}: the cells that its figure names have no curves")
    file = f"{start}-{drawing.name}.svg"
    text = f"{text[: place.start()]}{_picture(drawing, f'../{file}')}{text[place.end() :]}"
    return text, {file: drawing.alone()}


def _about(results: Results, name: str, folder: Path) -> str:
    seconds = sum(cell.seconds for cell in results.cells)
    recipe = folder / f"recipes/{name}.toml"
    settings = f", settings: [{recipe.name}](../recipes/{recipe.name})"
    text = (
        f"{len(results.cells)} cells, {numbers.duration(seconds)} in all; rows: "
        f"[{name}.jsonl](../rows/{name}.jsonl.xz){settings if recipe.is_file() else ''}."
    )
    for failure in results.failures:
        text += f"\n\n`{failure.cell}` failed: {failure.message}"
    return text


def folded(data: Table, first: Iterable[str] = (), summary: str = "") -> str:
    """A table in Markdown; of a wide one the main columns, and the whole behind a fold.

    Args:
        data: the table.
        first: titles of the main columns, beside the first one. A table that has no others is
            not too wide for its columns; one that has none of them stands behind the fold alone.
        summary: what the fold says; else the number of columns.
    """
    number = len(data.columns)
    titles = set(first)
    main = [column.title for column in data.columns[1:] if column.title in titles]
    few = number <= MOST_COLUMNS or len(main) == number - 1
    if few and _characters(data) <= MOST_CHARACTERS:
        return markdown(data)
    short = [markdown(replace(data.only([data.columns[0].title, *main]), notes=()))]
    behind = fold(summary or f"All {number} columns", markdown(data))
    return "\n\n".join([*short * (0 < len(main) < number - 1), behind])


def fold(summary: str, text: str) -> str:
    """Markdown behind a line that opens it."""
    return f'<details markdown="1"><summary>{summary}</summary>\n\n{text}\n\n</details>'


def _characters(data: Table) -> int:
    """Of the longest cell of every column, together."""
    titles = [column.whole for column in data.columns]
    rows = [titles, *([cell.whole for cell in row.cells] for row in data.rows)]
    return sum(max(map(len, texts)) for texts in zip(*rows, strict=True))


def _shown(table: Table, *more: str) -> str:
    """The table, or its main columns and a fold.

    Args:
        table: what is shown.
        more: titles of columns that are main ones here.
    """
    titles = {column.title for column in table.columns[1:]} & {*MAIN, *more}
    return folded(table, titles | set(COUNTS) if titles else ())


def _differences(table: Table) -> str:
    """A table of differences: its cells are long, so it stands behind a fold with its own line."""
    return folded(table, (), f"Each method {table.columns[0].title}, with 95 % intervals and p")


def _tables(results: Results, resampling: Resampling) -> Iterable[str]:
    for size in reversed(results.sizes):
        yield f"### {size_text(size).capitalize()}"
        yield _shown(causal_tables.quality(results, size))
        less = causal_tables.differences_of(results, size, resampling)
        if less is not None:
            yield _differences(less)
        for table in task_tables.by_stream(results, size, resampling):
            yield f"{table.title[0].upper()}{table.title[1:]}:"
            if table.columns[0].title.startswith("less "):
                yield _differences(table)
            else:
                yield _shown(table, *results.streams[:MOST_STREAMS])


def _factors(
    results: Results | None, resampling: Resampling, metrics: Sequence[str] = tables.REACHED
) -> Iterable[str]:
    """How much more data the reference needs: sentences of text, or examples of a task."""
    table = results and tables.factors(results, resampling, metrics)
    if results and table:
        score = "" if metrics == tables.REACHED else " for the same score"
        yield f"How many times more {results.counted} {results.reference()} needs{score}:"
        yield _shown(table)


def _tasks(results: Results, resampling: Resampling) -> Iterable[str]:
    """Scores after fine-tuning, size by size, and their differences to the reference."""
    if results.tasks:
        yield "### Fine-tuned on tasks"
        yield HOW_TO_READ_TASKS + "\n".join(f"- {note}" for note in task_tables.about(results))
    for size in reversed(results.sizes):
        table = task_tables.scores(results, size)
        less = tables.differences(results, size, resampling, results.task_metrics)
        if table is not None:
            yield f"{size_text(size).capitalize()}:"
            yield _shown(table)
        if less is not None:
            yield _differences(less)


def _initializers(results: Results, resampling: Resampling) -> Iterable[str]:
    table = causal_tables.initializers(results, resampling)
    if table is not None:
        yield "### Initializers of the embeddings"
        yield _shown(table)


def _machines(results: Results) -> Iterable[str]:
    table = tables.machines(results)
    if table.rows:
        lines = (" ".join(cell.text for cell in row.cells) for row in table.rows)
        yield "### Machine and versions"
        yield "; ".join(lines) + "."


def _under(heading: str, drawings: Iterable[Figure], pictures: dict[str, str]) -> Iterable[str]:
    left = [drawing for drawing in drawings if drawing.name in pictures]
    images = [pictures[drawing.name] for drawing in left]
    if left and len(left[0].names) > MOST_LINES:
        return [f"### {heading}", *_behind(images)]
    return [f"### {heading}", images[0], *_behind(images[1:], "more ")] if images else []


def _behind(images: Sequence[str], more: str = "") -> list[str]:
    """Figures behind a fold that says how many there are."""
    noun = "figure" if len(images) == 1 else "figures"
    return [fold(f"{len(images)} {more}{noun}", "\n\n".join(images))] if images else []


def _picture(drawing: Figure, path: str) -> str:
    alternative = drawing.description.replace("[", "(").replace("]", ")")
    return f"![{alternative}]({path})\n\n{drawing.caption}"


def main() -> None:
    (FOLDER / "figures").mkdir(exist_ok=True)
    made = files(FOLDER)
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{FOLDER / PAGE}: {len(made) - 1} figures")


if __name__ == "__main__":
    main()
