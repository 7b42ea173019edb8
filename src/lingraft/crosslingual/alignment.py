"""Word alignment from the hidden states of an encoder that was never told what translates what.

Both sentences are one sequence; links are found by optimal transport between their pieces (Chi et
al. 2021, "Improving pretrained cross-lingual language models via self-labeled word alignment",
section 3.1), as in the evaluation of MetaXLM (Chi et al. 2021, figure 4).

Shape letters: L layers, B sequences, T tokens, D width, M pieces of the source, N pieces of the
target.

Gold links between the words of two sentences; no torch here.

Words count from 0. A gold set has sure and possible links, and every sure link is possible too
(Och and Ney 2003, "A systematic comparison of various statistical alignment models").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lingraft.corpus.readers.lines import batched
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.tasks import reading, sentences
from lingraft.tokenizer.shards import as_text, without_special

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import torch
    from transformers import PreTrainedTokenizerBase

    from lingraft.crosslingual.encoder import Encoder


Array = np.ndarray[Any, Any]

SMALLEST = 1e-6
"""Value in place of similarities that are not positive."""
ITERATIONS = 2
CHUNK = 2_048
"""Sentence pairs whose order is put right again; so many are held at once."""


def mutual(row_scores_LMN: Array, column_scores_LMN: Array) -> Array:
    """[L, M, N] Mark the best of a row that is the best of its column, too; the first of equals."""
    best_LM = row_scores_LMN.argmax(-1)
    best_LN = column_scores_LMN.argmax(-2)
    rows_M, columns_N = np.arange(best_LM.shape[-1]), np.arange(best_LN.shape[-1])
    return (best_LM[..., :, None] == columns_N) & (best_LN[..., None, :] == rows_M[:, None])


def optimal_transport(S_LMN: Array, *, clamp: bool = True) -> Array:
    """[L, M, N] Mark links: columns and rows are scaled to sum to one, in turn.

    Where it stops after a row, the best of each row and the best of each column are compared. It is
    not symmetric: with the sides swapped it begins with the other one, and two iterations are too
    few for that not to matter.

    Args:
        S_LMN: dot products.
        clamp: put `SMALLEST` where they are not positive, as in training. The released aligner
            means to and does not: False gives its links.
    """
    pi_LMN = np.where(S_LMN <= 0, np.asarray(SMALLEST, S_LMN.dtype), S_LMN) if clamp else S_LMN
    xi_LMN = pi_LMN
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # sums of 0 without clamp
        for _ in range(ITERATIONS):
            xi_LMN = pi_LMN / pi_LMN.sum(-2, keepdims=True)
            pi_LMN = xi_LMN / xi_LMN.sum(-1, keepdims=True)
    return mutual(pi_LMN, xi_LMN)


@dataclass(frozen=True)
class AlignmentSide:
    """A sentence in pieces."""

    ids: list[int]
    words: Array
    """The word of each piece."""


class Pieces:
    """Words cut into pieces, each word by itself and as it stands after a space.

    A special token that is spelt out is text, or unknown where it is a piece of Unigram.

    Args:
        tokenizer: of the model.

    Raises:
        UnsupportedModelError: it has no token that separates two sentences.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        start = (tokenizer.cls_token_id, tokenizer.bos_token_id)
        end = (tokenizer.sep_token_id, tokenizer.eos_token_id)
        self.start = [int(token) for token in start if token is not None][:1]
        self.end = [int(token) for token in end if token is not None][:1]
        if not self.end:
            raise UnsupportedModelError(
                f"{tokenizer.name_or_path}: its tokenizer has no separator, so two sentences "
                "cannot be told apart; choose an encoder such as BERT or RoBERTa"
            )
        self.read_as = without_special(tokenizer)
        # In "a a" the second word is as words in a text are; byte-level tokenizers keep its space.
        bare, spaced, twice = self._encoded(["a", " a", "a a"])
        self.prefix = " " if twice == bare + spaced and spaced != bare else ""

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        encoded = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
        return [as_text(ids, [0] * len(ids), self.read_as).tolist() for ids in encoded["input_ids"]]

    def sides(self, sentences: Sequence[Words]) -> list[AlignmentSide]:
        """Cut sentences into pieces."""
        distinct = list({word for words in sentences for word in words})
        known = dict(zip(distinct, self._encoded([self.prefix + w for w in distinct]), strict=True))
        sides = []
        for words in sentences:
            pieces = [known[word] for word in words]
            owners = np.repeat(np.arange(len(pieces)), [len(ids) for ids in pieces])
            sides.append(AlignmentSide([piece for ids in pieces for piece in ids], owners))
        return sides


@dataclass
class Aligner:
    """Alignment of sentence pairs by the states of one encoder.

    Token types are 0 on both sides where a model has them: a type of its own would tell the sides
    apart in every state, and links compare states of one side with those of the other.

    Args:
        encoder: the model.
        layers: by number; 0 is the embeddings.
        clamp: as in `optimal_transport`.
        batch_tokens: through the model at once.

    Raises:
        UnsupportedModelError: its tokenizer cannot separate sentences.
    """

    encoder: Encoder
    layers: Sequence[int]
    clamp: bool = True
    batch_tokens: int = 4_096

    def __post_init__(self) -> None:
        self.pieces = Pieces(self.encoder.tokenizer)

    def align(
        self, pairs: Iterable[tuple[Words, Words]], advance: Callable[[int], object] = bool
    ) -> Iterator[list[Links] | None]:
        """Yield the links of each pair by layer, in the pairs' order; None of one that is too long.

        Memory is bounded by `CHUNK` pairs.

        Args:
            pairs: any number.
            advance: called with how many more pairs are through, batch by batch.
        """
        for chunk in batched(pairs, CHUNK):
            yield from self._chunk(chunk, advance)

    def _chunk(
        self, pairs: list[tuple[Words, Words]], advance: Callable[[int], object]
    ) -> list[list[Links] | None]:
        sources, targets = (self.pieces.sides(side) for side in zip(*pairs, strict=True))
        start, end = self.pieces.start, self.pieces.end
        sequences = [
            start + x.ids + end + y.ids + end for x, y in zip(sources, targets, strict=True)
        ]
        readable = [at for at, ids in enumerate(sequences) if len(ids) <= self.encoder.max_tokens]
        advance(len(pairs) - len(readable))
        links: dict[int, list[Links]] = {}
        rows = [sequences[at] for at in readable]
        for batch in self.encoder.hidden_states(rows, self.batch_tokens):
            states_LBTD = batch.states_LBTD[list(self.layers)]
            for row, place in enumerate(batch.places):
                at = readable[place]
                links[at] = self._word_links(states_LBTD[:, row], sources[at], targets[at])
            advance(len(batch.places))
        return [links.get(at) for at in range(len(pairs))]

    def _word_links(
        self, states_LTD: torch.Tensor, source: AlignmentSide, target: AlignmentSide
    ) -> list[Links]:
        m, n, first = len(source.ids), len(target.ids), len(self.pieces.start)
        if not m or not n:  # a tokenizer may take a word for no text
            return [()] * len(self.layers)
        source_LMD = states_LTD[:, first : first + m]
        target_LND = states_LTD[:, first + m + 1 : first + m + 1 + n]
        S_LMN = (source_LMD @ target_LND.transpose(-1, -2)).cpu().numpy()
        linked_LMN = optimal_transport(S_LMN, clamp=self.clamp)
        return [_by_words(linked_MN, source, target) for linked_MN in linked_LMN]


def _by_words(linked_MN: Array, source: AlignmentSide, target: AlignmentSide) -> Links:
    """Return the pairs of words of which any pieces are linked, in order."""
    width = int(target.words[-1]) + 1
    i, j = np.nonzero(linked_MN)
    codes = np.unique(source.words[i] * width + target.words[j])
    return tuple(zip((codes // width).tolist(), (codes % width).tolist(), strict=True))


Link: TypeAlias = "tuple[int, int]"
"""A word of the source and a word of the target."""
Links: TypeAlias = "tuple[Link, ...]"
Words: TypeAlias = "tuple[str, ...]"
PAIR = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")
"""Pharaoh's: `i-j` is sure, `ipj` possible."""
NO_SPACES = re.compile(r"[^ \t\n\r\f\v]+")
"""A word, as other aligners cut it; a no-break space (U+00A0) is within one."""


@dataclass(frozen=True)
class Gold:
    """Links that people made in one sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """The sure links are among them."""


@dataclass(frozen=True)
class GoldSet:
    """Sentence pairs in words, with their gold links."""

    name: str
    pairs: list[tuple[Words, Words]]
    gold: list[Gold] | None
    """None where nobody made links."""

    def plain_links(self) -> list[list[list[Link]]]:
        """Return the links in order."""
        return [[sorted(pair.sure), sorted(pair.possible)] for pair in self.gold or ()]


def read(name: str, gold: Path | None, source: Path, target: Path) -> GoldSet:
    """Read a gold set.

    Args:
        name: what tables call it.
        gold: links in Pharaoh's format, a line a sentence pair.
        source: a sentence a line.
        target: line n translates line n of the source.

    Raises:
        DataError: a file cannot be read, counts differ, a line is in another format, or a link lies
            outside its sentence.
    """
    found = sentences.translations([source, target])
    pairs = [(tuple(NO_SPACES.findall(x)), tuple(NO_SPACES.findall(y))) for x, y, _ in found]
    if gold is None:
        return GoldSet(name, pairs, None)
    lines = list(reading.lines(gold))
    if len(lines) != len(pairs):
        raise DataError(
            f"{gold} has links of {len(lines):,} sentences and {source} has {len(pairs):,} "
            "sentences; they must be as many, in one order"
        )
    all_links = []
    for number, (line, (x, y)) in enumerate(zip(lines, pairs, strict=True), 1):
        sides = [PAIR.fullmatch(word) for word in line.split()]
        links = [(m[2], (int(m[1]), int(m[3]))) for m in sides if m]
        outside = any(i >= len(x) or j >= len(y) for _, (i, j) in links)
        if outside or len(links) < len(sides):
            raise DataError(
                f"{gold}: line {number:,}: write links within its sentences of {len(x)} and "
                f"{len(y)} words, counted from 0, as in '0-0 1p2' (p: only possible)"
            )
        sure = frozenset(link for mark, link in links if mark == "-")
        all_links.append(Gold(sure, frozenset(link for _, link in links)))
    return GoldSet(name, pairs, all_links)


def pharaoh(links: Iterable[Link]) -> str:
    """Return a line of a Pharaoh file."""
    return " ".join(f"{i}-{j}" for i, j in links)


def parsed(line: str) -> Links:
    """Return the links of a line that `pharaoh` wrote."""
    return tuple((int(i), int(j)) for i, _, j in PAIR.findall(line))


def diagonal(pairs: Sequence[tuple[Words, Words]]) -> list[Links]:
    """Link words at the same share of their sentences, where that holds in both directions."""
    links = []
    for source, target in pairs:
        m, n = len(source), len(target)
        forward = [(i, (2 * i + 1) * n // (2 * m)) for i in range(m)]
        links.append(tuple((i, j) for i, j in forward if (2 * j + 1) * m // (2 * n) == i))
    return links
