"""Tags of characters to tokens and back, entity markers, windows, trees: without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from lingraft.finetuning.coders import spans as windows
from lingraft.finetuning.coders.tagging import character_tags, token_labels
from lingraft.tasks.definition import Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedTokenizerBase


def test_a_token_has_the_tag_of_its_first_character() -> None:
    text, tags = "민수는 서울", ["B-PS", "I-PS", "O", "O", "B-LC", "I-LC"]
    offsets = [(0, 0), (0, 2), (2, 3), (4, 6), (0, 0)]
    labels = token_labels(text, tags, offsets)
    assert labels == [None, "B-PS", "O", "B-LC", None]
    assert character_tags(text, labels, offsets) == tuple(tags)


def test_a_character_of_several_tokens_has_the_tag_of_the_last_that_begins_there() -> None:
    text, tags = "각나", ["B-PS", "B-LC"]
    offsets = [(0, 1), (0, 1), (0, 2), (1, 2)]
    labels = token_labels(text, tags, offsets)
    assert labels == [None, None, "B-PS", "B-LC"]
    assert character_tags(text, labels, offsets) == tuple(tags)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_windows_are_those_of_transformers(
    family: str, tiny_tokenizer: Callable[[str], PreTrainedTokenizerBase]
) -> None:
    tokenizer = tiny_tokenizer(family)
    question, passage = "학교에 가서", "나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다."
    n_question = len(tokenizer(question, add_special_tokens=False)["input_ids"])
    special = tokenizer.num_special_tokens_to_add(pair=True)
    room, step = 12, 5
    length = n_question + special + room
    encoded = tokenizer(
        question, passage, truncation="only_second", max_length=length,
        stride=room - step,
        return_overflowing_tokens=True, return_offsets_mapping=True
    )  # fmt: skip
    whole = tokenizer(passage, add_special_tokens=False, return_offsets_mapping=True)
    first = encoded.sequence_ids(0).index(1)
    ours = windows.windows(len(whole["input_ids"]), room, step, first)
    assert len(ours) == len(encoded["input_ids"])
    for index, window in enumerate(ours):
        places = [i for i, part in enumerate(encoded.sequence_ids(index)) if part == 1]
        got = [encoded["offset_mapping"][index][place] for place in places]
        assert got == [whole["offset_mapping"][token] for token in window.tokens]
        assert places[0] == window.first


OFFSETS = [(0, 2), (3, 5), (6, 8), (9, 11), (12, 14)]
PASSAGE = "aa bb cc dd ee"


def _logits(size: int, **peaks: float) -> np.ndarray:
    row = np.zeros(size)
    for place, value in peaks.items():
        row[int(place[1:])] = value
    return row


def test_an_answer_is_short_ordered_and_inside_the_passage() -> None:
    parts = windows.windows(5, 5, 5, 2)
    long = [(_logits(8, p2=5.0), _logits(8, p6=4.0, p3=1.0))]
    assert windows.best_answer(PASSAGE, OFFSETS, parts, long, Spans(max_answer=5)) == PASSAGE
    assert windows.best_answer(PASSAGE, OFFSETS, parts, long, Spans(max_answer=4)) == "aa bb"
    backwards = [(_logits(8, p6=5.0), _logits(8, p2=9.0))]
    assert windows.best_answer(PASSAGE, OFFSETS, parts, backwards, Spans()) == "aa"
    outside = [(_logits(8, p1=9.0, p3=1.0), _logits(8, p7=9.0, p3=1.0))]
    assert windows.best_answer(PASSAGE, OFFSETS, parts, outside, Spans()) == "bb"


def test_no_answer_wins_by_more_than_the_threshold_and_is_the_least_over_windows() -> None:
    parts = windows.windows(5, 3, 2, 2)
    sure = (_logits(5, p0=4.0), _logits(5, p0=4.0))
    torn = (_logits(5, p0=1.0, p3=2.0), _logits(5, p0=1.0, p3=2.0))
    found = windows.best_answer(PASSAGE, OFFSETS, parts, [sure, torn], Spans())
    assert found == "dd"  # null is min(8, 2), below 4
    assert windows.best_answer(PASSAGE, OFFSETS, parts, [sure, sure], Spans()) == ""
    patient = Spans(null_threshold=8.0)
    assert windows.best_answer(PASSAGE, OFFSETS, parts, [sure, sure], patient) != ""
    tie = [(_logits(5, p0=2.0, p2=2.0), _logits(5, p0=2.0, p2=2.0))] * 2
    assert windows.best_answer(PASSAGE, OFFSETS, parts, tie, Spans()) == "aa"


def test_a_start_counts_only_in_its_home_window() -> None:
    parts = windows.windows(5, 3, 2, 2)  # tokens 0–2 and 2–4; token 2 is at home in the first
    stray = (_logits(5, p2=9.0), _logits(5, p2=9.0))
    logits = [(np.zeros(5), np.zeros(5)), stray]
    assert windows.best_answer(PASSAGE, OFFSETS, parts, logits, Spans()) != "cc"
