"""XTREME's tasks: records, formats, metrics by hand, and averages against published tables."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from lingraft.errors import DataError
from lingraft.tasks import (
    GROUPS,
    RETRIEVAL_GROUPS,
    TASKS,
    load,
    xtreme,
)
from lingraft.tasks.examples import Answer, SpanExample, SpanPrediction
from lingraft.tasks.span_metrics import MLQA_LANGUAGES, normalise_mlqa

if TYPE_CHECKING:
    from lingraft.tasks import Group

OFFICIAL = Path(__file__).parent / "official"
ALL: dict[str, Group] = GROUPS | RETRIEVAL_GROUPS


# -- records


def test_each_of_the_nine_has_its_number_of_languages() -> None:
    numbers = {name: len(set(ALL[name].languages)) for name in xtreme.NINE}
    assert numbers == {
        "xnli": 15, "pawsx": 7, "udpos": 33, "panx": 40, "xquad": 11, "mlqa": 7, "tydiqa": 9,
        "bucc2018": 4, "tatoeba": 36,
    }  # fmt: skip
    assert set(ALL) == set(xtreme.NINE)


@pytest.mark.parametrize("name", GROUPS)
def test_the_records_of_a_group_differ_in_files_alone(name: str) -> None:
    group = GROUPS[name]
    records = [TASKS[group.member(language)] for language in group.languages]
    assert len({(record.kind, record.labels, record.selection) for record in records}) == 1
    assert [record.languages for record in records] == [(one,) for one in group.languages]
    assert "train" in TASKS[group.member(group.train_language)].splits
    for record in records:
        assert {"xtreme2020", "xtune2021", "metaxlm2021"} <= set(record.alternatives)


def test_a_language_without_a_training_set_says_so() -> None:
    for name in ("xquad-de", "mlqa-de"):
        with pytest.raises(DataError, match=f"{name}: has no train set"):
            load(TASKS[name], OFFICIAL)
    assert load(TASKS["xquad-en"], OFFICIAL).names["train"] == "train"


# -- metrics


def test_answers_are_compared_by_the_rules_of_their_language() -> None:
    for answer, language, expected in (
        ("The  «big» dog!", "en", "big dog"),
        ("El perro y la casa", "es", "perro y casa"),
        ("Das Haus, dem", "de", "haus"),
        ("Những cái bàn", "vi", "bàn"),
        ("الكتاب", "ar", "كتاب"),
        ("एक घर।", "hi", "एक घर"),
        ("在2008年，北京 IOC", "zh", "在 2008 年 北 京 ioc"),
    ):
        assert normalise_mlqa(answer, language) == expected
    assert MLQA_LANGUAGES == ("en", "es", "vi", "de", "ar", "hi", "zh")


def _asked(name: str, *answers: tuple[str, str | None]) -> dict[str, float]:
    examples = [
        SpanExample(str(i), "?", gold, (Answer(gold, 0),)) for i, (gold, _) in enumerate(answers)
    ]
    said = [SpanPrediction(str(i), one) for i, (_, one) in enumerate(answers) if one is not None]
    return TASKS[name].score(examples, said)


def test_answers_by_hand_and_one_without_a_prediction_counts_as_wrong() -> None:
    # 北京 and 北 share one of 2 and 1 characters: F1 = 2/3
    scores = _asked("mlqa-zh", ("北京", "北"), ("上海", "上海"), ("广州", None))
    assert scores == {
        "exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 * (2 / 3 + 1 + 0) / 3)
    }  # fmt: skip


# -- averages


def test_the_average_of_xlm_r_large_is_the_published_one() -> None:
    # VECO (Luo et al. 2021), table 2: XLM-R under cross-lingual transfer, average 68.1
    scores = {
        "xnli": {"accuracy": 79.2}, "pawsx": {"accuracy": 86.4}, "udpos": {"chunk_f1": 72.6},
        "panx": {"chunk_f1": 65.4}, "xquad": {"f1": 76.6, "exact_match": 60.8},
        "mlqa": {"f1": 71.6, "exact_match": 53.2}, "tydiqa": {"f1": 65.1, "exact_match": 45.0},
        "bucc2018": {"f1": 66.0}, "tatoeba": {"accuracy": 57.3},
    }  # fmt: skip
    by_task = {task: fmean(one.values()) for task, one in scores.items()}
    average = xtreme.average(by_task)
    assert average is not None
    assert round(average, 1) == 68.1
    assert xtreme.category_averages(by_task) == pytest.approx(
        {
            "classification": (79.2 + 86.4) / 2,
            "tagging": (72.6 + 65.4) / 2,
            "qa": (68.7 + 62.4 + 55.05) / 3,
            "retrieval": (66.0 + 57.3) / 2,
        }
    )
