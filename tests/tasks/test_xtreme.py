"""XTREME's tasks: records, formats, metrics by hand, and averages against published tables."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from lingraft.errors import DataError, RecipeError
from lingraft.tasks import (
    GROUPS,
    RETRIEVAL_GROUPS,
    TASKS,
    load,
    xtreme,
)
from lingraft.tasks.examples import Answer, SpanExample, SpanPrediction
from lingraft.tasks.held_out import tasks_of, texts
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


def test_a_language_that_a_group_lacks_is_named() -> None:
    with pytest.raises(RecipeError, match=r"xquad: is not in the language 'ko'; it is in ar, de"):
        GROUPS["xquad"].member("ko")


def test_a_language_without_a_training_set_says_so() -> None:
    for name in ("xquad-de", "mlqa-de"):
        with pytest.raises(DataError, match=f"{name}: the benchmark has no training set in this"):
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


def test_nothing_but_an_article_has_no_f1_in_squad_1() -> None:
    assert _asked("xquad-en", ("The", "a"), ("red", "red")) == {"exact_match": 100, "f1": 50}


def test_texts_of_the_tests_are_left_out_of_a_corpus() -> None:
    (task,) = tasks_of(["tatoeba-de"])
    assert {"Es regnet.", "It is raining."} <= set(texts(task, OFFICIAL))
    (task,) = tasks_of(["udpos-fr"])
    assert "Elle dort ." in texts(task, OFFICIAL)
    assert [one.name for one in tasks_of(["mlqa"])] == [
        f"mlqa-{language}" for language in GROUPS["mlqa"].languages
    ]


def test_hidden_labels_do_not_keep_a_test_set_from_being_left_out(tmp_path: Path) -> None:
    for split, text in (("dev", "Ja\tO\n"), ("test", "Köln\nliegt\nam\nRhein\n")):
        (tmp_path / f"{split}-de.tsv").write_text(text, encoding="utf-8")
    (task,) = tasks_of(["panx-de"])
    assert texts(task, tmp_path) == ["Ja", "Köln liegt am Rhein"]


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


@pytest.mark.parametrize(
    ("row", "published"),
    [
        ((63.8, 51.0, (47.3, 33.2), (39.9, 25.3), (26.8, 15.2), 57.9, 77.8), 49.2),
        ((63.7, 54.0, (57.9, 42.0), (51.5, 34.3), (39.7, 23.0), 64.6, 83.2), 55.7),
        ((67.4, 55.0, (64.4, 49.0), (57.0, 40.0), (44.4, 27.8), 67.2, 84.2), 59.3),
    ],
    ids=["XLM", "MetaXLM", "+Dict"],
)
def test_the_averages_of_metaxlm_are_over_seven_tasks(
    row: tuple[float | tuple[float, float], ...], published: float
) -> None:
    names_of_row = ("udpos", "panx", "xquad", "mlqa", "tydiqa", "xnli", "pawsx")
    by_task = {
        task: fmean(value) if isinstance(value, tuple) else value
        for task, value in zip(names_of_row, row, strict=True)
    }
    average = xtreme.average(by_task, xtreme.SEVEN)
    assert average is not None
    assert round(average, 1) == published
    assert xtreme.average(by_task) is None
    assert set(xtreme.category_averages(by_task)) == {"classification", "tagging", "qa"}


def test_a_transfer_gap_compares_the_training_languages_with_the_others() -> None:
    f1 = {"en": 80.0, "de": 70.0, "ko": 60.0}
    assert xtreme.transfer_gap(f1, ["en"]) == 15
    assert xtreme.transfer_gap(f1, ["ko"]) == -15
    assert xtreme.transfer_gap(f1, ["en", "de"]) == 15
