"""A few masked sentences with the model's first guesses, for people to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lingraft.tokenizer.state import BYTE_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

    from lingraft.evaluation.intrinsic import MaskedText
    from lingraft.evaluation.scorer import Scorer

GUESSES = 5
BROKEN = "\N{REPLACEMENT CHARACTER}"
SHORTEST, LONGEST = 8, 40


def choose(text: MaskedText, number: int) -> list[int]:
    """Indices of sentences of a readable length, spread over the text."""
    fitting = [i for i, item in enumerate(text.items) if SHORTEST <= len(item.ids) <= LONGEST]
    fitting = fitting or list(range(len(text.items)))
    step = max(1, len(fitting) // max(1, number))
    return fitting[::step][:number]


def predictions(
    scorer: Scorer, tokenizer: PreTrainedTokenizerBase, text: MaskedText, indices: Sequence[int]
) -> list[dict[str, Any]]:
    """The chosen sentences with the five likeliest tokens at each hidden place.

    Args:
        scorer: the model.
        tokenizer: turns ids into pieces.
        text: masked with scheme 'mask-only', so that what is hidden is seen to be hidden.
        indices: indices into `text.items`.
    """
    items = [text.items[index] for index in indices]
    guesses: dict[tuple[int, int], list[tuple[str, float]]] = {}
    for where, logits_MV in scorer.logits(items):
        best = torch.softmax(logits_MV, 1).topk(GUESSES)
        for row, (item, place) in enumerate(where):
            likeliest = zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
            guesses[int(item), int(place)] = [
                (readable(token, tokenizer), share) for token, share in likeliest
            ]
    rows = []
    for number, item in enumerate(items):
        gold = (item.ids if item.written is None else item.written).copy()
        gold[item.masked] = item.targets
        hidden = set(item.masked.tolist())
        pieces = [readable(token, tokenizer) for token in gold.tolist()]
        rows.append(
            {
                "text": tokenizer.decode(gold.tolist(), skip_special_tokens=True),
                "tokens": [[piece, index in hidden] for index, piece in enumerate(pieces)],
                "predictions": [
                    {"index": int(place), "gold": pieces[place], "top": guesses[number, order]}
                    for order, place in enumerate(item.masked.tolist())
                ],
            }
        )
    return rows


def readable(token: int, tokenizer: PreTrainedTokenizerBase) -> str:
    """A vocabulary piece as a person reads it: bytes decoded, a space in front shown as '▁'.

    Bytes that are no whole character are told apart: as ‹ed 95›, or <0xED> where they stand so.
    """
    piece = str(tokenizer.convert_ids_to_tokens(token))
    if token in tokenizer.all_special_ids or piece.startswith("##"):
        return piece
    text = str(tokenizer.decode([token])).strip()
    if BROKEN in text:
        whole = all(letter in BYTE_OF for letter in piece)
        return f"‹{bytes(BYTE_OF[letter] for letter in piece).hex(' ')}›" if whole else piece
    return ("▁" if piece[:1] in ("▁", "Ġ") else "") + text
