"""Tags of characters to tokens and back, entity markers, windows, trees: without a model.

Words with tags: long sentences go to the model in pieces, and their tags come back whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tiny_tokenizers import BUILDERS, build

from lingraft.finetuning.coders import spans as windows
from lingraft.finetuning.coders.common import InputShape
from lingraft.finetuning.coders.tagging import TagCoder, character_tags, token_labels
from lingraft.models.losses import IGNORED
from lingraft.tasks import TASKS
from lingraft.tasks.definition import Spans
from lingraft.tasks.examples import TaggedExample

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedTokenizerBase


def test_a_token_has_the_tag_of_its_first_character_and_the_last_that_begins_there_counts() -> None:
    names, several = ["B-PS", "I-PS", "O", "O", "B-LC", "I-LC"], ["B-PS", "B-LC"]
    for text, tags, offsets, expected in (
        ("민수는 서울", names, [(0, 0), (0, 2), (2, 3), (4, 6)], [None, "B-PS", "O", "B-LC"]),
        ("각나", several, [(0, 1), (0, 1), (0, 2), (1, 2)], [None, None, "B-PS", "B-LC"]),
    ):
        assert token_labels(text, tags, offsets) == expected
        assert character_tags(text, expected, offsets) == tuple(tags)


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
    ours = windows.windows(len(whole["input_ids"]), room, step, encoded.sequence_ids(0).index(1))
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
    logits = [(np.zeros(5), np.zeros(5)), (_logits(5, p2=9.0), _logits(5, p2=9.0))]
    assert windows.best_answer(PASSAGE, OFFSETS, parts, logits, Spans()) != "cc"


TASK = TASKS["udpos-en"]
TEXT = "나는 학교에 가서 the old friend 를 만나고 , 집에 와서 책을 읽었다 ."
WORDS = tuple(TEXT.split())
TAGS = tuple(TASK.labels[n % len(TASK.labels)] for n in range(4 * len(WORDS)))


def coder(family, width):
    tokenizer = build(family)
    return TagCoder(TASK, InputShape(tokenizer, tokenizer.pad_token_id, width, False))


def decoded(made, examples):
    """What comes back where the model says the right label of every token that has one."""
    items = made.encode(examples)
    said = [[max(label, 0) for label in item.target] for item in items]
    return items, [one.tags for one in made.decode(examples, items, said)]


@pytest.mark.parametrize("family", BUILDERS)
def test_a_long_sentence_keeps_all_its_tags(family):
    made = coder(family, 24)
    long = TaggedExample("long", WORDS * 4, TAGS)
    short = TaggedExample("short", ("the", "friend"), TAGS[:2])
    items, tags = decoded(made, [long, short, long])
    assert tags == [long.tags, short.tags, long.tags]
    assert [item.example for item in items] == sorted(item.example for item in items)
    assert sum(item.example == 0 for item in items) > 1
    assert sum(item.example == 1 for item in items) == 1
    assert not any(item.cut for item in items)
    assert max(len(item.ids) for item in items) <= 24
    labelled = [sum(label != IGNORED for label in item.target) for item in items]
    assert sum(labelled) == 2 * len(long.units) + len(short.units)


@pytest.mark.parametrize("family", BUILDERS)
def test_a_word_without_tokens_or_with_too_many_is_the_unknown_token(family):
    made = coder(family, 24)
    unknown = made.shape.tokenizer.unk_token_id
    # more tokens than an input holds; WordPiece takes it for unknown itself
    example = TaggedExample("0", ("old", "the" * 40, "\u200b\u200b", "friend"), TAGS[:4])
    (item,), ((*tags,),) = decoded(made, [example])
    assert unknown in item.ids.tolist()
    assert tags[:2] == list(TAGS[:2])
    assert tags[3] == TAGS[3]
