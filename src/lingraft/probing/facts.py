"""What can be known of a candidate source before anything is trained: the free facts.

Overlaps of counts are histogram intersections, the sum over all things of the smaller of their two
shares (Swain and Ballard 1991): 1 where both texts have everything equally often, 0 where nothing
is common. They do not depend on which of two texts is the longer one, as coverage does.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lingraft.corpus.cleaning.scripts import letters_by_script
from lingraft.corpus.cleaning.words import words
from lingraft.corpus.readers.lines import batched
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.statistics import CHUNK, statistics
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from transformers import PreTrainedTokenizerFast

MOST_CHARACTERS = 2_000_000
"""Of a text that are read: counts of more would say the same."""
RATIO_WORDS = 10_000
"""Words over which a type-token ratio is taken: it falls with the length of the text."""
GRAM = 3


@dataclass(frozen=True)
class Fact:
    """A free fact, as tables and the grid's correlations know it."""

    title: str
    higher: bool
    """A source is thought to be the better the higher it is."""
    shown_as: str
    """'share' or 'number'."""
    note: str


FACTS: dict[str, Fact] = {
    "tokens_per_word": Fact(
        "tokens/word",
        False,
        "number",
        "tokens of the candidate's tokenizer to what stands between white space in the target "
        "text (fertility); a character that it does not know counts as a token",
    ),
    "unknown_rate": Fact(
        "unknown",
        False,
        "share",
        "share of the tokens that are unknown; a run of unknown characters may be one token",
    ),
    "whole_words": Fact(
        "whole words",
        True,
        "share",
        "share of what stands between white space in the target that is one known token",
    ),
    "vocabulary_scripts": Fact(
        "scripts (pieces)",
        True,
        "share",
        "overlap of the target's letters and those of the candidate's pieces, by script",
    ),
    "scripts": Fact("scripts", True, "share", "overlap of the two texts' letters, by script"),
    "characters": Fact("characters", True, "share", "overlap of the two texts' characters"),
    "trigrams": Fact(
        "trigrams", True, "share", "overlap of the two texts' runs of three characters in words"
    ),
    "words": Fact("words", True, "share", "overlap of the two texts' words"),
    "ttr_gap": Fact(
        "TTR gap",
        False,
        "number",
        "difference of the two texts' type-token ratios over equally many of their first words, "
        f"{RATIO_WORDS:,} at most (a character is a word in scripts that put no spaces between "
        "words, such as those of Chinese, Japanese and Thai)",
    ),
}
"""By name; the last five need a text of the candidate's own."""
OF_TEXT = ("scripts", "characters", "trigrams", "words", "ttr_gap")


@dataclass(frozen=True)
class Profile:
    """What is counted in a text; its words are case folded, without punctuation."""

    scripts: Counter[str]
    """Letters by script."""
    characters: Counter[str]
    """Visible characters, case folded, in compatibility form."""
    trigrams: Counter[str]
    """Runs of three characters of words, with `_` before and behind a word."""
    words: Counter[str]
    first: tuple[str, ...]
    """The first `RATIO_WORDS` words."""

    @classmethod
    def of(cls, sentences: Iterable[str]) -> Profile:
        """Count the first `MOST_CHARACTERS` characters of a text."""
        scripts: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        counted: Counter[str] = Counter()
        first: list[str] = []
        for sentence in limited(sentences):
            scripts.update(letters_by_script(sentence))
            folded = unicodedata.normalize("NFKC", sentence).casefold()
            characters.update(letter for letter in folded if not letter.isspace())
            tokens = words(folded)
            counted.update(tokens)
            first += islice(tokens, RATIO_WORDS - len(first))
        trigrams: Counter[str] = Counter()
        for word, times in counted.items():
            for gram in grams(word):
                trigrams[gram] += times
        return cls(scripts, characters, trigrams, counted, tuple(first))

    def ratio(self, among: int = RATIO_WORDS) -> float | None:
        """Types to tokens over so many of the first words; None where there is no word.

        It falls with their number: two texts compare over equally many alone.
        """
        chosen = self.first[:among]
        return len(set(chosen)) / len(chosen) if chosen else None


def limited(sentences: Iterable[str]) -> Iterable[str]:
    """The sentences up to `MOST_CHARACTERS` characters; the first one always."""
    left = MOST_CHARACTERS
    for sentence in sentences:
        yield sentence
        left -= len(sentence)
        if left <= 0:
            return


def grams(word: str) -> list[str]:
    """The runs of `GRAM` characters of a word that has its ends marked."""
    marked = f"_{word}_"
    return [marked[at : at + GRAM] for at in range(max(1, len(marked) - GRAM + 1))]


def overlap(first: Mapping[str, int], second: Mapping[str, int]) -> float | None:
    """The histogram intersection of two counts, in [0, 1]; None where one of them is empty."""
    first_total, second_total = sum(first.values()), sum(second.values())
    if not first_total or not second_total:
        return None
    common = first.keys() & second.keys()
    return sum(min(first[key] / first_total, second[key] / second_total) for key in common)


def of_texts(target: Profile, source: Profile) -> dict[str, float | None]:
    """The facts that compare two texts: the names of `OF_TEXT`."""
    among = min(len(target.first), len(source.first))
    ours, theirs = target.ratio(among), source.ratio(among)
    gap = None if ours is None or theirs is None else abs(ours - theirs)
    return {
        "scripts": overlap(target.scripts, source.scripts),
        "characters": overlap(target.characters, source.characters),
        "trigrams": overlap(target.trigrams, source.trigrams),
        "words": overlap(target.words, source.words),
        "ttr_gap": gap,
    }


def of_tokenizer(
    tokenizer: PreTrainedTokenizerFast, sentences: Sequence[str], target: Profile
) -> dict[str, float | None]:
    """The facts that a candidate's tokenizer tells of the target text.

    Args:
        tokenizer: the candidate's.
        sentences: of the target text.
        target: its profile.

    Returns:
        `tokens_per_word`, `unknown_rate`, `whole_words` and `vocabulary_scripts`; None where there
        is nothing to divide by.

    Raises:
        UnsupportedModelError: the tokenizer is neither Unigram, byte-level BPE nor WordPiece.
    """
    values = statistics(tokenizer, sentences)
    tokens, count = values["tokens"] or 0, values["words"] or 0
    unknowns = tokens * (values["unknown_rate"] or 0.0)
    visible = sum(len(word) for sentence in sentences for word in sentence.split())
    coverage = values["character_coverage"]
    hidden = visible * (1 - coverage) if coverage is not None else 0.0
    return {
        "tokens_per_word": (tokens - unknowns + hidden) / count if count else None,
        "unknown_rate": values["unknown_rate"],
        "whole_words": whole_words(tokenizer, sentences),
        "vocabulary_scripts": overlap(target.scripts, piece_letters(tokenizer)),
    }


def whole_words(tokenizer: PreTrainedTokenizerFast, sentences: Iterable[str]) -> float | None:
    """Share of the running words (between white space) that are one token, and a known one."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    backend, unknown = plain_backend(tokenizer), tokenizer.unk_token_id
    whole = 0
    for chunk in batched(counts, CHUNK):
        # byte-level BPE spells the first word of a text without its space
        rows = backend.encode_batch_fast([f" {word}" for word in chunk], add_special_tokens=False)
        for word, row in zip(chunk, rows, strict=True):
            whole += counts[word] * (len(row.ids) == 1 and row.ids[0] != unknown)
    total = counts.total()
    return whole / total if total else None


def piece_letters(tokenizer: PreTrainedTokenizerFast) -> Counter[str]:
    """Letters of all pieces of a vocabulary by script; those that are no whole characters count 0.

    Raises:
        UnsupportedModelError: the tokenizer is neither Unigram, byte-level BPE nor WordPiece.
    """
    text = b"\n".join(form.text for form in Vocabulary.of(tokenizer).canonical if form is not None)
    return Counter(letters_by_script(text.decode("utf-8", "ignore")))
