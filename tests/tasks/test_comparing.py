"""Paired bootstrap and the analysis of mistakes, on saved predictions."""

from __future__ import annotations

import pytest

from lingraft.errors import DataError
from lingraft.tasks import TASKS, bootstrap, mistakes
from lingraft.tasks.examples import TaggedExample, TextExample
from lingraft.tasks.predictions import LabelPrediction, TagPrediction

NLI = TASKS["klue-nli"]


def _predicted(gold: str, said: str) -> tuple[list[TextExample], list[LabelPrediction]]:
    names = {"e": "entailment", "c": "contradiction", "n": "neutral"}
    examples = [TextExample(str(i), "가" * (i + 1), "나", names[g]) for i, g in enumerate(gold)]
    return examples, [LabelPrediction(str(i), names[s]) for i, s in enumerate(said)]


def test_a_difference_of_every_example_is_certain() -> None:
    found = bootstrap.compare_means([1.0] * 50, [0.0] * 50, resamples=999)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.p == pytest.approx(2 / 1000)


def test_equal_models_differ_in_nothing() -> None:
    found = bootstrap.compare_means([0.0, 1.0] * 20, [0.0, 1.0] * 20, resamples=500)
    assert (found.value, found.p) == (0.0, 1.0)


def test_the_interval_is_that_of_the_mean() -> None:
    gains = [1.0] * 60 + [-1.0] * 40
    found = bootstrap.compare_means(gains, [0.0] * 100, resamples=20_000)
    deviation = (1 - 0.2**2) ** 0.5 / 10
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(0.2 - 1.96 * deviation, abs=0.02)
    assert found.high == pytest.approx(0.2 + 1.96 * deviation, abs=0.02)
    # one side: P(z > 0.2 / 0.098) = 0.0206
    assert found.p == pytest.approx(2 * 0.0206, abs=0.015)


def test_draws_depend_on_the_seed_alone() -> None:
    gains, nothing = [1.0, 0.0, -1.0, 1.0], [0.0] * 4
    one = bootstrap.compare_means(gains, nothing, 200, seed=1)
    assert one == bootstrap.compare_means(gains, nothing, 200, seed=1)


def test_blocks_of_draws_are_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gains, nothing = [1.0, 0.0, -1.0, 1.0], [0.0] * 4
    whole = bootstrap.compare_means(gains, nothing, 103)
    monkeypatch.setattr(bootstrap, "CELLS", 40)
    assert bootstrap.compare_means(gains, nothing, 103) == whole


def test_the_pairing_is_kept() -> None:
    # the models are alike on every example but one pair: unpaired noise would hide it
    hard = [float(i % 2) for i in range(200)]
    better = [min(1.0, value + (i % 10 == 0)) for i, value in enumerate(hard)]
    assert bootstrap.compare_means(better, hard, 2000).p < 0.01


def test_a_score_of_the_whole_set_is_compared_too() -> None:
    examples, good = _predicted("ecnecnecnecn" * 5, "ecnecnecnecn" * 5)
    _, bad = _predicted("ecnecnecnecn" * 5, "eeneeneeneen" * 5)
    found = bootstrap.compare_on(NLI, examples, good[::-1], bad, "macro_f1", resamples=100)
    # e: 2/3, c: 0, n: 1
    assert found.value == pytest.approx(100 - 100 * (2 / 3 + 0 + 1) / 3)
    assert found.low > 0
    with pytest.raises(DataError, match="no score 'f2'; it has accuracy, macro_f1"):
        bootstrap.compare_on(NLI, examples, good, bad, "f2")


def test_models_scored_on_other_examples_are_not_compared() -> None:
    with pytest.raises(DataError, match="cannot compare 2 with 3"):
        bootstrap.compare_means([1.0, 0.0], [1.0, 0.0, 1.0])


def test_confusions_are_counted_by_gold_label() -> None:
    pair = _predicted("eeecn", "eccce")
    cells = {
        (c.gold[0], c.said[0]): (c.count, c.share)
        for c in mistakes.confusions(*pair, NLI.labels)
        if c.count
    }
    assert cells == {
        ("e", "e"): (1, pytest.approx(1 / 3)),
        ("e", "c"): (2, pytest.approx(2 / 3)),
        ("c", "c"): (1, 1.0),
        ("n", "e"): (1, 1.0),
    }
    worst = mistakes.most_confused(*pair, NLI.labels)
    assert [(c.gold[0], c.said[0]) for c in worst] == [("e", "c"), ("n", "e")]


def test_uncertain_and_surprising_examples_are_found() -> None:
    examples, _ = _predicted("eec", "eee")
    table = [(0.9, 0.05, 0.05), (0.3, 0.3, 0.4), (0.98, 0.01, 0.01)]
    said = ["entailment", "neutral", "entailment"]
    predictions = [
        LabelPrediction(str(i), label, row)
        for i, (label, row) in enumerate(zip(said, table, strict=True))
    ]
    uncertain = mistakes.most_uncertain(examples, predictions, NLI.labels, limit=1)
    assert [one.id for one in uncertain] == ["1"]
    surprising = mistakes.most_surprising(examples, predictions, NLI.labels)
    assert [(one.id, one.gold_probability) for one in surprising] == [("2", 0.01), ("1", 0.3)]
    with pytest.raises(DataError, match="0 probabilities for 3 labels"):
        mistakes.most_uncertain(*_predicted("e", "e"), NLI.labels)


def test_entropy_is_in_bits() -> None:
    examples, _ = _predicted("e", "e")
    predictions = [LabelPrediction("0", "entailment", (0.5, 0.5, 0.0))]
    assert mistakes.judged(examples, predictions, NLI.labels)[0].entropy == pytest.approx(1)


def test_accuracy_by_length_is_in_the_order_of_the_lengths() -> None:
    examples = [TextExample(str(i), "x" * n, "", "a") for i, n in enumerate((300, 10, 16, 17))]
    groups = mistakes.by_length(examples, [True, True, False, False])
    assert [(g.name, g.count, g.accuracy) for g in groups] == [
        ("1–16", 2, 50.0),
        ("17–32", 1, 0.0),
        ("over 256", 1, 100.0),
    ]


def test_entities_are_counted_by_type_and_length() -> None:
    example = TaggedExample(
        "0", tuple("ab cde"), ("B-PS", "I-PS", "I-PS", "I-PS", "O", "B-LC"), characters=True
    )
    said = TagPrediction("0", ("B-PS", "I-PS", "I-PS", "I-PS", "O", "O"))
    types = {g.name: (g.right, g.gold, g.said, g.f1) for g in mistakes.by_entity([example], [said])}
    assert types == {"PS": (1, 1, 1, 100.0), "LC": (0, 1, 0, 0.0)}
    sizes = [(g.name, g.right, g.count) for g in mistakes.by_entity_length([example], [said])]
    assert sizes == [("1", 0, 1), ("3", 1, 1)]


def test_labels_are_needed_for_confusions_and_tags_for_entities() -> None:
    tagged = TaggedExample("0", ("a",), ("O",))
    with pytest.raises(DataError, match="example 0: has no label"):
        mistakes.confusions([tagged], [TagPrediction("0", ("O",))], NLI.labels)
    with pytest.raises(DataError, match="example 0: has no tags"):
        mistakes.by_entity(*_predicted("e", "e"))
