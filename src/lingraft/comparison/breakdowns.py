"""What models get right and wrong by part of the test set, for every kind of task.

A measure takes a part of a comparison and one run's predictions, and gives a value for each row of
its table. Confusions are rows too: "gold → said", with how often that was said.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.comparison.weighted import right_words, shown_tags, weighted
from lingraft.tasks import mistakes
from lingraft.tasks.examples import ParseExample, SpanExample, TaggedExample, TextExample
from lingraft.tasks.metrics import METRICS, SIMILAR
from lingraft.tasks.tagging_metrics import entity_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.comparison.collect import Part
    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

    Measure = Callable[[Part, Sequence[Prediction]], "dict[str, Cell]"]

ARROW = " → "
QUARTERS = 4
SPAN_ERRORS = ("right", "boundary", "type", "boundary and type", "missed", "spurious")
DISTANCES = ((1, 1), (2, 2), (3, 5), (6, 10))


@dataclass(frozen=True)
class Cell:
    """A row of one run's table."""

    n: int
    """Examples, entities or words."""
    value: float


@dataclass(frozen=True)
class Breakdown:
    """One way of looking at mistakes."""

    name: str
    """Of its file."""
    title: str
    rows: str
    """Heading of the first column."""
    measure: Measure
    decimals: int = 1
    note: str = ""
    confusion: bool = False
    """Rows are pairs of gold and said."""


def breakdowns(part: Part) -> list[Breakdown]:
    """All that apply to a task."""
    key = part.keys[0]
    kind = part.task.kind
    found: list[Breakdown] = []
    if kind in ("classification", "pair", "relation"):
        found.append(_confusions("Labels", "example", _label_confusions))
    if kind == "regression":
        if "similar_f1" in part.task.metrics:
            found.append(_confusions(f"Similar (from {SIMILAR:g}) or not", "pair", _similarity))
        found += RESIDUALS
    if kind == "tagging":
        found += [_confusions("Types, unit by unit", "unit", _type_confusions), *ENTITIES]
    if kind == "parsing":
        found += [*DEPENDENCIES, _confusions("Relations", "word", _relation_confusions)]
    if kind == "span":
        found += _answers(part)
    found.append(
        Breakdown(
            "length",
            f"By length of the text: {key}",
            "characters",
            _by_length,
            note="Quarters of the examples by length.",
        )
    )
    return found


def _confusions(title: str, what: str, measure: Measure) -> Breakdown:
    note = f"Every {what} counts once; means over the seeds."
    return Breakdown("confusions", title, "gold", measure, note=note, confusion=True)


def length(example: Example) -> int:
    """Of the text and its pair, in characters."""
    pair = example.pair if isinstance(example, TextExample) else None
    return len(example.text) + len(pair or "")


def _by_length(part: Part, said: Sequence[Prediction]) -> dict[str, Cell]:
    lengths_N = np.array([length(one) for one in part.examples])
    shares = [(index + 1) / QUARTERS for index in range(QUARTERS)]
    ends = np.unique(np.quantile(lengths_N, shares, method="inverted_cdf"))
    inside_RN = np.diff(np.array([lengths_N <= end for end in ends]), axis=0, prepend=0)
    score = weighted(part.task, part.keys[0], part.examples, said)
    low = int(lengths_N.min())
    cells = {}
    for end, inside_N, value in zip(ends, inside_RN, score(inside_RN.astype(float)), strict=True):
        name = f"{low}–{int(end)}" if low < end else str(low)
        cells[name] = Cell(int(inside_N.sum()), float(value))
        low = int(end) + 1
    return cells


# -- confusions


def _counted(pairs: Iterable[tuple[str, str]]) -> dict[str, Cell]:
    cells = Counter(pairs)
    totals: Counter[str] = Counter()
    for (gold, _), count in cells.items():
        totals[gold] += count
    return {f"{gold}{ARROW}{said}": Cell(totals[gold], n) for (gold, said), n in cells.items()}


def _label_confusions(part: Part, said: Sequence[Prediction]) -> dict[str, Cell]:
    return {
        f"{one.gold}{ARROW}{one.said}": Cell(round(one.count / one.share), one.count)
        for one in mistakes.confusions(part.examples, said, part.task.labels)
        if one.count
    }


def _similarity(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    """Language Chameleon, table 8: gold and predicted scores cut alike."""
    examples: Sequence[Any] = part.examples
    names = ("different", "similar")
    return _counted(
        (names[one.score >= SIMILAR], names[other.score >= SIMILAR])
        for one, other in zip(examples, said, strict=True)
    )


def _type_confusions(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    """Language Chameleon, table 9: types of characters or words that gold has in an entity."""
    return _counted(
        (gold.partition("-")[2], guess.partition("-")[2] or guess)
        for example, prediction in zip(part.examples, said, strict=True)
        if isinstance(example, TaggedExample)
        for gold, guess in zip(*shown_tags(example, prediction), strict=True)
        if gold != "O" and "-" in gold
    ) or _counted(
        pair
        for example, prediction in zip(part.examples, said, strict=True)
        if isinstance(example, TaggedExample)
        for pair in zip(*shown_tags(example, prediction), strict=True)
    )


def _relation_confusions(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    examples: Sequence[Any] = part.examples
    return _counted(
        pair
        for example, prediction in zip(examples, said, strict=True)
        for pair in zip(example.relations, prediction.relations, strict=True)
    )


# -- scores of pairs


def _residuals(part: Part, said: Sequence[Any]) -> dict[str, list[float]]:
    examples: Sequence[Any] = part.examples
    gold = [one.score for one in examples]
    edges = np.linspace(min(gold), max(gold), 6)
    groups: dict[str, list[float]] = {
        f"{low:.1f}–{high:.1f}": [] for low, high in itertools.pairwise(edges)
    }
    names = list(groups)
    for one, other in zip(examples, said, strict=True):
        place = int(np.searchsorted(edges[1:-1], one.score, side="right"))
        groups[names[place]].append(other.score - one.score)
    return {name: values for name, values in groups.items() if values}


def _bias(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    found = _residuals(part, said)
    return {name: Cell(len(values), fmean(values)) for name, values in found.items()}


def _error(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    found = _residuals(part, said)
    return {name: Cell(len(one), fmean(map(abs, one))) for name, one in found.items()}


RESIDUALS = (
    Breakdown(
        "residuals",
        "Mean of predicted less gold score",
        "gold score",
        _bias,
        2,
        "In the task's own unit; a positive value says that the model is too generous.",
    ),
    Breakdown("absolute-residuals", "Mean absolute error", "gold score", _error, 2),
)


# -- entities


def _entity_types(part: Part, said: Sequence[Prediction]) -> dict[str, Cell]:
    found = mistakes.by_entity(part.examples, said)
    return {one.name: Cell(one.gold, one.f1) for one in found}


def _entity_lengths(part: Part, said: Sequence[Prediction]) -> dict[str, Cell]:
    found = mistakes.by_entity_length(part.examples, said)
    return {one.name: Cell(one.count, one.accuracy) for one in found}


def span_errors(gold: Sequence[str], said: Sequence[str]) -> Counter[str]:
    """What became of the gold entities of a sentence, and predictions that touch none of them.

    An entity is 'right', has another 'type' at the same ends, another 'boundary' with the same
    type, or both; or nothing predicted overlaps it ('missed').
    """
    true, guesses = entity_spans(gold), entity_spans(said)
    found: Counter[str] = Counter()
    for kind, begin, end in true:
        touching = [one for one in guesses if one[1] <= end and one[2] >= begin]
        if (kind, begin, end) in guesses:
            found["right"] += 1
        elif any(one[1:] == (begin, end) for one in touching):
            found["type"] += 1
        elif any(one[0] == kind for one in touching):
            found["boundary"] += 1
        else:
            found["boundary and type" if touching else "missed"] += 1
    for _, begin, end in guesses:
        if not any(one[1] <= end and one[2] >= begin for one in true):
            found["spurious"] += 1
    return found


def _entity_errors(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    found: Counter[str] = Counter()
    for example, prediction in zip(part.examples, said, strict=True):
        assert isinstance(example, TaggedExample)
        found += span_errors(*shown_tags(example, prediction))
    n_gold = found.total() - found["spurious"]
    return {name: Cell(n_gold, float(found[name])) for name in SPAN_ERRORS}


ENTITIES = (
    Breakdown("entities", "Entities by type: F1", "type", _entity_types),
    Breakdown(
        "entity-errors",
        "What becomes of the entities",
        "outcome",
        _entity_errors,
        note="Numbers of gold entities, and of predicted ones that touch none (spurious).",
    ),
    Breakdown(
        "entity-lengths", "Entities by length: per cent found", "units without spaces",
        _entity_lengths,
    ),
)  # fmt: skip


# -- dependencies


def _words(
    part: Part, said: Sequence[Any], name: Callable[[ParseExample, int], str]
) -> dict[str, Cell]:
    groups: defaultdict[str, list[bool]] = defaultdict(list)
    for example, prediction in zip(part.examples, said, strict=True):
        assert isinstance(example, ParseExample)
        for index, (_, right) in enumerate(right_words(example, prediction)):
            groups[name(example, index)].append(right)
    return {one: Cell(len(found), 100 * fmean(found)) for one, found in groups.items()}


def _by_relation(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    def name(example: ParseExample, index: int) -> str:
        assert example.relations is not None
        return example.relations[index]

    found = _words(part, said, name)
    return dict(sorted(found.items(), key=lambda one: (-one[1].n, one[0])))


def distance_class(head: int, word: int) -> str:
    """How far a word (1-based) is from its head: root, 1, 2, 3–5, 6–10, over 10."""
    if head == 0:
        return "root"
    far = abs(head - word)
    for low, high in DISTANCES:
        if far <= high:
            return str(low) if low == high else f"{low}–{high}"
    return f"over {DISTANCES[-1][1]}"


def _by_distance(part: Part, said: Sequence[Any]) -> dict[str, Cell]:
    def name(example: ParseExample, index: int) -> str:
        assert example.heads is not None
        return distance_class(example.heads[index], index + 1)

    found = _words(part, said, name)
    order = ["root", *(distance_class(high + 1, 1) for _, high in DISTANCES), "over 10"]
    return {one: found[one] for one in order if one in found}


DEPENDENCIES = (
    Breakdown("relations", "By relation: LAS", "relation", _by_relation),
    Breakdown("distances", "By distance to the head: LAS", "words", _by_distance),
)


# -- answers


def _answers(part: Part) -> list[Breakdown]:
    def by(name: Callable[[SpanExample], str]) -> Measure:
        return lambda part, said: _by_answer(part, said, name)

    found = [
        Breakdown(
            "answerable",
            f"Whether the passage says: {part.keys[-1]}",
            "passage",
            by(lambda one: "has the answer" if one.answers else "does not say"),
        )
    ]
    if any(isinstance(one, SpanExample) and one.question_type for one in part.examples):
        found.append(
            Breakdown(
                "question-types",
                f"By type of question: {part.keys[-1]}",
                "type",
                by(lambda one: str(one.question_type)),
            )
        )
    return found


def _by_answer(
    part: Part, said: Sequence[Prediction], name: Callable[[SpanExample], str]
) -> dict[str, Cell]:
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for example, prediction in zip(part.examples, said, strict=True):
        assert isinstance(example, SpanExample)
        groups[name(example)].append(answer_score(part, example, prediction))
    return {one: Cell(len(found), fmean(found)) for one, found in sorted(groups.items())}


def answer_score(part: Part, example: Example, prediction: Prediction) -> float:
    """The last headline score of one answer (ROUGE-W or F1), in percent."""
    for name in part.task.metrics:
        scores = METRICS[name]([example], [prediction], part.task.labels)
        if part.keys[-1] in scores:
            return scores[part.keys[-1]]
    raise AssertionError(part.keys)
