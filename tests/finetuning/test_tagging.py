"""Words with tags: long sentences go to the model in pieces, and their tags come back whole."""

import pytest
from tiny_tokenizers import BUILDERS, build

from lingraft.finetuning.coders.common import Shape
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.models.losses import IGNORED
from lingraft.tasks import TASKS
from lingraft.tasks.examples import TaggedExample

TASK = TASKS["udpos-en"]
TEXT = "나는 학교에 가서 the old friend 를 만나고 , 집에 와서 책을 읽었다 ."
WORDS = tuple(TEXT.split())
TAGS = tuple(TASK.labels[n % len(TASK.labels)] for n in range(4 * len(WORDS)))


def coder(family, width):
    tokenizer = build(family)
    return TagCoder(TASK, Shape(tokenizer, tokenizer.pad_token_id, width, False))


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
    odd = "the" * 40  # more tokens than an input holds; WordPiece takes it for unknown itself
    example = TaggedExample("0", ("old", odd, "\u200b\u200b", "friend"), TAGS[:4])
    (item,), ((*tags,),) = decoded(made, [example])
    assert unknown in item.ids.tolist()
    assert tags[:2] == list(TAGS[:2])
    assert tags[3] == TAGS[3]
