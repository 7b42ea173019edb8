"""The study's documents are not cut, and hold no text of the tasks that judge it."""

import pytest
from script_modules import load

from lingraft.corpus.cleaning.decontamination import Evaluations
from lingraft.corpus.split import split_of

pytestmark = pytest.mark.slow
study = load("build_study_data", "research/scripts")
neighbours = load("measure_neighbours", "research/scripts")

WITH_FORMULA = [
    "[1] 재건축조합의 재산소유관계 및 그 재산의 처분방법",
    "[2] 조합원총회의 결의 없이 한 처분행위가 무효라고 한 사례",
    "[1] 재건축조합은 민법상의 비법인사단에 해당한다.",
    "【이 유】1. 원심은 다음과 같이 판단하였다.",
    "가. 소멸시효의 기산점에 관한 판단 기준",
    "그러므로 상고를 기각하기로 하여 주문과 같이 판결한다.",
    "대법관 김의 반대의견은 다음과 같다.",
]
WITHOUT_FORMULA = [
    "채권자 불확지를 원인으로 하는 변제공탁을 할 수 있는지 여부(적극)",
    "민법 제487조 후단의 경우라 함은 다음과 같은 경우를 말한다.",
    "피고의 상고를 기각한다.",
]
ODD = ["甲 법인이 견책의 징계처분을 하자 乙이 다툰 사안", "1. 원심은 사실을 인정하였다."]


def test_a_decision_is_one_document_and_begins_with_its_headnote():
    lines = [*WITHOUT_FORMULA, *WITH_FORMULA[:6], *ODD, *WITH_FORMULA]
    assert list(study.decisions(lines)) == [
        WITHOUT_FORMULA, WITH_FORMULA[:6], ODD, WITH_FORMULA,
    ]  # fmt: skip


def test_an_opinion_behind_the_formula_belongs_to_the_decision():
    lines = [*WITH_FORMULA, "이에 관한 나의 의견을 밝힌다.", *WITHOUT_FORMULA]
    assert [len(document) for document in study.decisions(lines)] == [8, 3]


def test_other_sources_are_cut_into_long_stretches():
    lines = [f"줄 {n}" for n in range(2_300)]
    found = list(study.documents("microsoft", lines))
    assert [len(document) for document in found] == [1_000, 1_000, 300]
    assert [line for document in found for line in document] == lines


def test_lines_that_are_texts_of_tasks_go_by_letters_and_digits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(study, "BATCH_LINES", 2)
    evaluations = Evaluations(["정말 재미있다!", "굿"], lambda text: [text], min_letters=1)
    lines = ["정말재미 있다", "굿~!", "정말 재미있다 그런데", "", "딴 줄"]
    assert [found for _, found in study.left_out(lines, evaluations)] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_a_document_that_the_split_cuts_has_its_text_in_its_neighbours():
    names = {split_of(f"n{n}", 0, 0.02, 0.02): f"n{n}" for n in range(1_000)}
    other = [f"{n * 7919:020d}" for n in range(500)]
    cut = [("x", other), (names["train"], ["같은 판결의 같은 문장이 여기 있다"] * 3),
           (names["test"], ["같은 판결의 같은 문장이 여기 있다"])]  # fmt: skip
    count, beside, drawn = neighbours.measure(cut)
    assert (count, beside) == (1, 1.0)
    assert drawn < 1.0
