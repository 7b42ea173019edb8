"""Models after fine-tuning, side by side: one page of tables.

Reads files only, and needs no torch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.errors import DataError, RecipeError
from lingraft.files import check_target, write_text
from lingraft.finetuning import score_tables
from lingraft.finetuning.compared import collect
from lingraft.finetuning.outcomes import metric_name
from lingraft.report import numbers
from lingraft.report.page import Folded, Heading, page, section
from lingraft.report.scored import gains, percent
from lingraft.report.table import Column, TableCell, row, table
from lingraft.rundir import Step
from lingraft.stats import FEWEST_BLOCKS, Difference, Resampling
from lingraft.tasks.metrics import SIMILAR
from lingraft.tasks.span_metrics import shown_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.compared import Pairs, TaskComparison, TaskPart
    from lingraft.report import page as pages
    from lingraft.report.table import Table
    from lingraft.tasks import Task

RESAMPLES = 1_000
LEVEL = 0.05
SHOWN_GOLD, SHOWN_SAID = 16, 4


@dataclass(frozen=True)
class Tested:
    """A model less the reference on one score."""

    title: str
    """Title of the task."""
    key: str
    label: str
    found: Difference

    @property
    def mark(self) -> str:
        """Return '*' where the difference is significant at `LEVEL`."""
        p = self.found.larger_p
        return "*" if p is not None and p < LEVEL else ""


def compare(
    folders: Sequence[Path], out: Path, *, reference: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """Compare models after fine-tuning, and write the page.

    Args:
        folders: what `lingraft finetune --out` wrote, and what `analyze retrieval` did.
        out: the page.
        reference: label of the model that the others are tested against.
        resamples: draws of the bootstrap.

    Returns:
        The table of scores, and that of XTREME where there is one.

    Raises:
        DataError: results are missing, broken, or do not belong together; or a file would be
            replaced that is not ours.
        RecipeError: there is no model called like the reference, or the page is no HTML file.
    """
    if out.suffix != ".html":
        raise RecipeError(f"--out: is {out}; the page must end in .html")
    check_target(out)
    searched = [path for path in folders if Step(path).is_of("retrieve")]
    tuned = [folder for folder in folders if folder not in searched]
    if not tuned:
        raise DataError(f"{folders[0]}: is of analyze retrieval; name one of finetune beside it")
    comparison = collect(tuned, reference)
    retrieved = score_tables.read_retrievals(searched, comparison.weights)
    tested = differences(comparison, resamples)
    marks = marks_of(tested)
    scores = score_tables.of_tasks(comparison, marks)
    xtreme = score_tables.summary_table(comparison, retrieved)
    main = [scores, *([xtreme] if xtreme else [])]
    by_language = score_tables.of_languages(comparison, marks)
    folded = (Folded(part.title, _titled(confusion_table(part))) for part in comparison.parts)
    significant = f"{sum(bool(test.mark) for test in tested)} of {len(tested)}"
    html = page(
        f"{len(comparison.labels)} models after fine-tuning",
        f"Significant (p < {LEVEL}): {significant} differences to {comparison.reference}.",
        [
            *section("How good is each model?", *_titled(main)),
            *section("How far does it carry to other languages?", *_titled(by_language)),
            *section("Is the difference real?", *_titled(difference_table(comparison, tested))),
            *section("Where do they go wrong?", *folded),
        ],
        facts=[("reference", comparison.reference)],
        made_from="saved scores and predictions",
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, html)
    return main


def _titled(tables: Iterable[Table]) -> list[pages.Part]:
    return [part for one in tables for part in (Heading(one.title, 3), one)]


# -- differences from the reference


def differences(comparison: TaskComparison, resamples: int = RESAMPLES) -> list[Tested]:
    """Test every model against the reference, on every score that both have for a common seed.

    The paired bootstrap of `stats` over blocks; of a task in several languages each by itself.

    Args:
        comparison: what is compared.
        resamples: how many draws.
    """
    resampling, tested = Resampling(resamples), []
    for result in comparison.results:
        for part in result.parts.values():
            for label in part.runs.keys() - {comparison.reference}:
                for key in result.keys:
                    base = part.rows(comparison.reference, key)
                    found = gains(part.rows(label, key), base, percent, resampling)
                    if found is not None:
                        tested.append(Tested(part.title, key, label, resampling.difference(*found)))
    order = {label: place for place, label in enumerate(comparison.labels)}
    return sorted(tested, key=lambda test: order[test.label])


def marks_of(tested: Iterable[Tested]) -> dict[tuple[str, str], dict[str, str]]:
    """Return signs behind the numbers of tables, by title and score, of each model."""
    marks: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for test in tested:
        marks[test.title, test.key][test.label] = test.mark
    return dict(marks)


def difference_table(comparison: TaskComparison, tested: Sequence[Tested]) -> list[Table]:
    """Return a table of every model less the reference, with intervals; none of one model."""
    if not tested:
        return []
    tests = {(test.label, test.title, test.key): test for test in tested}
    labels = dict.fromkeys(test.label for test in tested)
    rows = [
        row(
            f"{title} {metric_name(key)}",
            *(_less(tests.get((label, title, key))) for label in labels),
        )
        for title, key in dict.fromkeys((test.title, test.key) for test in tested)
    ]
    notes = (
        "Points, with 95 % intervals and two-sided p: paired bootstrap, "
        f"{tested[0].found.resamples:,} draws of test examples and of the seeds that both models "
        "have; with one seed both tell of the test set alone. A second p is of a paired t-test "
        f"over the seeds. Fewer than {FEWEST_BLOCKS} documents give neither.",
        f"* each p < 0.05, not corrected for {len(tested)} differences: one in twenty has a mark "
        "where models are alike.",
    )
    return [table("Differences", (f"less {comparison.reference}", *labels), rows, notes)]


def _less(tested: Tested | None) -> TableCell:
    if tested is None:
        return TableCell(numbers.ABSENT)
    found, value = tested.found, numbers.signed(tested.found.value, 1)
    if found.p is None:
        return TableCell(value)
    p = numbers.tested(found.p, found.p_seeds, found.trained)
    between = numbers.between(found.low, found.high, 1, sign=True)
    return TableCell(value, f"{between} {p}", mark=tested.mark)


# -- what is taken for what (Language Chameleon, tables 8 to 10)


def confusions(task: Task, pairs: Pairs) -> Counter[tuple[str, str]]:
    """Count how often gold was taken for what; nothing of answers and translations.

    Of tags, types that gold has in an entity (Language Chameleon, table 9); those that are not O or
    a letter and a type (`NN`, `-LRB-`) all count, as they are. Scores of pairs are cut (table 8).
    """
    if task.kind in ("classification", "pair", "relation"):
        return Counter((example.label, said.label) for example, said in pairs)
    if task.kind == "regression" and "similar_f1" in task.metrics:
        names = ("different", "similar")
        cut = ((example.score >= SIMILAR, said.score >= SIMILAR) for example, said in pairs)
        return Counter((names[gold], names[guess]) for gold, guess in cut)
    if task.kind == "parsing":
        return Counter(p for e, s in pairs for p in zip(e.relations, s.relations, strict=True))
    if task.kind != "tagging":
        return Counter()
    units = [unit for pair in pairs for unit in zip(*shown_tags(*pair), strict=True)]
    if all(label == "O" or label[1:2] == "-" for label in task.labels):
        return Counter((_type(gold), _type(said)) for gold, said in units if gold != "O")
    return Counter(units)


def _type(tag: str) -> str:
    return tag.partition("-")[2] or tag


def confusion_table(part: TaskPart) -> list[Table]:
    """Return a table of what each gold label was taken for, the commonest first; none of answers.

    Raises:
        DataError: predictions are missing or of another kind than the task.
    """
    means: list[dict[tuple[str, str], float]] = []
    for runs in part.runs.values():
        seeds = (confusions(part.task, part.answers(run)) for run in runs)
        total = sum(seeds, Counter[tuple[str, str]]())
        means.append({pair: count / len(runs) for pair, count in total.items()})
    sizes: defaultdict[str, float] = defaultdict(float)
    for (gold, _), count in means[0].items():
        sizes[gold] += count  # the same for all models
    if not sizes:
        return []
    rows = [
        (gold, numbers.count(sizes[gold]), *(_taken_for(gold, of) for of in means))
        for gold in sorted(sizes, key=lambda gold: -sizes[gold])[:SHOWN_GOLD]
    ]
    note = f"Means over the seeds; the {len(rows)} commonest labels of {len(sizes)}."
    models = (Column(label, "long") for label in part.runs)
    return [table("What gold was taken for", ("gold", "n", *models), rows, [note])]


def _taken_for(gold: str, of_model: Mapping[tuple[str, str], float]) -> str:
    said = {pair[1]: count for pair, count in of_model.items() if pair[0] == gold}
    top = sorted(said, key=lambda label: -said[label])[:SHOWN_SAID]
    return ", ".join(f"{label} {said[label]:,.0f}" for label in top)
