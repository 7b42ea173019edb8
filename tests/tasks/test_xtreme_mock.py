"""XTREME's mock submission, scored by our records and metrics: its own test's values.

The files are not ours to give away: LINGRAFT_XTREME_MOCK names the folder `mock_test_data` of
https://github.com/google-research/xtreme, and without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import fmean

import pytest

from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS, TASKS, retrieval, xtreme
from lingraft.tasks.examples import (
    Answer,
    LabelPrediction,
    SpanExample,
    SpanPrediction,
    TaggedExample,
    TagPrediction,
    TextExample,
)
from lingraft.tasks.tagging_metrics import chunk_spans

MOCK = Path(os.environ.get("LINGRAFT_XTREME_MOCK", "/nowhere"))
needs_mock = pytest.mark.skipif(
    not MOCK.is_dir(), reason="LINGRAFT_XTREME_MOCK does not name XTREME's mock_test_data"
)
VALUES = {
    "xnli": {"accuracy": 30.666666666666668},
    "pawsx": {"accuracy": 51.42857142857143},
    "udpos": {"chunk_f1": 70.21746048354693},
    "panx": {"chunk_f1": 57.50793650793652},
    "xquad": {"exact_match": 77.27272727272727, "f1": 79.9586776859504},
    "mlqa": {"exact_match": 57.142857142857146, "f1": 81.76870748299321},
    "tydiqa": {"exact_match": 88.88888888888889, "f1": 97.22222222222223},
    "bucc2018": {"f1": 55.0},
    "tatoeba": {"accuracy": 53.611111111111114},
}
DIGITS = 1e-15
"""Of a value's size: sums in another order may differ in the last of its printed digits."""


def _lines(side: str, task: str, language: str) -> list[str]:
    path = MOCK / side / task / f"test-{language}.tsv"
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]


def _sentences(side: str, task: str, language: str) -> list[tuple[str, ...]]:
    text = "\n".join(_lines(side, task, language))
    return [tuple(block.split("\n")) for block in text.strip().split("\n\n")]


def _json(side: str, task: str, language: str) -> dict:
    path = MOCK / side / task / f"test-{language}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def _labels(task: str, language: str) -> dict[str, float]:
    gold, said = (_lines(side, task, language) for side in ("labels", "predictions"))
    examples = [TextExample(str(i), "", "", label) for i, label in enumerate(gold)]
    found = [LabelPrediction(str(i), label) for i, label in enumerate(said)]
    return TASKS[GROUPS[task].member(language)].score(examples, found)


def _tags(task: str, language: str) -> dict[str, float]:
    gold, said = (_sentences(side, task, language) for side in ("labels", "predictions"))
    examples = [TaggedExample(str(i), tuple("w" * len(tags)), tags) for i, tags in enumerate(gold)]
    found = [TagPrediction(str(i), tags) for i, tags in enumerate(said)]
    return TASKS[GROUPS[task].member(language)].score(examples, found)


def _answers(task: str, language: str) -> dict[str, float]:
    said = _json("predictions", task, language)
    examples = [
        SpanExample(
            question["id"], question["question"], paragraph["context"],
            tuple(Answer(one["text"], 0) for one in question["answers"]),
        )
        for article in _json("labels", task, language)["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]  # fmt: skip
    asked = {example.id for example in examples}
    found = [SpanPrediction(key, text) for key, text in said.items() if key in asked]
    return TASKS[GROUPS[task].member(language)].score(examples, found)


def _retrieved(task: str, language: str) -> dict[str, float]:
    gold, said = (_lines(side, task, language) for side in ("labels", "predictions"))
    if task == "tatoeba":
        return {"accuracy": retrieval.accuracy(gold, said)}
    pairs = [{tuple(line.split("\t")) for line in lines} for lines in (gold, said)]
    return retrieval.pair_f1(*pairs)


SCORERS = {"classification": _labels, "tagging": _tags, "qa": _answers, "retrieval": _retrieved}


def _averages(task: str) -> dict[str, float]:
    group = (GROUPS | RETRIEVAL_GROUPS)[task]
    by_language = [SCORERS[group.category](task, language) for language in group.languages]
    return {name: fmean(scores[name] for scores in by_language) for name in group.scores}


@needs_mock
@pytest.mark.parametrize("task", VALUES)
def test_the_value_of_xtremes_own_test(task: str) -> None:
    assert _averages(task) == pytest.approx(VALUES[task], rel=DIGITS, abs=0)


@needs_mock
def test_all_nine_give_xtremes_average_and_those_of_its_groups() -> None:
    by_task = {task: fmean(_averages(task).values()) for task in xtreme.NINE}
    nine = [
        30.666666666666668, 51.42857142857143, 70.21746048354693, 57.50793650793652,
        (77.27272727272727 + 79.9586776859504) / 2, (57.142857142857146 + 81.76870748299321) / 2,
        (88.88888888888889 + 97.22222222222223) / 2, 55.0, 53.611111111111114,
    ]  # fmt: skip
    assert xtreme.average(by_task) == pytest.approx(sum(nine) / 9)
    assert xtreme.category_averages(by_task) == pytest.approx(
        {
            "classification": sum(nine[:2]) / 2,
            "tagging": sum(nine[2:4]) / 2,
            "qa": sum(nine[4:7]) / 3,
            "retrieval": sum(nine[7:]) / 2,
        }
    )


@needs_mock
def test_precision_and_recall_of_parts_of_speech_come_from_the_same_chunks() -> None:
    precision, recall = [], []
    for language in GROUPS["udpos"].languages:
        sides = [_sentences(side, "udpos", language) for side in ("labels", "predictions")]
        gold, said = (
            {(i, *span) for i, tags in enumerate(side) for span in chunk_spans(tags)}
            for side in sides
        )
        precision.append(100 * len(gold & said) / len(said))
        recall.append(100 * len(gold & said) / len(gold))
    assert sum(precision) / 33 == pytest.approx(71.02232625883823)
    assert sum(recall) / 33 == pytest.approx(69.54982073976082)
