"""Models after fine-tuning, side by side: one page of tables, and their numbers as CSV.

Reads files only, and needs no torch.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import score_tables, xtreme_average
from lingraft.finetuning.compared import collect
from lingraft.finetuning.errors_of import analyse
from lingraft.finetuning.outcomes import metric_name
from lingraft.finetuning.significance import RESAMPLES, differences, marks_of
from lingraft.pages import check_target
from lingraft.report import numbers
from lingraft.report.page import Folded, Heading, page, section
from lingraft.report.table import BEST, Cell, comma_separated, row, table
from lingraft.rundir import Step, write_text
from lingraft.stats import FEWEST_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.compared import Comparison
    from lingraft.finetuning.significance import Tested
    from lingraft.finetuning.xtreme_average import Retrieved
    from lingraft.report.page import Part
    from lingraft.report.table import Table


def compare(
    folders: Sequence[Path], out: Path, *, reference: str | None = None, resamples: int = RESAMPLES
) -> tuple[list[Table], list[Path]]:
    """Compare models after fine-tuning, and write the page and the numbers beside it.

    Args:
        folders: what `lingraft finetune --out` wrote, and what `analyze retrieval` did.
        out: the page.
        reference: label of the model that the others are tested against.
        resamples: draws of the bootstrap.

    Returns:
        The table of scores, that of XTREME where there is one, and the files that were written, the
        page first.

    Raises:
        DataError: results are missing, broken, or do not belong together; or a file would be
            replaced that is not ours.
        RecipeError: there is no model called like the reference, or the page is no HTML file.
    """
    if out.suffix != ".html":
        raise RecipeError(f"--out: is {out}; the page must end in .html")
    check_target(out, (".csv",))
    comparison, retrieved = _read(folders, reference)
    tested = differences(comparison, resamples)
    marks = marks_of(tested)
    scores = score_tables.of_tasks(comparison, marks)
    xtreme = xtreme_average.summary_table(comparison, retrieved)
    main = [scores, *([xtreme] if xtreme else [])]
    sections = {
        "How good is each model?": main,
        "How far does it carry to other languages?": score_tables.of_languages(comparison, marks),
        "Is the difference real?": [difference_table(comparison, tested)] if tested else [],
    }
    errors = {part.title: analyse(part) for part in comparison.parts}
    parts = [
        part
        for heading, tables in sections.items()
        if tables
        for part in (Heading(heading), *_titled(tables))
    ]
    folded = (Folded(task, _titled(found.tables)) for task, found in errors.items())
    html = page(
        f"{len(comparison.labels)} models after fine-tuning",
        verdict(comparison, scores, tested),
        [*parts, *section("Where do they go wrong?", *folded)],
        facts=[("reference", comparison.reference)],
        made_from="saved scores and predictions",
    )
    sheets = {".csv": score_rows(comparison)}
    sheets["-differences.csv"] = difference_rows(comparison, tested)
    for title, of in errors.items():
        task = re.sub(r"[^\w.-]+", "-", title).strip("-")
        sheets |= {f"-errors/{task}-{name}.csv": rows for name, rows in of.sheets.items()}
    return main, _write(out, html, sheets)


def _titled(tables: Iterable[Table]) -> list[Part]:
    return [part for one in tables for part in (Heading(one.title, 3), one)]


def _read(
    folders: Sequence[Path], reference: str | None
) -> tuple[Comparison, dict[str, Retrieved]]:
    """Read what was fine-tuned, and what of it was retrieved."""
    searched = [folder for folder in folders if Step(folder).inputs().get("command") == "retrieve"]
    tuned = [folder for folder in folders if folder not in searched]
    if not tuned:
        raise DataError(
            f"{folders[0]}: is of analyze retrieval, whose tables lie there; to compare it with "
            "other tasks, name a folder of lingraft finetune too"
        )
    comparison = collect(tuned, reference)
    return comparison, xtreme_average.read_retrievals(searched, comparison.weights)


def _write(out: Path, html: str, sheets: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Path]:
    """Write the page, and the rows of each file beside it by what its name ends in."""
    texts = {out: html}
    for name, rows in sheets.items():
        if rows:
            lines = (map(one.get, rows[0]) for one in rows)
            texts[out.parent / f"{out.stem}{name}"] = comma_separated(rows[0], lines)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return list(texts)


def verdict(comparison: Comparison, scores: Table, tested: Sequence[Tested]) -> str:
    """Say which model is best, and how many differences are more than luck."""
    if len(comparison.labels) == 1:
        return "One model; there is nothing to compare yet."
    wins = dict.fromkeys(comparison.labels, 0)
    for at in range(1, len(scores.columns) - 1):
        best = [line.cells[0].text for line in scores.rows if line.cells[at].rank == BEST]
        if len(best) == 1:
            wins[best[0]] += 1
    most = max(wins.values())
    firsts = " and ".join(label for label, number in wins.items() if number == most)
    text = f"Best alone in {most} of {len(scores.columns) - 2} columns: {firsts}."
    known = [test for test in tested if test.found.larger_p is not None]
    if known:
        share = f"{sum(bool(test.mark) for test in known)} of {len(known)}"
        return f"{text} Significant (p < 0.05): {share} differences to {comparison.reference}."
    return text


def difference_table(comparison: Comparison, tested: Sequence[Tested]) -> Table:
    """Return a table of every model less the reference, with intervals."""
    tests = {(test.label, test.title, test.key): test for test in tested}
    labels = dict.fromkeys(test.label for test in tested)
    rows = [
        row(
            f"{title} {metric_name(key)}",
            *(_less(tests.get((label, title, key))) for label in labels),
        )
        for title, key in dict.fromkeys((test.title, test.key) for test in tested)
    ]
    seeds = sorted({test.found.seeds for test in tested})
    notes = (
        "Points, with 95 % intervals and two-sided p: paired bootstrap, "
        f"{tested[0].found.resamples:,} draws of test examples and of the seeds that both models "
        f"have ({' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))}); with one seed both "
        "tell of the test set alone. A second p is of a paired t-test over the seeds. Fewer than "
        f"{FEWEST_BLOCKS} documents give neither.",
        f"* each p < 0.05, not corrected for {len(tested)} differences: one in twenty has a mark "
        "where models are alike.",
    )
    return table("Differences", (f"less {comparison.reference}", *labels), rows, notes)


def _less(tested: Tested | None) -> Cell:
    if tested is None:
        return Cell(numbers.ABSENT)
    found, value = tested.found, numbers.signed(tested.found.value, 1)
    if found.p is None:
        return Cell(value)
    p = numbers.tested(found.p, found.p_seeds, found.trained)
    between = numbers.between(found.low, found.high, 1, sign=True)
    return Cell(value, f"{between} {p}", mark=tested.mark)


def difference_rows(comparison: Comparison, tested: Sequence[Tested]) -> list[dict[str, Any]]:
    """Return every difference to full precision."""
    less = {"less": comparison.reference}
    return [
        {"model": test.label, **less, "task": test.title, "metric": test.key, **vars(test.found)}
        for test in tested
    ]


def score_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return every score that tables show, to full precision."""
    found = []
    for part, label in product(comparison.parts, comparison.labels):
        for run in part.of_model(label):
            for key in part.keys:
                if one := run.rows.get(key):
                    names = {"model": label, "task": part.title, "split": one.split, "metric": key}
                    same = {"n": one.n, "same_examples": label in part.runs}
                    found.append({**names, "seed": one.seed, "value": one.value, **same})
    return found
