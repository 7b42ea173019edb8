"""Multiple choice by likelihood with a causal model: log-likelihoods of choices after a context.

Tokens are those of lm-evaluation-harness (`lm_eval/api/model.py`, `_encode_pair`): context and
choice are tokenised together, spaces at the end of the context belong to the choice, and what comes
after as many tokens as the context alone has is the choice. A text that is too long loses its
start. What a tokenizer puts behind a text (an end of text, say) is left out here; the harness keeps
it, and then scores it in place of the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.errors import DataError
from lingraft.evaluation.scorer import Item, surprisals
from lingraft.tasks.choice_metrics import Answered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

    from lingraft.evaluation.scorer import Scorer
    from lingraft.tasks.choices import Question


@dataclass(frozen=True)
class Result:
    """All questions as one model answered them."""

    answers: list[Answered]
    cut: int
    """Choices whose context lost its start, because the model does not read so much."""


def first_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """What stands before a text of which every token is predicted: its begin, else its end.

    Raises:
        DataError: the tokenizer has neither.
    """
    candidates = [tokenizer.bos_token_id, tokenizer.eos_token_id]
    ids = [int(token) for token in candidates if token is not None]
    if not ids:
        raise DataError(
            "the tokenizer has no bos_token and no eos_token, one of which must stand before a "
            "text that is predicted; name one in its tokenizer_config.json"
        )
    return ids[0]


def encode(tokenizer: PreTrainedTokenizerBase, question: Question) -> list[tuple[list[int], int]]:
    """For each choice the ids of context and choice, and how many of them are the context's.

    Raises:
        DataError: a choice has no token of its own.
    """
    pairs = []
    for choice in question.choices:
        context, text = question.context, question.delimiter + choice
        bare = context.rstrip()
        if not bare:
            ids = _ids(tokenizer, context + text, add_special_tokens=False)
            first = first_token(tokenizer)
            pair = (ids, 1) if ids[:1] == [first] else ([first, *ids], 1)
        else:
            whole = _ids(tokenizer, context + text)
            pair = (whole, len(_ids(tokenizer, bare)))
        if len(pair[0]) <= pair[1]:
            raise DataError(
                f"{question.where}: the choice {choice!r:.40} has no token of its own behind its "
                "context; correct or leave out the record"
            )
        pairs.append(pair)
    return pairs


def _ids(
    tokenizer: PreTrainedTokenizerBase, text: str, *, add_special_tokens: bool = True
) -> list[int]:
    """Ids of a text, without special tokens behind it."""
    encoded = tokenizer(
        text, add_special_tokens=add_special_tokens, return_special_tokens_mask=True, verbose=False
    )
    ids: list[int] = encoded["input_ids"]
    end = len(ids)
    while end and encoded["special_tokens_mask"][end - 1]:
        end -= 1
    return ids[:end]


def answer(
    scorer: Scorer, tokenizer: PreTrainedTokenizerBase, questions: Sequence[Question], longest: int
) -> Result:
    """Log-likelihoods of all choices; they do not depend on what shares a batch.

    Args:
        scorer: a causal model.
        tokenizer: of the model.
        questions: with their choices.
        longest: tokens that the model reads at once.

    Raises:
        DataError: a choice has no token, or more than the model reads.
    """
    items: list[Item] = []
    owners: list[int] = []
    cut = 0
    for number, question in enumerate(questions):
        for ids, context in encode(tokenizer, question):
            item, shortened = _item(ids, context, longest, question)
            items.append(item)
            owners.append(number)
            cut += shortened
    nats, _ = surprisals(scorer, items, "scoring choices")
    answers, place = [], 0
    for question in questions:
        own = slice(place, place + len(question.choices))
        sizes = tuple(len(item.targets) for item in items[own])
        answers.append(Answered.of(question, [0.0 - float(value) for value in nats[own]], sizes))
        place = own.stop
    return Result(answers, cut)


def check(tokenizer: PreTrainedTokenizerBase, questions: Sequence[Question], longest: int) -> None:
    """Refuse questions that `answer` would; needs no model.

    Args, Raises: as `answer`.
    """
    for question in questions:
        for ids, context in encode(tokenizer, question):
            _item(ids, context, longest, question)


def _item(ids: list[int], context: int, longest: int, question: Question) -> tuple[Item, bool]:
    """What the model reads and is asked for, and whether the start was cut off."""
    count = len(ids) - context
    if count > longest:
        raise DataError(
            f"{question.where}: a choice of {count} tokens is longer than the {longest} that the "
            "model reads; leave the record out"
        )
    row = np.array(ids[-(longest + 1) :], dtype=np.int64)
    text = row[:-1]
    return Item(text, np.arange(len(text) - count, len(text)), row[-count:]), len(row) < len(ids)
