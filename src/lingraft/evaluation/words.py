"""Bits per character of whole words: compares models with different vocabularies.

Words are chosen by their characters in the text, the same for every model. A word's tokens are all
masked and then scored from left to right, each with those before it put back ("PLL-word-l2r", Kauf
& Ivanova 2023); the sum of their surprisals is divided by the word's characters.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import regex

from lingraft.corpus.split import position
from lingraft.evaluation.records import WordRecord, key
from lingraft.evaluation.scorer import HiddenItem, surprisals
from lingraft.tokenizer.shards import as_text, without_special
from lingraft.tokenizer.state import WORD_START

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from transformers import PreTrainedTokenizerFast

    from lingraft.evaluation.scorer import Scorer
    from lingraft.tokenizer.shards import Array

WORD = regex.compile(r"\S+")
LETTER = regex.compile(r"\p{L}")


@dataclass(frozen=True)
class Word:
    """A word in its sentence, by characters."""

    sentence: str
    start: int
    end: int


def choose(sentences: Iterable[str], number: int, seed: int) -> list[Word]:
    """Choose at most `number` words, one a sentence at most, the same for every model.

    The sentences are those with the smallest hash of (text, seed), so that a longer text keeps most
    of a shorter one's.
    """
    ranked = sorted((position(text, seed, "words"), text) for text in set(sentences))
    words = []
    for _, text in ranked:
        matches = [m for m in WORD.finditer(text) if LETTER.search(m.group())]
        if matches:
            match = matches[int(position(text, seed, "word") * len(matches))]
            words.append(Word(text, match.start(), match.end()))
        if len(words) == number:
            break
    return words


def _tokens_of(
    word: Word, tokenizer: PreTrainedTokenizerFast, max_tokens: int, read_as: Array | None
) -> tuple[list[int], list[int]] | None:
    """Return token ids of the sentence and positions of the word's tokens.

    Of a sentence of more than `max_tokens`, the tokens around the word, as many before it as
    behind it where there are so many; special tokens stay at its ends, and are text where the
    sentence spells them (`spelled.without_special` gives `read_as`). None if the word has an
    unknown token or more tokens than are read, or is not read as it is written.
    """
    if not _is_read_as_written(word.sentence[word.start : word.end], tokenizer):
        return None
    encoded = tokenizer(
        word.sentence,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        split_special_tokens=True,
        verbose=False,
    )
    around, offsets = encoded["special_tokens_mask"], encoded["offset_mapping"]
    ids: list[int] = as_text(encoded["input_ids"], around, read_as).tolist()
    special = set(tokenizer.all_special_ids)
    spans = enumerate(offsets)
    within = [index for index, (start, end) in spans if start < word.end and end > word.start]
    places = [index for index in within if ids[index] not in special]
    unknown = any(ids[index] == tokenizer.unk_token_id for index in within)
    covered = sum(min(offsets[i][1], word.end) - max(offsets[i][0], word.start) for i in places)
    if unknown or not places or covered < word.end - word.start:
        return None
    if len(ids) <= max_tokens:
        return ids, places
    text = [index for index, is_around in enumerate(around) if not is_around]
    first, end = text[0], text[-1] + 1
    room = max_tokens - first - (len(ids) - end)
    wide = places[-1] + 1 - places[0]
    if wide > room:
        return None
    start = min(max(places[0] - (room - wide) // 2, first), end - room)
    window = [*ids[:first], *ids[start : start + room], *ids[end:]]
    return window, [place - start + first for place in places]


def _is_read_as_written(word: str, tokenizer: PreTrainedTokenizerFast) -> bool:
    """Return whether a tokenizer leaves a word as it is.

    One that it lower-cases, say, is easier to guess than what stands there.
    """
    normaliser = tokenizer.backend_tokenizer.normalizer
    read = word if normaliser is None else normaliser.normalize_str(word)
    both = (text.replace(WORD_START, " ").split() for text in (read, word))
    first, second = (unicodedata.normalize("NFC", "".join(parts)) for parts in both)
    return first == second


def _items(words: Sequence[tuple[list[int], list[int]]], mask_id: int) -> Iterator[HiddenItem]:
    """Yield an item per token of each word: it is asked for, and hidden with all later ones."""
    for ids, places in words:
        for done, place in enumerate(places):
            hidden = np.array(ids, dtype=np.int64)
            hidden[places[done:]] = mask_id
            yield HiddenItem(hidden, np.array([place]), np.array([ids[place]]))


def measure(
    scorer: Scorer, tokenizer: PreTrainedTokenizerFast, words: Sequence[Word], max_tokens: int
) -> list[WordRecord]:
    """Measure the surprisal of each word, in the order given; dropped words have no tokens."""
    read_as = without_special(tokenizer)
    tokens = [_tokens_of(word, tokenizer, max_tokens, read_as) for word in words]
    items = list(_items([pair for pair in tokens if pair], int(tokenizer.mask_token_id)))
    lengths = [len(pair[1]) if pair else 0 for pair in tokens]
    owner = np.repeat(np.arange(len(words)), lengths)
    nats_I, right_I = surprisals(scorer, items, "scoring words")
    nats, right = (np.bincount(owner, of_items, len(words)) for of_items in (nats_I, right_I))
    return [
        WordRecord(
            key(word.sentence, word.start, word.end),
            word.end - word.start,
            lengths[index],
            int(right[index]),
            float(nats[index]),
        )
        for index, word in enumerate(words)
    ]
