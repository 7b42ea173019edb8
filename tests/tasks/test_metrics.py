"""Scores by hand, by weights and against the libraries; by what BLEU cuts words."""

import importlib.util
import random
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn
from synthetic_results import made_examples, said_of

from lingraft.errors import DataError
from lingraft.tasks import TASKS, metrics, translation_metrics as bleu
from lingraft.tasks.decoding import decode, task_of
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
from lingraft.tasks.metrics import NO_RELATION
from lingraft.tasks.span_metrics import chunk_spans, shown_tags
from lingraft.tasks.weighted import on_all


def scored(name: str, examples: Any, predictions: Any, labels: Sequence[str]) -> dict[str, float]:
    """What a family of scores gives for the whole test set."""
    return on_all(metrics.METRICS[name](examples, predictions, labels), len(examples))


TAGS, KLUE_DP = (TASKS[f"klue-{name}"].labels for name in ("ner", "dp"))


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
    examples, predictions = [], []
    for i, (one, other) in enumerate(zip(gold, said, strict=True)):
        units = tuple(" " if tag == "_" else "x" for tag in one.split())
        tags = tuple("O" if tag == "_" else tag for tag in one.split())
        examples.append(TaggedExample(str(i), units, tags, characters=True))
        predictions.append(TagPrediction(str(i), tuple(other.split()), **options))
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
            strict = {"mode": "strict", "scheme": IOB2, "zero_division": 0}
            for key, average in (("entity_f1", "micro"), ("entity_macro_f1", "macro")):
                theirs = f1_score(draw, other, average=average, **strict)
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
    # a space counts nowhere, whatever is said of it, and in the reference nothing that was cut off
    pair = _tagged(["O _ O"], ["O B-PS O"])
    assert scored("characters", *pair, TAGS)["character_macro_f1"] == 100
    cut = scored("entities", *_tagged(["B-PS O B-LC"], ["B-PS O O"], covered=2), TAGS)
    assert (cut["entity_macro_f1"], cut["reference/entity_macro_f1"]) == (50, 100)
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
    pair = _answered([(["the big dog"], "big dog!"), (["a red red house"], "red boat"), ([], None)])
    third = pytest.approx(100 / 3)
    expected = {"exact_match": third, "f1": pytest.approx(100 * (1 + 0.4 + 0) / 3)}
    assert scored("squad_answers", *pair, ()) == expected
    # 北京 and 北 share one of 2 and 1 characters: F1 = 2/3
    pair = _answered([(["北京"], "北"), (["上海"], "上海"), (["广州"], None)])
    expected = {"exact_match": third, "f1": pytest.approx(100 * (2 / 3 + 1 + 0) / 3)}
    assert scored("mlqa_answers_zh", *pair, ()) == expected
    # what is nothing without its article is a question without an answer, but in SQuAD 1.1
    for name, f1 in (("squad_answers", 100), ("squad1_answers", 0)):
        found = scored(name, *_answered([(["the"], "a")]), ())
        assert found == {"exact_match": 100, "f1": f1}


@pytest.fixture(params=[False, True], ids=["alone", "with packages"])
def installed(request, monkeypatch):
    """Sacrebleu alone, or with the packages of Japanese and Korean."""
    find = importlib.util.find_spec
    packages = {name for names in bleu.PACKAGES.values() for name in names}
    spec = find("sacrebleu") if request.param else None
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: spec if name in packages else find(name)
    )
    bleu.tokenizer.cache_clear()
    yield request.param
    bleu.tokenizer.cache_clear()


def task(language, **more):
    files = {"train": "train.jsonl", "dev": "dev.jsonl"}
    table = {"name": "t", "kind": "translation", "language": language, "files": files, **more}
    return task_of(decode(table), Path())


def test_a_tokenizer_by_language_and_chrf_chooses_where_no_words_are_cut(installed):
    words = {
        "ja": ("ja-mecab", "bleu") if installed else ("char", "chrf"),
        "ko": ("ko-mecab", "bleu") if installed else ("13a", "chrf"),
        "zh-Hant": ("zh", "bleu"),
        "th": ("char", "chrf"),
        "de": ("13a", "bleu"),
        "und": ("13a", "bleu"),
    }
    found = {name: (bleu.tokenizer(name), task(name).selection) for name in words}
    assert found == words
    assert task("th").metrics == ("bleu", "chrf")
    assert task("ja", selection="bleu").selection == "bleu"


@pytest.mark.parametrize("language", ["en", "und", "ko"])
def test_references_in_another_script_than_their_language_s_are_refused(language):
    with pytest.raises(DataError, match=r"--lang: .*written in Hira"):
        bleu.check_language(language, ["これは私が昨日買った本です。"], "--lang")
    bleu.check_language("ja", ["これは私が昨日買った本です。", "東京都"], "--lang")
    bleu.check_language(language, ["The 本 is mine."], "--lang")


SCORED = {task.kind + " ".join(task.metrics): name for name, task in TASKS.items()}.values()
"""One task of those that are alike."""
ACROSS = ("reference/entity_macro_f1",)
"""Over sentences joined in a row, which copies join anew."""


def drawn(name: str, number: int = 25) -> Iterator[tuple[Any, ...]]:
    """Three draws: a task, examples, predictions, their weights, and the scores by these."""
    task, rng = TASKS[name], random.Random(name)
    examples = made_examples(task, number)
    said = [said_of(task, example, 0.6, rng) for example in examples]
    functions = task.score_functions(examples, said)
    for _ in range(3):
        row = np.array([rng.choice((0, 0, 1, 2, 3)) for _ in examples], dtype=float)
        found = {key: float(score(row[None])[0]) for key, score in functions.items()}
        yield task, examples, said, row, found


@pytest.mark.parametrize("name", SCORED)
def test_a_weighted_score_is_the_metric_on_copies_of_the_examples(name: str) -> None:
    for task, examples, said, row, found in drawn(name):
        chosen = np.repeat(np.arange(len(examples)), row.astype(int)).tolist()
        copies = task.score_functions([examples[i] for i in chosen], [said[i] for i in chosen])
        expected = on_all(copies, len(chosen))
        same = [key for key in expected if key not in ACROSS]
        assert [found[key] for key in same] == pytest.approx([expected[k] for k in same], abs=1e-6)


def weighted_f1(gold: list[Any], said: list[Any], weights: np.ndarray, **options: Any) -> float:
    return 100 * float(
        sklearn.f1_score(gold, said, sample_weight=weights, zero_division=0, **options)
    )


@pytest.mark.parametrize("name", ["klue-ynat", "klue-nli", "glue-cola", "glue-mrpc"])
def test_scores_of_labels_are_scikit_learns(name: str) -> None:
    for task, examples, predictions, row, found in drawn(name, 200):
        gold, said = ([one.label for one in side] for side in (examples, predictions))
        expected = {
            "accuracy": 100 * sklearn.accuracy_score(gold, said, sample_weight=row),
            "macro_f1": weighted_f1(gold, said, row, average="macro"),
            "matthews": 100 * sklearn.matthews_corrcoef(gold, said, sample_weight=row),
        }
        if "f1" in found:
            expected["f1"] = weighted_f1(gold, said, row, pos_label=task.labels[1])
        assert found == pytest.approx({key: expected[key] for key in found})


def test_scores_of_relations_are_scikit_learns() -> None:
    for task, examples, predictions, row, found in drawn("klue-re", 200):
        gold, said = ([one.label for one in side] for side in (examples, predictions))
        table = np.array([one.probabilities for one in predictions])
        counted, areas = [label for label in task.labels if label not in NO_RELATION], []
        for place, label in enumerate(task.labels):
            right = np.array([one == label for one in gold])
            if row[right].sum():
                curve = sklearn.precision_recall_curve(right, table[:, place], sample_weight=row)
                areas.append(100 * sklearn.auc(curve[1], curve[0]))
        absent = len(task.labels) - len(areas)
        expected = {
            "micro_f1": weighted_f1(gold, said, row, labels=counted, average="micro"),
            "auprc": np.mean(areas),
            "auprc_skipped_labels": absent,
            "reference/auprc": (sum(areas) + 50 * absent) / len(task.labels),
        }
        assert found == pytest.approx(expected)


def test_scores_of_characters_are_scikit_learns() -> None:
    for _, examples, predictions, row, found in drawn("klue-ner", 60):
        pairs = [shown_tags(*pair) for pair in zip(examples, predictions, strict=True)]
        gold, said = ([tag for tags in side for tag in tags] for side in zip(*pairs, strict=True))
        of_units = np.repeat(row, [len(tags) for tags, _ in pairs])
        there = sorted({tag for tag, weight in zip(gold, of_units, strict=True) if weight})
        for key, labels in (("", there), ("_no_o", [tag for tag in there if tag != "O"])):
            expected = weighted_f1(gold, said, of_units, labels=labels, average="macro")
            assert found[f"character_macro_f1{key}"] == pytest.approx(expected)


def test_scores_of_heads_are_scikit_learns() -> None:
    for _, examples, predictions, row, found in drawn("klue-dp", 60):
        gold, said = ([n for one in side for n in one.heads] for side in (examples, predictions))
        of_words = np.repeat(row, [len(one.words) for one in examples])
        there = sorted({head for head, weight in zip(gold, of_words, strict=True) if weight})
        expected = weighted_f1(gold, said, of_words, labels=there, average="macro")
        assert found["uas_macro_f1"] == pytest.approx(expected)
        accuracy = 100 * sklearn.accuracy_score(gold, said, sample_weight=of_words)
        assert found["uas"] == pytest.approx(accuracy)


@pytest.mark.parametrize("name", ["klue-sts", "korsts"])
def test_correlations_are_scipys_on_copies(name: str) -> None:
    from scipy import stats

    theirs = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}
    for _, examples, predictions, row, found in drawn(name, 200):
        sides = (np.array([one.score for one in side]) for side in (examples, predictions))
        copies = [np.repeat(side, row.astype(int)) for side in sides]
        for key in theirs.keys() & found.keys():
            assert found[key] == pytest.approx(100 * theirs[key](*copies).statistic), key
