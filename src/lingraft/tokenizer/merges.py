"""Byte-pair merges of a tokenizer, continued on new text.

The text is cut into the tokens that the tokenizer has, and training goes on from there: the
commonest pair of neighbours becomes a piece, as if the first training had never ended. A piece that
is learnt so is what its own text falls into, since its parts are what the old merges leave of it.

Source: continued BPE training (Purason et al. 2025, arXiv 2512.03989).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from lingraft.errors import DataError
from lingraft.log import progress
from lingraft.tokenizer.state import (
    BYTE_OF,
    BYTE_PIECE,
    WORD_START,
    kind_of_state,
    outside,
    pieces_of,
    single_digits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


class Sample:
    """At most `limit` sentences, spread evenly over the corpus; can be read again and again.

    The corpus is cut into `limit` stretches of equal length and one sentence is drawn from each, so
    that the choice needs a number for each of these, and not the text, in memory.
    """

    def __init__(self, sentences: Callable[[], Iterable[str]], limit: int, seed: int) -> None:
        self.sentences = sentences
        self.characters = available = 0
        for sentence in sentences():
            available += 1
            self.characters += len(sentence)
        if self.characters == 0:
            raise DataError(
                "tokenizer: there is no text to train on; check corpus.text and what the corpus "
                "stage dropped"
            )
        self.size = min(available, limit)
        self.skipped: list[int] | None = None
        """Sentences of the corpus before each of ours; None takes all."""
        if available > limit:
            bounds = np.arange(limit + 1, dtype=np.int64) * available // limit
            chosen = np.random.default_rng(seed).integers(bounds[:-1], bounds[1:])
            self.skipped = (np.diff(chosen, prepend=-1) - 1).tolist()

    def __iter__(self) -> Iterator[str]:
        """Yield the sentences, in the order of the corpus."""
        sentences = iter(self.sentences())
        if self.skipped is None:
            yield from sentences
            return
        for skipped in self.skipped:
            yield from islice(sentences, skipped, skipped + 1)

    def normalised(self, normaliser: Any, title: str) -> Iterator[str]:
        """Yield the sentences in the tokenizer's own normal form, with a progress bar."""
        return map(normaliser.normalize_str, self.shown(title))

    def shown(self, title: str) -> Iterator[str]:
        """Yield the sentences, with a progress bar named `title`."""
        with progress(f"tokenizer: {title}", self.size, "sentences") as ticker:
            for count, sentence in enumerate(self, start=1):
                yield sentence
                if count % 1_000 == 0 or count == self.size:
                    ticker.update(count)


MIN_FREQUENCY = 2
"""Occurrences that a piece must have when it is learnt."""
LONGEST_PIECE = 16
"""Letters of a piece that is learnt, the space before them left out (Unigram counts it)."""
FIRST = 0x10000
"""A token is a character here, its id above this one: none is white space up there."""
REPEATED = 1_000
WHITE = " \t\n\r\v\f"
SPELT_WORD = re.compile(f"{WORD_START}*[^{WORD_START}\n]+|{WORD_START}+")
"""The end of a line is in no word: SentencePiece has a piece or a byte for it alone."""


def continue_merges(
    state: Mapping[str, Any], sample: Sample, limit: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn further merges on new text, cut and normalised as the tokenizer does it.

    With byte fallback, characters that the vocabulary lacks become pieces first, the commonest
    before the others; bytes are never merged. Nothing is merged across words, nor across letters,
    digits and other signs where the tokenizer's own pre-tokenizer does not keep them apart.

    Args:
        state: tokenizer.json of the source; left as it is.
        sample: the text.
        limit: new pieces, at most.

    Returns:
        Pieces of one character, which need no merge, and merges, in order. Each merge gives a piece
        of its own, that the tokenizer did not have.
    """
    vocabulary = pieces_of(state) | outside(state)
    words = count_words(state, sample)
    characters: list[str] = []
    spelt = kind_of_state(state) == "sp-bpe"
    if spelt:
        counts = count_characters(words)
        common = [c for c in counts if counts[c] >= MIN_FREQUENCY and c not in vocabulary]
        characters = sorted(common, key=lambda char: (-counts[char], char))[:limit]
    ids = vocabulary | {char: max(vocabulary.values()) + 1 + i for i, char in enumerate(characters)}
    spelling = {**state, "model": {**state["model"], "vocab": ids}}
    model: Any = Tokenizer.from_str(json.dumps(spelling)).model
    sequences: Counter[str] = Counter()
    digits = single_digits(vocabulary)
    unknown = state["model"].get("unk_token")
    for word, count in words.items():
        tokens = [token.value for token in model.tokenize(word)]
        for part in cut(tokens, digits, unknown) if spelt else [tokens]:
            if len(part) > 1:
                sequences["".join(chr(FIRST + ids[token]) for token in part)] += count
    pieces = {chr(FIRST + index): piece for piece, index in ids.items()}
    fits = fitting(in_bytes=not spelt)
    return characters, _learn(sequences, pieces, limit - len(characters), fits)


def count_words(state: Mapping[str, Any], sample: Sample) -> Counter[str]:
    """Count each word of the text, as the tokenizer spells and separates words."""
    backend = Tokenizer.from_str(json.dumps(state))
    before, spelt = backend.pre_tokenizer, kind_of_state(state) == "sp-bpe"
    words: Counter[str] = Counter()
    for text in sample.normalised(backend.normalizer or normalizers.Sequence([]), "reading"):
        parts = [part for part, _ in before.pre_tokenize_str(text)] if before else [text]
        for part in parts:
            words.update(SPELT_WORD.findall(part) if spelt else [part])
    return words


def count_characters(words: Mapping[str, int]) -> Counter[str]:
    """Count each character in counted words."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return counts


def cut(tokens: Sequence[str], digits: bool, unknown: str | None = None) -> Iterator[list[str]]:
    """Cut a word where SentencePiece does: between letters, digits and other signs.

    Args:
        tokens: of one word, `▁` at its start.
        digits: whether every digit stands alone.
        unknown: the unknown token, which stands alone, as bytes do.
    """
    part: list[str] = []
    alone = {"bytes"} | ({"digits"} if digits else set())

    def kind(token: str, place: int) -> str:
        return "bytes" if token == unknown or BYTE_PIECE.fullmatch(token) else _sort(token[place])

    for token in tokens:
        if part:
            before, here = kind(part[-1], -1), kind(token, 0)
            if {before, here} & alone or (before != here and before != "start"):
                yield part
                part = []
        part.append(token)
    if part:
        yield part


def derivation(piece: str, ranks: Mapping[tuple[str, str], int]) -> list[tuple[int, str]]:
    """Return the merges on the way to a piece, commonest pair first: rank, and what it gives."""
    symbols, taken = list(piece), list[tuple[int, str]]()
    while found := [(ranks[p], i) for i, p in enumerate(pairwise(symbols)) if p in ranks]:
        rank, i = min(found)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        taken.append((rank, symbols[i]))
    return taken


def _sort(character: str) -> str:
    if character == WORD_START:
        return "start"
    kinds = {"L": "letters", "M": "letters", "N": "digits"}
    return kinds.get(unicodedata.category(character)[0], "signs")


def _learn(
    sequences: Mapping[str, int], pieces: Mapping[str, str], limit: int, fits: Callable[[str], bool]
) -> list[tuple[str, str]]:
    """Learn the next merges of words that are spelt in tokens.

    A merge that gives a piece which does not fit, or is there already (made of other parts), is
    left out, with those that need it, so that each piece has one way to come about.
    """
    if limit <= 0:
        return []
    alphabet = len(set().union(*sequences)) if sequences else 0
    size, words = limit, pre_tokenizers.WhitespaceSplit()
    while True:
        candidates = _trained(
            repeated(sequences), words, vocab_size=alphabet + size, min_frequency=MIN_FREQUENCY
        )[1]
        text, known_texts, merges = dict(pieces), set(pieces.values()), list[tuple[str, str]]()
        for left, right in candidates:
            if left not in text or right not in text:
                continue
            piece = text[left] + text[right]
            if piece not in known_texts and fits(piece):
                merges.append((text[left], text[right]))
                text[left + right] = piece
                known_texts.add(piece)
        if len(merges) >= limit or len(candidates) < size:
            return merges[:limit]
        size = 2 * size - len(merges)


def fitting(*, in_bytes: bool = False, mark: str = "") -> Callable[[str], bool]:
    """Return a test of pieces: at most `LONGEST_PIECE` letters, and no space behind one of them.

    Args:
        in_bytes: whether a character of a piece is a byte; those inside a letter do not count.
        mark: what a piece that continues a word begins with.
    """

    def fits(piece: str) -> bool:
        if in_bytes:
            piece = "".join(chr(BYTE_OF.get(character, 0)) for character in piece)
        letters = piece.removeprefix(mark).replace(WORD_START, " ").lstrip(WHITE)
        inner = sum(0x80 <= ord(byte) < 0xC0 for byte in letters) if in_bytes else 0
        return len(letters) - inner <= LONGEST_PIECE and " " not in letters

    return fits


def train_bpe(
    text: Callable[[], Iterable[str]],
    pre_tokenizer: Any,
    vocab_size: int,
    fits: Callable[[str], bool],
    **settings: Any,
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Learn the pieces of a text and their merges by `tokenizers`; leave out pieces that misfit.

    Others take their place, learnt as if they were there.

    Args:
        text: gives it anew at each call, normalised.
        pre_tokenizer: cuts it into words.
        vocab_size: pieces, at most.
        fits: says whether a piece that a merge gives is wanted.
        settings: of the library's trainer.
    """
    size, mark = vocab_size, settings.get("continuing_subword_prefix", "")
    fixed = set(settings.get("special_tokens", ()))
    while True:
        ids, merges = _trained(text(), pre_tokenizer, vocab_size=size, **settings)
        given = [left + right.removeprefix(mark) for left, right in merges]
        misfits = {piece for piece in given if not fits(piece)} - fixed
        if not misfits:
            return ids, merges
        pieces = [piece for piece in sorted(ids, key=ids.__getitem__) if piece not in misfits]
        if len(pieces) >= vocab_size or len(ids) < size:
            break
        size = 2 * size - len(pieces)
    ids = {piece: index for index, piece in enumerate(pieces[:vocab_size])}
    return ids, [merge for merge, piece in zip(merges, given, strict=True) if piece in ids]


def _trained(
    text: Iterable[str], pre_tokenizer: Any, **settings: Any
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Train the library's byte-pair encoding; see `train_bpe`."""
    prefix = settings.get("continuing_subword_prefix")
    learner = Tokenizer(models.BPE(continuing_subword_prefix=prefix) if prefix else models.BPE())
    learner.pre_tokenizer = pre_tokenizer
    learner.train_from_iterator(text, trainers.BpeTrainer(show_progress=False, **settings))
    model = json.loads(learner.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]


def repeated(words: Mapping[str, int]) -> Iterator[str]:
    """Yield lines in which each word stands as often as it was counted."""
    for word, count in words.items():
        for start in range(0, count, REPEATED):
            yield " ".join([word] * min(REPEATED, count - start))
