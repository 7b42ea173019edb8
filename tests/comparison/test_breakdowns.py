"""Parts of a test set, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from synthetic_results import write_model, write_run

from lingraft.comparison.breakdowns import Cell, breakdowns, distance_class, span_errors
from lingraft.comparison.collect import Answers, answers, collect
from lingraft.comparison.errors import Samples, samples
from lingraft.tasks import TASKS
from lingraft.tasks.examples import (
    LabelPrediction,
    ScorePrediction,
    TaggedExample,
    TagPrediction,
    TextExample,
)
from lingraft.tasks.tagging_metrics import entity_spans

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("O B-PS I-PS O O O", {"right": 1}),
        ("O B-LC I-LC O O O", {"type": 1}),
        ("O B-PS I-PS I-PS O O", {"boundary": 1}),
        ("O B-LC O O O O", {"boundary and type": 1}),
        ("O O O O O O", {"missed": 1}),
        ("O B-PS I-PS O B-DT I-DT", {"right": 1, "spurious": 1}),
        ("O O O O B-DT I-DT", {"missed": 1, "spurious": 1}),
    ],
)
def test_what_becomes_of_an_entity_is_told_apart(said: str, outcome: dict[str, int]) -> None:
    gold = entity_spans(["O", "B-PS", "I-PS", "O", "O", "O"])
    assert span_errors(gold, entity_spans(said.split())) == outcome


@pytest.mark.parametrize(
    ("head", "word", "name"),
    [(0, 5, "root"), (6, 5, "1"), (3, 5, "2"), (8, 5, "3–5"), (15, 5, "6–10"), (16, 5, "over 10")],
)
def test_the_distance_to_the_head_has_a_class(head: int, word: int, name: str) -> None:
    assert distance_class(head, word) == name


def test_residuals_are_by_gold_score(tmp_path: Path) -> None:
    task = TASKS["korsts"]
    gold, said = (0.0, 0.5, 5.0, 4.5), (1.0, 0.5, 4.0, 4.0)
    examples = [TextExample(str(i), "a", "b", None, one) for i, one in enumerate(gold)]
    predictions = [ScorePrediction(str(i), one) for i, one in enumerate(said)]
    write_run(tmp_path, "xpt", task, 0, examples, predictions)
    part = collect([tmp_path]).parts[0]
    bias = next(one for one in breakdowns(part) if one.name == "residuals")
    cells = bias.measure(answers(part, part.runs["xpt"][0]))
    assert {name: (cell.n, cell.value) for (name,), cell in cells.items()} == {
        "0.0–1.0": (2, 0.5),
        "4.0–5.0": (2, -0.75),
    }


def test_quarters_by_length_hold_all_examples_in_order(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], seeds=(0,), n=41)
    part = collect([tmp_path]).parts[0]
    (by_length,) = (one for one in breakdowns(part) if one.name == "length")
    cells = by_length.measure(answers(part, part.runs["xpt"][0]))
    lows = [int(name.split("–")[0]) for (name,) in cells]
    assert (sum(cell.n for cell in cells.values()), lows) == (41, sorted(lows))
    right = sum(cell.n * cell.value for cell in cells.values())
    assert right / 41 == pytest.approx(part.runs["xpt"][0].scores["accuracy"])


def measured(folder: Path, name: str, examples: list[Any], said: list[Any], what: str) -> Any:
    """The cells of one breakdown of one run."""
    write_run(folder, "xpt", TASKS[name], 0, examples, said)
    part = collect([folder]).parts[0]
    chosen = next(one for one in breakdowns(part) if one.name == what)
    return chosen.measure(answers(part, part.runs["xpt"][0]))


def nli(gold: str, said: str, *tables: tuple[float, ...]) -> tuple[list[Any], list[Any]]:
    """Examples and predictions of entailment, contradiction and neutral by their letters."""
    names = {label[0]: label for label in TASKS["klue-nli"].labels}
    examples = [TextExample(str(i), f"{i}", "나", names[g]) for i, g in enumerate(gold)]
    rows = tables or ((),) * len(said)
    predictions = [
        LabelPrediction(str(i), names[s], row)
        for i, (s, row) in enumerate(zip(said, rows, strict=True))
    ]
    return examples, predictions


def test_confusions_are_counted_by_gold_label(tmp_path: Path) -> None:
    cells = measured(tmp_path, "klue-nli", *nli("eeecn", "eccce"), "confusions")
    found = {(gold[0], said[0]): (cell.n, cell.value) for (gold, said), cell in cells.items()}
    assert found == {("e", "e"): (3, 1), ("e", "c"): (3, 2), ("c", "c"): (1, 1), ("n", "e"): (1, 1)}
    order = TASKS["klue-nli"].labels
    assert list(cells) == sorted(cells, key=lambda pair: [order.index(one) for one in pair])


def test_entities_are_counted_by_type_and_length(tmp_path: Path) -> None:
    tags = ("B-PS", "I-PS", "I-PS", "I-PS", "O", "B-LC")
    examples = [TaggedExample("0", tuple("ab cde"), tags, characters=True)]
    said = [TagPrediction("0", (*tags[:5], "O"))]
    types = measured(tmp_path / "types", "klue-ner", examples, said, "entities")
    assert types == {("LC",): Cell(1, 0.0), ("PS",): Cell(1, 100.0)}
    sizes = measured(tmp_path / "sizes", "klue-ner", examples, said, "entity-lengths")
    assert sizes == {("1",): Cell(1, 0.0), ("3",): Cell(1, 100.0)}


def test_tags_with_hyphens_that_are_no_entities_are_all_counted(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-ner"], seeds=(0,), n=1)
    part = collect([tmp_path]).parts[0]
    units, gold, said = ("(", "a", ")"), ("-LRB-", "NN", "-RRB-"), ("-LRB-", "NN", "NN")
    task = replace(part.task, labels=("-LRB-", "-RRB-", "NN"))
    pairs = [TaggedExample("0", units, gold)], [TagPrediction("0", said)]
    confusions = next(one for one in breakdowns(part) if one.name == "confusions")
    cells = confusions.measure(Answers(replace(part, task=task, examples=pairs[0]), pairs[1], {}))
    assert list(cells) == [("-LRB-", "-LRB-"), ("NN", "NN"), ("-RRB-", "NN")]


def test_parts_of_speech_have_wrong_tags_and_no_entities(tmp_path: Path) -> None:
    examples = [
        TaggedExample("0", ("가", "나"), ("NOUN", "VERB")),
        TaggedExample("1", ("다", "라", "마"), ("NOUN", "VERB", "NOUN")),
    ]
    said = [TagPrediction("0", ("NOUN", "VERB")), TagPrediction("1", ("NOUN", "NOUN", "VERB"))]
    worst = lists(tmp_path, examples, said, "udpos-ko")["worst"]
    shown = [(one.id, one.gold, one.said, one.value) for one in worst.samples]
    assert shown == [
        ("1", "라 (VERB), 마 (NOUN)", "라 (NOUN), 마 (VERB)", 2.0),
        ("0", "", "", 0.0),
    ]
    names = [one.name for one in breakdowns(collect([tmp_path]).parts[0])]
    assert names == ["confusions", "length"]


def lists(
    folder: Path, examples: list[Any], said: list[Any], name: str = "klue-nli"
) -> dict[str, Samples]:
    write_run(folder, "xpt", TASKS[name], 0, examples, said)
    part = collect([folder]).parts[0]
    return {one.name: one for one in samples(part, [answers(part, part.runs["xpt"][0])], 10)}


def test_uncertain_and_surprising_examples_are_found(tmp_path: Path) -> None:
    tables = []
    for of_gold in ((0.9, 0.05, 0.05), (0.3, 0.3, 0.4), (0.98, 0.01, 0.01)):
        shares = dict(zip(("entailment", "contradiction", "neutral"), of_gold, strict=True))
        tables.append(tuple(shares[label] for label in TASKS["klue-nli"].labels))
    found = lists(tmp_path, *nli("eec", "ene", *tables))
    assert found["uncertain"].samples[0].id == "1"
    surprising = [(one.id, one.value) for one in found["surprising"].samples]
    assert surprising == [("2", 0.01), ("1", 0.3)]


def test_entropy_is_in_bits(tmp_path: Path) -> None:
    found = lists(tmp_path, *nli("e", "e", (0.5, 0.5, 0.0)))
    assert found["uncertain"].samples[0].value == pytest.approx(1)


def test_without_saved_probabilities_nothing_is_uncertain_or_surprising(tmp_path: Path) -> None:
    assert lists(tmp_path, *nli("ec", "ee")) == {}
