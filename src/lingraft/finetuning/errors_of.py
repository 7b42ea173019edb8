"""Confusions of models, and the examples that they get wrong or are unsure of, side by side.

Language Chameleon, tables 8 to 10, show what each gold label was taken for; the rest is ours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lingraft.finetuning.compared import answers
from lingraft.report import numbers
from lingraft.report.table import Column, Table, table
from lingraft.tasks.examples import SpanExample, TextExample
from lingraft.tasks.metrics import SIMILAR
from lingraft.tasks.parsing_metrics import right_words
from lingraft.tasks.tagging_metrics import entity_spans, shown_tags
from lingraft.tasks.words import are_entities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lingraft.finetuning.compared import Pairs, Part
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example

    Confusions = Mapping[tuple[str, str], float]
    Judged = tuple[float, str, str]
    Mistake = tuple[str, str, str, str, float]
    "Id, text, gold, what was said, and how much is wrong."

SHOWN_SAMPLES, FILED_SAMPLES = 5, 50
SHOWN_GOLD, SHOWN_SAID = 16, 4
LABELLED = ("classification", "pair", "relation")
UNITS = {"tagging": "unit", "parsing": "word", "regression": "pair"}
"""Names of what counts once in confusions; of other kinds an example."""


class Errors(NamedTuple):
    """The error analysis of one task."""

    tables: list[Table]
    sheets: dict[str, list[dict[str, object]]]
    """Rows of the files, by name."""


def analyse(part: Part) -> Errors:
    """Find what the models of a part get wrong.

    Raises:
        DataError: predictions are missing or of another kind than the task.
    """
    means: dict[str, Confusions] = {}
    tables, worst = list[Table](), list[dict[str, object]]()
    texts = [Column(text, "long") for text in ("text", "gold", "said")]
    for label, runs in part.runs.items():
        seeds = [answers(part, run) for run in runs]
        total = sum((confusions(part.task, pairs) for pairs in seeds), Counter[tuple[str, str]]())
        means[label] = {pair: count / len(seeds) for pair, count in total.items()}
        value, listed = mistakes(part.task, seeds)
        rows = [(*one[:-1], numbers.fixed(float(one[-1]), 2)) for one in listed[:SHOWN_SAMPLES]]
        if rows:
            tables.append(table(f"Worst mistakes: {label}", ("id", *texts, value), rows))
        heads = ("model", "id", "text", "gold", "said", value)
        worst += (dict(zip(heads, (label, *one), strict=True)) for one in listed[:FILED_SAMPLES])
    pairs = sorted({pair for of_model in means.values() for pair in of_model})
    if pairs:
        tables.insert(0, _confusion_table(part.task, means))
    counts: list[dict[str, object]] = [
        {"gold": gold, "said": said}
        | {label: of_model.get((gold, said), 0.0) for label, of_model in means.items()}
        for gold, said in pairs
    ]
    sheets: dict[str, list[dict[str, object]]] = {"confusions": counts, "worst": worst}
    return Errors(tables, {name: rows for name, rows in sheets.items() if rows})


# -- confusions


def confusions(task: Task, pairs: Pairs) -> Counter[tuple[str, str]]:
    """Count how often gold was taken for what; nothing of answers and translations.

    Of tags, types that gold has in an entity (Language Chameleon, table 9); those that are not O or
    a letter and a type (`NN`, `-LRB-`) all count, as they are. Scores of pairs are cut (table 8).
    """
    if task.kind in LABELLED:
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
    typed = all(label == "O" or label[1:2] == "-" for label in task.labels)
    inside = ((_type(gold), _type(said)) for gold, said in units if typed and gold != "O")
    return Counter(inside) or Counter(units)


def _type(tag: str) -> str:
    return tag.partition("-")[2] or tag


def _confusion_table(task: Task, means: Mapping[str, Confusions]) -> Table:
    """Return a table of what each gold label was taken for, the commonest first."""
    sizes: defaultdict[str, float] = defaultdict(float)
    for (gold, _), count in next(iter(means.values())).items():
        sizes[gold] += count  # the same for all models
    rows = [
        (gold, numbers.count(sizes[gold]), *(_taken_for(gold, of) for of in means.values()))
        for gold in sorted(sizes, key=lambda gold: -sizes[gold])[:SHOWN_GOLD]
    ]
    notes = [f"Every {UNITS.get(task.kind, 'example')} counts once; means over the seeds."]
    if len(sizes) > len(rows):
        notes.append(f"The {len(rows)} commonest of {len(sizes)}; all are in the file.")
    models = (Column(label, "long") for label in means)
    return table("What gold was taken for", ("gold", "n", *models), rows, notes)


def _taken_for(gold: str, of_model: Confusions) -> str:
    said = {pair[1]: count for pair, count in of_model.items() if pair[0] == gold}
    top = sorted(said, key=lambda label: -said[label])[:SHOWN_SAID]
    return ", ".join(f"{label} {said[label]:,.0f}" for label in top)


# -- examples


def mistakes(task: Task, seeds: Sequence[Pairs]) -> tuple[str, list[Mistake]]:
    """Return what counts as wrong, and one model's examples with something wrong, the worst first.

    Args:
        task: the task.
        seeds: what the model said with each seed; an example is shown as the first seed has it,
            and counts by the mean over the seeds.
    """
    title, judge = _judge(task)
    ranked = []
    for of_seeds in zip(*seeds, strict=True):
        judged = [judge(*pair) for pair in of_seeds]
        example, (_, gold, said) = of_seeds[0][0], judged[0]
        if (mean := fmean(wrong for wrong, _, _ in judged)) > 0:
            ranked.append((example.id, _text(example), gold, said, mean))
    return title, sorted(ranked, key=lambda one: -one[-1])


def _judge(task: Task) -> tuple[str, Callable[[Any, Any], Judged]]:
    """Return what an example has wrong of a kind of task, and a function that tells how much."""
    if task.kind in LABELLED:
        return "probability against gold", partial(_against, task.labels)
    if task.kind == "regression":
        return "distance", _distance
    if task.kind == "parsing":
        return "words wrong", _wrong_words
    if task.kind == "tagging":
        entities = are_entities(task.labels)
        return ("entities wrong", _wrong_entities) if entities else ("tags wrong", _wrong_tags)
    return "points lost", partial(_lost, task)


def _against(labels: Sequence[str], example: Any, prediction: Any) -> Judged:
    """Return the probability of other labels; where none were saved whether it is wrong."""
    if example.label == prediction.label:
        return 0.0, example.label, prediction.label
    chances = prediction.probabilities
    known = len(chances) == len(labels)
    wrong = 1 - chances[labels.index(example.label)] if known else 1.0
    return wrong, example.label, prediction.label


def _distance(example: Any, prediction: Any) -> Judged:
    gold, said = example.score, prediction.score
    return abs(said - gold), f"{gold:.2f}", f"{said:.2f}"


def _text(example: Example) -> str:
    if isinstance(example, SpanExample):
        return example.question
    if isinstance(example, TextExample) and example.pair is not None:
        return f"{example.text} ‖ {example.pair}"
    return example.text


def _wrong_entities(example: Any, prediction: Any) -> Judged:
    units = _units(example)
    joint = "" if example.characters else " "
    gold, said = map(entity_spans, shown_tags(example, prediction))

    def shown(spans: Iterable[tuple[str, int, int]]) -> str:
        ordered = sorted(spans, key=lambda span: span[1])
        return ", ".join(f"{joint.join(units[a : b + 1])} ({kind})" for kind, a, b in ordered)

    return len(gold ^ said), shown(gold), shown(said)


def _units(example: Any) -> list[str]:
    return [unit for unit in example.units if not unit.isspace()]


def _wrong_tags(example: Any, prediction: Any) -> Judged:
    tags = zip(_units(example), *shown_tags(example, prediction), strict=True)
    wrong = [unit for unit in tags if unit[1] != unit[2]]
    gold = ", ".join(f"{unit} ({tag})" for unit, tag, _ in wrong)
    return len(wrong), gold, ", ".join(f"{unit} ({tag})" for unit, _, tag in wrong)


def _wrong_words(example: Any, prediction: Any) -> Judged:
    wrong = [i for i, (_, right) in enumerate(right_words(example, prediction)) if not right]
    names = ("root", *example.words)

    def shown(one: Any) -> str:
        return ", ".join(
            f"{example.words[i]} → {names[one.heads[i]]} ({one.relations[i]})" for i in wrong
        )

    return len(wrong), shown(example), shown(prediction)


def _lost(task: Task, example: Any, prediction: Any) -> Judged:
    """Return what an answer lacks of the last score shown (ROUGE-W, F1, chrF++), in percent."""
    scores = task.score_functions([example], [prediction])
    lost = 100 - float(scores[task.shown[-1]](np.ones((1, 1)))[0])
    if task.kind == "translation":
        return lost, example.translation, prediction.translation
    gold = " / ".join(answer.text for answer in example.answers or ()) or "(does not say)"
    return lost, gold, prediction.text or "(does not say)"
