"""Scores of labels, numbers, tags, trees and answers, by hand and against the libraries."""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from lingraft.tasks import TASKS, metrics
from lingraft.tasks.examples import (
    Answer,
    ParseExample,
    ParsePrediction,
    ScorePrediction,
    SpanExample,
    SpanPrediction,
    TaggedExample,
    TagPrediction,
    TextExample,
)
from lingraft.tasks.span_metrics import chunk_spans
from lingraft.tasks.weighted import on_all

if TYPE_CHECKING:
    from collections.abc import Sequence


def scored(name: str, examples: Any, predictions: Any, labels: Sequence[str]) -> dict[str, float]:
    """What a family of scores gives for the whole test set."""
    return on_all(metrics.METRICS[name](examples, predictions, labels), len(examples))


TAGS, KLUE_RE, KLUE_DP = (TASKS[f"klue-{name}"].labels for name in ("ner", "re", "dp"))


def _numbered(
    gold: list[float], said: list[float]
) -> tuple[list[TextExample], list[ScorePrediction]]:
    examples = [TextExample(str(i), "", "", None, score) for i, score in enumerate(gold)]
    return examples, [ScorePrediction(str(i), score) for i, score in enumerate(said)]


def test_a_constant_prediction_correlates_0_and_not_nan() -> None:
    assert scored("pearson", *_numbered([1, 2], [3, 3]), ()) == {"pearson": 0.0}
    assert scored("spearman", *_numbered([1, 2], [3, 3]), ()) == {"spearman": 0.0}


def test_similarity_is_cut_at_three_on_both_sides() -> None:
    # gold: 1 1 0 0; said: 1 0 1 0 → tp 1, fp 1, fn 1
    pair = _numbered([3.0, 4.2, 2.99, 0], [3.0, 2.9, 7.5, -1])
    assert scored("similar_f1", *pair, ())["f1"] == pytest.approx(50)


def _tagged(
    gold: list[str], said: list[str], **options: object
) -> tuple[list[TaggedExample], list[TagPrediction]]:
    """Sentences of tags separated by spaces; the unit of a tag `_` is a space."""
    examples = []
    predictions = []
    for i, (one, other) in enumerate(zip(gold, said, strict=True)):
        units = tuple(" " if tag == "_" else "x" for tag in one.split())
        tags = tuple("O" if tag == "_" else tag for tag in one.split())
        examples.append(TaggedExample(str(i), units, tags, characters=True))
        guess = tuple("O" if tag == "_" else tag for tag in other.split())
        predictions.append(TagPrediction(str(i), guess, **options))  # type: ignore[arg-type]
    return examples, predictions


def test_entities_are_seqevals_strict_iob2() -> None:
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    generator = random.Random(5)
    for _ in range(50):
        draw = [
            [generator.choice([*TAGS[:4], "O"]) for _ in range(generator.randint(1, 9))]
            for _ in range(4)
        ]
        other = [
            [tag if generator.random() < 0.7 else generator.choice(TAGS[:4]) for tag in one]
            for one in draw
        ]
        pair = _tagged([" ".join(one) for one in draw], [" ".join(one) for one in other])
        ours = scored("entities", *pair, TAGS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for key, average in (("entity_f1", "micro"), ("entity_macro_f1", "macro")):
                theirs = f1_score(
                    draw, other, average=average, mode="strict", scheme=IOB2, zero_division=0
                )
                assert ours[key] == pytest.approx(100 * float(theirs))


def test_the_reference_scores_cls_and_padding_positions() -> None:
    gold = ["B-PS O"]
    clean = _tagged(gold, gold)
    noisy = _tagged(gold, gold, edges=("O", "B-LC"))
    for name, key in (("entities", "entity_macro_f1"), ("characters", "character_macro_f1")):
        for pair in (clean, noisy):
            assert scored(name, *pair, TAGS)[key] == 100
        assert scored(name, *clean, TAGS)[f"reference/{key}"] == 100
    scores = scored("entities", *noisy, TAGS)
    assert scores["reference/entity_macro_f1"] == 50  # PS 1, LC 0


def test_the_reference_counts_o_and_gives_absent_tags_an_f1_of_1() -> None:
    # gold O O B-PS B-PS, said O B-PS B-PS O → O: 1/2, B-PS: 1/2
    pair = _tagged(["O O B-PS B-PS"], ["O B-PS B-PS O"])
    scores = scored("characters", *pair, TAGS)
    assert scores["character_macro_f1"] == pytest.approx(50)
    assert scores["character_macro_f1_no_o"] == pytest.approx(50)
    # with two edges, both O: O has tp 3, fp 1, fn 1 → 3/4; 11 tags occur nowhere
    assert scores["reference/character_macro_f1"] == pytest.approx(100 * (3 / 4 + 1 / 2 + 11) / 13)


def test_a_run_of_equal_part_of_speech_tags_is_one_chunk() -> None:
    assert chunk_spans(["NOUN", "NOUN", "VERB"]) == [("NOUN", 0, 1), ("VERB", 2, 2)]
    # the first letter is a prefix: S is single, so two SYM in a row are two chunks
    assert chunk_spans(["SYM", "SYM"]) == [("SYM", 0, 0), ("SYM", 1, 1)]
    # B-X and I-X are what they are elsewhere
    assert chunk_spans(["B-PS", "I-PS", "I-LC", "O"]) == [("PS", 0, 1), ("LC", 2, 2)]


@pytest.mark.filterwarnings("ignore:.*not to be NE tag")
def test_cconj_and_sconj_are_two_types_as_before_seqeval_1_0() -> None:
    from seqeval.metrics.sequence_labeling import get_entities

    tags = ["CCONJ", "SCONJ"]
    assert [kind for kind, _, _ in chunk_spans(tags)] == ["CCONJ", "SCONJ"]
    assert {kind for kind, _, _ in get_entities(tags)} == {"CONJ"}


def test_chunks_are_seqevals_for_tags_with_prefixes() -> None:
    from seqeval.metrics.sequence_labeling import get_entities

    generator = random.Random(2)
    tags = ["B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y", "O"]
    for _ in range(200):
        draw = [generator.choice(tags) for _ in range(generator.randint(1, 8))]
        assert chunk_spans(draw) == get_entities(draw)


def _parsed(
    gold: list[tuple[int, str]], said: list[tuple[int, str]]
) -> tuple[list[ParseExample], list[ParsePrediction]]:
    words = ("w",) * len(gold)
    heads, relations = zip(*gold, strict=True)
    said_heads, said_relations = zip(*said, strict=True)
    return (
        [ParseExample("0", words, words, heads, relations)],
        [ParsePrediction("0", said_heads, said_relations)],
    )


def test_the_class_of_wrong_heads_lowers_the_reference_las() -> None:
    gold = [(2, "NP"), (4, "NP"), (4, "VP"), (0, "VP")]
    said = [(2, "NP"), (3, "NP"), (4, "VP"), (0, "VP")]
    scores = scored("attachment", *_parsed(gold, said), KLUE_DP)
    # NP: tp 1, fn 1 → 2/3; VP: 1
    assert scores["las_macro_f1"] == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert scores["reference/las_macro_f1"] == pytest.approx(100 * (2 / 3 + 1 + 0) / 3)
    assert scores["uas"] == scores["las"] == scores["reference/uas_micro_f1"] == 75


def _answered(
    pairs: list[tuple[list[str], str | None]],
) -> tuple[list[SpanExample], list[SpanPrediction]]:
    examples = [
        SpanExample(str(i), "?", "", tuple(Answer(text, 0) for text in gold), 3 if not gold else 1)
        for i, (gold, _) in enumerate(pairs)
    ]
    return examples, [SpanPrediction(str(i), said) for i, (_, said) in enumerate(pairs)]


def test_answers_by_hand_with_the_best_gold_and_by_type() -> None:
    pair = _answered(
        [(["서울특별시", "서울"], "서울"), ([], ""), ([], "어딘가"), (["《책》"], "책")]
    )
    scores = scored("klue_answers", *pair, ())
    assert scores["exact_match"] == scores["rouge_w"] == 75
    assert scores["exact_match/type3"] == 50
    assert scores["exact_match/type1"] == 100
    assert scores["reference/exact_match"] == 50
    assert scores["reference/rouge_w"] == pytest.approx((1 + 1 + 0 + 0.5) * 25)


def test_squad_answers_by_hand() -> None:
    pair = _answered([(["the big dog"], "big dog!"), (["a red house"], "red boat"), ([], None)])
    scores = scored("squad_answers", *pair, ())
    assert scores == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (1 + 0.5 + 0) / 3),
    }
