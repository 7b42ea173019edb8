"""Tags of characters to tokens and back, entity markers, windows, trees: without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from lingraft.finetuning.coders import spans as windows
from lingraft.finetuning.coders import texts as markers
from lingraft.finetuning.coders.tagging import (
    character_tags,
    covered_characters,
    pieces,
    token_labels,
)
from lingraft.tasks.examples import Answer, Entity, RelationExample
from lingraft.tasks.settings import Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedTokenizerBase


def test_a_token_has_the_tag_of_its_first_character() -> None:
    text, tags = "민수는 서울", ["B-PS", "I-PS", "O", "O", "B-LC", "I-LC"]
    offsets = [(0, 0), (0, 2), (2, 3), (4, 6), (0, 0)]
    labels = token_labels(text, tags, offsets)
    assert labels == [None, "B-PS", "O", "B-LC", None]
    assert character_tags(text, labels, offsets) == tuple(tags)


def test_a_space_within_a_token_is_passed_over() -> None:
    # byte-level pieces begin with the space before the word
    text, tags = "a 밥집", ["O", "O", "B-LC", "I-LC"]
    offsets = [(0, 1), (1, 3), (3, 4)]
    labels = token_labels(text, tags, offsets)
    assert labels == ["O", "B-LC", "I-LC"]
    assert character_tags(text, labels, offsets) == tuple(tags)


def test_a_character_of_several_tokens_has_the_tag_of_the_last_that_begins_there() -> None:
    text, tags = "각나", ["B-PS", "B-LC"]
    offsets = [(0, 1), (0, 1), (0, 2), (1, 2)]
    labels = token_labels(text, tags, offsets)
    assert labels == [None, None, "B-PS", "B-LC"]
    assert character_tags(text, labels, offsets) == tuple(tags)


def test_characters_of_an_unknown_token_go_on_as_its_first() -> None:
    assert character_tags("쀍쀍이", ["B-PS"], [(0, 3)]) == ("B-PS", "I-PS", "I-PS")
    assert character_tags("쀍쀍이", ["O"], [(0, 3)]) == ("O", "O", "O")


def test_a_space_is_inside_an_entity_only_between_its_words() -> None:
    offsets = [(0, 1), (2, 3), (4, 5)]
    assert character_tags("a b c", ["B-PS", "I-PS", "B-PS"], offsets) == (
        "B-PS", "I-PS", "I-PS", "O", "B-PS",
    )  # fmt: skip
    assert character_tags("a b c", ["B-PS", "I-LC", "O"], offsets)[1] == "O"


def test_a_dropped_character_goes_on_as_the_one_before() -> None:
    assert character_tags("a\u200bb", ["B-PS", "I-PS"], [(0, 1), (2, 3)])[1] == "I-PS"


def test_what_is_cut_off_is_o_and_counted() -> None:
    text, offsets = "ab cd", [(0, 0), (0, 2), (0, 0)]
    assert character_tags(text, [None, "B-PS", None], offsets) == ("B-PS", "I-PS", "O", "O", "O")
    assert covered_characters(text, offsets) == 2


def _relation(text: str, subject: tuple[int, int], obj: tuple[int, int]) -> RelationExample:
    return RelationExample("0", text, Entity(*subject), Entity(*obj), "no_relation")


def test_markers_of_entities_that_touch_do_not_cross() -> None:
    assert markers.mark(_relation("서울시청", (0, 2), (2, 4))) == (
        "<subj>서울</subj><obj>시청</obj>"
    )
    assert markers.mark(_relation("서울시청", (2, 4), (0, 2))) == (
        "<obj>서울</obj><subj>시청</subj>"
    )


def test_windows_overlap_and_cover_the_passage() -> None:
    parts = windows.windows(10, room=6, doc_stride=3, first=4)
    assert [part.tokens for part in parts] == [range(6), range(3, 9), range(6, 10)]
    assert parts[1].place(5) == 6
    assert [part.tokens for part in windows.windows(5, 6, 3, 4)] == [range(5)]


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
        return_overflowing_tokens=True, return_offsets_mapping=True,
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


def test_an_answer_is_the_tokens_that_hold_it() -> None:
    assert windows.answer_tokens(Answer("bb cc", 3), OFFSETS) == (1, 2)
    assert windows.answer_tokens(Answer("b", 4), OFFSETS) == (1, 1)
    assert windows.answer_tokens(Answer(" ", 2), OFFSETS) is None


def test_a_window_without_the_whole_answer_points_to_its_first_place() -> None:
    first, second = windows.windows(5, 3, 2, 4)
    assert windows.target(first, (1, 2)) == (5, 6)
    assert windows.target(first, (2, 3)) == (0, 0)
    assert windows.target(second, (2, 3)) == (4, 5)
    assert windows.target(first, None) == (0, 0)


def test_a_token_is_at_home_where_it_has_most_context() -> None:
    parts = windows.windows(5, 3, 2, 4)
    # token 2 is last of the first window and first of the second: 0 + 0.03 each, the first wins
    assert windows.home_windows(parts) == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}


def _logits(size: int, **peaks: float) -> np.ndarray:
    row = np.zeros(size)
    for place, value in peaks.items():
        row[int(place[1:])] = value
    return row


def test_the_best_span_is_the_answer() -> None:
    parts = windows.windows(5, 5, 5, 2)
    logits = [(_logits(8, p3=5.0), _logits(8, p4=4.0))]
    assert windows.best_answer(PASSAGE, OFFSETS, parts, logits, Spans()) == "bb cc"


def test_an_answer_keeps_the_marks_on_its_last_letter() -> None:
    passage = "cafe\u0301\u0323 e\u0301t"
    parts, logits = windows.windows(3, 3, 3, 2), [(_logits(6, p2=5.0), _logits(6, p2=4.0, p3=3.0))]
    stripped = [(0, 4), (7, 8), (9, 10)]
    assert windows.best_answer(passage, stripped, parts, logits, Spans()) == passage[:6]
    kept = [(0, 4), (4, 5), (5, 10)]  # a mark that is a token of its own
    assert windows.best_answer(passage, kept, parts, logits, Spans()) == passage[:4]


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


def test_long_sentences_are_cut_between_words() -> None:
    assert pieces([1, 1, 1], 3) == [range(3)]
    assert pieces([2, 2, 1, 3], 3) == [range(1), range(1, 3), range(3, 4)]
    assert pieces([0, 9, 1, 1], 3) == [range(3), range(3, 4)]  # no token, too many: one each
    assert pieces([3], 3) == [range(1)]
