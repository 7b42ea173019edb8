"""What models get right and wrong by part of the test set, for every kind of task.

A measure takes what one run said and gives a value for each row of its table. A row is named by a
tuple: of confusions gold and said, with how often that was said; else the name alone.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.tasks.dependency.metrics import right_words
from lingraft.tasks.examples import SpanExample, TextExample
from lingraft.tasks.metrics import SIMILAR
from lingraft.tasks.tagging_metrics import entity_spans, shown_tags, span_units
from lingraft.tasks.weighted import Tally
from lingraft.tasks.words import are_entities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.comparison.collect import Answers, Part
    from lingraft.tasks.examples import Example

    Row = tuple[str, ...]
    Cells = dict[Row, "Cell"]
    Measure = Callable[[Answers], Cells]

QUARTERS = 4
SPAN_ERRORS = ("right", "boundary", "type", "boundary and type", "missed", "spurious")
DISTANCES = ((1, 1), (2, 2), (3, 5), (6, 10))


@dataclass(frozen=True)
class Cell:
    """A row of one run's table."""

    n: int
    """Examples, entities or words; of a confusion, all with that gold."""
    value: float


@dataclass(frozen=True)
class Breakdown:
    """One way of looking at mistakes."""

    name: str
    """Of its file."""
    title: str
    rows: Row
    """Headings of the columns that name a row."""
    measure: Measure
    decimals: int = 1
    note: str = ""

    @property
    def confusion(self) -> bool:
        """Whether rows are pairs of gold and said."""
        return len(self.rows) == 2


def breakdowns(part: Part) -> list[Breakdown]:
    """All that apply to a task."""
    key = part.keys[0]
    kind = part.task.kind
    views: list[Breakdown] = []
    if kind in ("classification", "pair", "relation"):
        views.append(_confusions("Labels", "example", _label_confusions))
    if kind == "regression":
        if "similar_f1" in part.task.metrics:
            views.append(_confusions(f"Similar (from {SIMILAR:g}) or not", "pair", _similarity))
        views += RESIDUALS
    if kind == "tagging":
        views.append(_confusions("Types, unit by unit", "unit", _type_confusions))
        views += ENTITIES if are_entities(part.task.labels) else ()
    if kind == "parsing":
        views += [*DEPENDENCIES, _confusions("Relations", "word", _relation_confusions)]
    if kind == "span":
        views += _by_answers(part)
    title, note = f"By length of the text: {key}", "Quarters of the examples by length."
    return [*views, Breakdown("length", title, ("characters",), _by_length, note=note)]


def _grouped(values: Iterable[tuple[str, float]]) -> Cells:
    """The mean of each group, in the order in which they first come."""
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for name, value in values:
        groups[name].append(value)
    return {(name,): Cell(len(group), fmean(group)) for name, group in groups.items()}


def _parts(answers: Answers, names: Sequence[str], order: Iterable[str], key: str) -> Cells:
    """A score by the part of the test set that each example is in."""
    order = list(order)
    inside_RN = np.array([[part == name for part in names] for name in order], dtype=float)
    values = answers.scores[key](inside_RN)
    sizes = inside_RN.sum(1).astype(int)
    return {
        (name,): Cell(n, value)
        for name, n, value in zip(order, sizes.tolist(), values.tolist(), strict=True)
    }


def length(example: Example) -> int:
    """Of the text and its pair, in characters."""
    pair = example.pair if isinstance(example, TextExample) else None
    return len(example.text) + len(pair or "")


def _by_length(answers: Answers) -> Cells:
    lengths_N = np.array([length(example) for example in answers.part.examples])
    shares = [(index + 1) / QUARTERS for index in range(QUARTERS)]
    ends = np.unique(np.quantile(lengths_N, shares, method="inverted_cdf")).tolist()
    lows = [int(lengths_N.min()), *(int(end) + 1 for end in ends[:-1])]
    names = [
        f"{low}–{int(end)}" if low < end else str(low) for low, end in zip(lows, ends, strict=True)
    ]
    places = np.searchsorted(ends, lengths_N)
    return _parts(answers, [names[place] for place in places], names, answers.part.keys[0])


# -- confusions


def _confusions(title: str, unit: str, measure: Measure) -> Breakdown:
    note = f"Every {unit} counts once; means over the seeds."
    return Breakdown("confusions", title, ("gold", "said"), measure, note=note)


def _counted(pairs: Iterable[tuple[str, str]]) -> Cells:
    cells = Counter(pairs)
    totals: Counter[str] = Counter()
    for (gold, _), count in cells.items():
        totals[gold] += count
    return {pair: Cell(totals[pair[0]], count) for pair, count in cells.items()}


def _label_confusions(answers: Answers) -> Cells:
    place = {label: index for index, label in enumerate(answers.part.task.labels)}
    cells = _counted((example.label, prediction.label) for example, prediction in answers.pairs)
    return dict(sorted(cells.items(), key=lambda cell: [place[label] for label in cell[0]]))


def _similarity(answers: Answers) -> Cells:
    """Language Chameleon, table 8: gold and predicted scores cut alike."""
    names = ("different", "similar")
    return _counted(
        (names[example.score >= SIMILAR], names[prediction.score >= SIMILAR])
        for example, prediction in answers.pairs
    )


def _type_confusions(answers: Answers) -> Cells:
    """Language Chameleon, table 9: types of characters or words that gold has in an entity.

    Of tags that are not O or a letter and a type (`NN`, `-LRB-`) all count, as they are.
    """
    units = [unit for pair in answers.pairs for unit in zip(*shown_tags(*pair), strict=True)]
    typed = all(label == "O" or label[1:2] == "-" for label in answers.part.task.labels)
    return _counted(
        (gold.partition("-")[2], predicted.partition("-")[2] or predicted)
        for gold, predicted in units
        if typed and gold != "O"
    ) or _counted(units)


def _relation_confusions(answers: Answers) -> Cells:
    return _counted(
        pair
        for example, prediction in answers.pairs
        for pair in zip(example.relations, prediction.relations, strict=True)
    )


# -- scores of pairs


def _residuals(answers: Answers, transform: Callable[[float], float]) -> Cells:
    gold = [example.score for example, _ in answers.pairs]
    edges = np.linspace(min(gold), max(gold), 6)
    names = [f"{low:.1f}–{high:.1f}" for low, high in itertools.pairwise(edges)]
    places = np.searchsorted(edges[1:-1], gold, side="right").tolist()
    cells = _grouped(
        (names[place], transform(prediction.score - example.score))
        for place, (example, prediction) in zip(places, answers.pairs, strict=True)
    )
    return {(name,): cells[name,] for name in names if (name,) in cells}


RESIDUALS = (
    Breakdown(
        "residuals",
        "Mean of predicted less gold score",
        ("gold score",),
        lambda answers: _residuals(answers, float),
        2,
        "In the task's own unit; a positive value says that the model is too generous.",
    ),
    Breakdown(
        "absolute-residuals",
        "Mean absolute error",
        ("gold score",),
        lambda answers: _residuals(answers, abs),
        2,
    ),
)


# -- entities


def _spans(answers: Answers) -> list[tuple[set[Any], set[Any]]]:
    """The entities of every example, in gold and predicted."""
    tags = (shown_tags(*pair) for pair in answers.pairs)
    return [(entity_spans(gold), entity_spans(predicted)) for gold, predicted in tags]


def _entity_types(answers: Answers) -> Cells:
    tally = Tally(itertools.starmap(span_units, _spans(answers)))
    sides = (tally.right_NC, tally.gold_NC, tally.said_NC)
    totals = zip(*(side_NC.sum(0) for side_NC in sides), strict=True)
    cells = {
        (str(kind),): Cell(int(gold), float(200 * right / (gold + predicted)))
        for kind, (right, gold, predicted) in zip(tally.classes, totals, strict=True)
    }
    return dict(sorted(cells.items()))


def _entity_lengths(answers: Answers) -> Cells:
    values = [
        (end - begin + 1, 100.0 * ((kind, begin, end) in predicted))
        for gold, predicted in _spans(answers)
        for kind, begin, end in gold
    ]
    return _grouped((str(size), value) for size, value in sorted(values))


def span_errors(gold: set[Any], predicted: set[Any]) -> Counter[str]:
    """What became of the gold entities of a sentence, and predictions that touch none of them.

    An entity is 'right', has another 'type' at the same ends, another 'boundary' with the same
    type, or both; or nothing predicted overlaps it ('missed').

    Args:
        gold: type, first and last position of each.
        predicted: the same of those predicted.
    """
    counts: Counter[str] = Counter()
    for kind, begin, end in gold:
        touching = [span for span in predicted if span[1] <= end and span[2] >= begin]
        if (kind, begin, end) in predicted:
            counts["right"] += 1
        elif any(span[1:] == (begin, end) for span in touching):
            counts["type"] += 1
        elif any(span[0] == kind for span in touching):
            counts["boundary"] += 1
        else:
            counts["boundary and type" if touching else "missed"] += 1
    for _, begin, end in predicted:
        if not any(span[1] <= end and span[2] >= begin for span in gold):
            counts["spurious"] += 1
    return counts


def _entity_errors(answers: Answers) -> Cells:
    counts: Counter[str] = Counter()
    for gold, predicted in _spans(answers):
        counts += span_errors(gold, predicted)
    n_gold = counts.total() - counts["spurious"]
    return {(name,): Cell(n_gold, float(counts[name])) for name in SPAN_ERRORS}


ENTITIES = (
    Breakdown("entities", "Entities by type: F1", ("type",), _entity_types),
    Breakdown(
        "entity-errors",
        "What becomes of the entities",
        ("outcome",),
        _entity_errors,
        note="Numbers of gold entities, and of predicted ones that touch none (spurious).",
    ),
    Breakdown(
        "entity-lengths", "Entities by length: per cent found", ("units without spaces",),
        _entity_lengths,
    ),
)  # fmt: skip


# -- dependencies


def _by_relation(answers: Answers) -> Cells:
    cells = _grouped(
        (relation, 100.0 * right)
        for example, prediction in answers.pairs
        for relation, (_, right) in zip(
            example.relations, right_words(example, prediction), strict=True
        )
    )
    return dict(sorted(cells.items(), key=lambda item: (-item[1].n, item[0])))


def distance_class(head: int, word: int) -> str:
    """How far a word (1-based) is from its head: root, 1, 2, 3–5, 6–10, over 10."""
    if head == 0:
        return "root"
    far = abs(head - word)
    for low, high in DISTANCES:
        if far <= high:
            return str(low) if low == high else f"{low}–{high}"
    return f"over {DISTANCES[-1][1]}"


def _by_distance(answers: Answers) -> Cells:
    cells = _grouped(
        (distance_class(example.heads[index], index + 1), 100.0 * right)
        for example, prediction in answers.pairs
        for index, (_, right) in enumerate(right_words(example, prediction))
    )
    order = ["root", *(distance_class(high + 1, 1) for _, high in DISTANCES), "over 10"]
    return {(name,): cells[name,] for name in order if (name,) in cells}


DEPENDENCIES = (
    Breakdown("relations", "By relation: LAS", ("relation",), _by_relation),
    Breakdown("distances", "By distance to the head: LAS", ("words",), _by_distance),
)


# -- answers


def _by_answers(part: Part) -> list[Breakdown]:
    key = part.keys[-1]

    def by(name: Callable[[Any], str]) -> Measure:
        names = [name(example) for example in part.examples]
        return lambda answers: _parts(answers, names, sorted(set(names)), key)

    passages = by(lambda example: "has the answer" if example.answers else "does not say")
    views = [Breakdown("answerable", f"Whether the passage says: {key}", ("passage",), passages)]
    if any(isinstance(example, SpanExample) and example.question_type for example in part.examples):
        types = by(lambda example: str(example.question_type))
        views.append(Breakdown("question-types", f"By type of question: {key}", ("type",), types))
    return views
