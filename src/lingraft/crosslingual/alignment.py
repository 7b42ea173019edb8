"""Word alignment from the hidden states of an encoder that was never told what translates what.

Shape letters: L layers, B sequences, T tokens, D width, M pieces of the source, N pieces of the
target.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.nn.functional import normalize

from lingraft.corpus.readers.lines import batched
from lingraft.crosslingual.layers import check_layer
from lingraft.crosslingual.matching import METHODS, RELEASED
from lingraft.errors import UnsupportedModelError
from lingraft.models.padding import batches_by_length
from lingraft.tokenizer.spelled import as_text, without_special

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import torch
    from transformers import PreTrainedTokenizerBase

    from lingraft.crosslingual.bitext import SentencePair
    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.links import Links
    from lingraft.crosslingual.matching import Method

Array = np.ndarray[Any, Any]

CHUNK = 2_048
"""Sentence pairs whose order is put right again; so many are held at once."""
BATCH_TOKENS = 4_096
WORDS_KEPT = 500_000
"""Words whose pieces are remembered."""


@dataclass(frozen=True)
class Settings:
    """How words are aligned."""

    method: str = "ot"
    """A key of `matching.METHODS`."""
    clamp: bool = True
    """False gives the links of the released aligner; only for `ot`."""
    layers: tuple[int, ...] | None = None
    """Which; 0 is the embeddings. None takes all."""
    batch_tokens: int = BATCH_TOKENS

    def identity(self) -> dict[str, Any]:
        """Those that links depend on."""
        return {name: value for name, value in asdict(self).items() if name != "batch_tokens"}

    @property
    def chosen(self) -> Method:
        return METHODS[self.method] if self.clamp else RELEASED

    def layers_of(self, encoder: Encoder) -> tuple[int, ...]:
        """The layers by their numbers.

        Raises:
            RecipeError: the model has no such layer.
        """
        last = encoder.num_layers
        layers = range(last + 1) if self.layers is None else self.layers
        return tuple(check_layer(layer, last, encoder.name) for layer in layers)


@dataclass(frozen=True)
class Aligned:
    """What came out for one sentence pair."""

    links: tuple[Links, ...]
    """By layer; sorted."""
    too_long: bool
    """More tokens than the model reads, so there are no links."""
    tokens: int
    """With special tokens, of one sequence or both."""
    unknown: int
    """Tokens that are the unknown one."""


@dataclass(frozen=True)
class Side:
    """A sentence in pieces."""

    ids: list[int]
    words: Array
    """The word of each piece."""


class Pieces:
    """Cuts words into pieces, each word by itself and as it stands after a space.

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
                f"{tokenizer.name_or_path}: its tokenizer has no separator and no end of a text, "
                "so two sentences cannot be told apart; choose an encoder such as BERT or RoBERTa"
            )
        self.read_as = without_special(tokenizer)
        # In "a a" the second word is as words in a text are; byte-level tokenizers keep its space.
        bare, spaced, twice = self._encoded(["a", " a", "a a"])
        self.prefix = " " if twice == bare + spaced and spaced != bare else ""
        self.known: dict[str, list[int]] = {}

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        encoded = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
        return [as_text(ids, [0] * len(ids), self.read_as).tolist() for ids in encoded["input_ids"]]

    def sides(self, pairs: Sequence[SentencePair]) -> list[tuple[Side, Side]]:
        """Both sentences of each pair in pieces."""
        if len(self.known) > WORDS_KEPT:
            self.known.clear()
        words = (word for pair in pairs for word in (*pair.source, *pair.target))
        fresh = [word for word in dict.fromkeys(words) if word not in self.known]
        if fresh:
            encoded = self._encoded([self.prefix + word for word in fresh])
            self.known.update(zip(fresh, encoded, strict=True))
        return [(self._side(pair.source), self._side(pair.target)) for pair in pairs]

    def _side(self, words: Sequence[str]) -> Side:
        pieces = [self.known[word] for word in words]
        owners = np.repeat(np.arange(len(pieces)), [len(ids) for ids in pieces])
        return Side([piece for ids in pieces for piece in ids], owners)


class Aligner:
    """Aligns sentence pairs by the states of one encoder.

    Token types are 0 on both sides where a model has them: a type of its own would tell the sides
    apart in every state, and links compare states of one side with those of the other.

    Args:
        encoder: the model.
        settings: how.

    Raises:
        RecipeError: the model has no such layer.
        UnsupportedModelError: its tokenizer cannot separate sentences.
    """

    def __init__(self, encoder: Encoder, settings: Settings) -> None:
        self.encoder, self.settings = encoder, settings
        self.layers = settings.layers_of(encoder)
        self.pieces = Pieces(encoder.tokenizer)

    def align(
        self, pairs: Iterable[SentencePair], tell: Callable[[int], None] | None = None
    ) -> Iterator[Aligned]:
        """The links of each pair in the pairs' order; memory is bounded by `CHUNK` pairs.

        Args:
            pairs: any number.
            tell: called with how many more pairs are through, batch by batch.
        """
        for chunk in batched(pairs, CHUNK):
            yield from self._chunk(chunk, tell or (lambda _: None))

    def _chunk(self, pairs: list[SentencePair], tell: Callable[[int], None]) -> list[Aligned]:
        sides = self.pieces.sides(pairs)
        sequences = [self._sequences(*pair) for pair in sides]
        links_by_pair: dict[int, tuple[Links, ...]] = {}
        lengths = [max(map(len, own)) for own in sequences]
        readable = [at for at, length in enumerate(lengths) if length <= self.encoder.max_tokens]
        tell(len(pairs) - len(readable))
        readable_lengths = [lengths[at] for at in readable]
        for batch in batches_by_length(readable_lengths, self.settings.batch_tokens):
            group = [readable[place] for place in batch]
            of_group = [sequences[at] for at in group]
            for place, links in self._links(of_group, [sides[at] for at in group]):
                links_by_pair[group[place]] = links
            tell(len(group))
        none = ((),) * len(self.layers)
        unknown = self.pieces.tokenizer.unk_token_id
        return [
            Aligned(
                links_by_pair.get(at, none),
                at not in links_by_pair,
                sum(map(len, sequences[at])),
                sum(ids.count(unknown) for ids in sequences[at]) if unknown is not None else 0,
            )
            for at in range(len(pairs))
        ]

    def _sequences(self, source: Side, target: Side) -> list[list[int]]:
        start, end = self.pieces.start, self.pieces.end
        if self.settings.chosen.joint:
            return [start + source.ids + end + target.ids + end]
        return [start + side.ids + end for side in (source, target)]

    def _links(
        self, sequences: list[list[list[int]]], sides: list[tuple[Side, Side]]
    ) -> Iterator[tuple[int, tuple[Links, ...]]]:
        """Each pair's place in its group, and its links by layer."""
        of_sides = [self._states([own[0] for own in sequences])]
        joint = self.settings.chosen.joint
        if not joint:
            of_sides.append(self._states([own[1] for own in sequences]))
        first = len(self.pieces.start)
        for place, (source, target) in enumerate(sides):
            m, n = len(source.ids), len(target.ids)
            begin = first + m + len(self.pieces.end) if joint else first
            source_LMD = of_sides[0][place][:, first : first + m]
            target_LND = of_sides[-1][place][:, begin : begin + n]
            yield place, self._word_links(source_LMD, target_LND, source, target)

    def _states(self, sequences: list[list[int]]) -> dict[int, torch.Tensor]:
        """The states [L, T, D] of each sequence, in the layers that are wanted."""
        states = {}
        layers = list(self.layers)
        for batch in self.encoder.hidden_states(sequences, self.settings.batch_tokens):
            states_LBTD = batch.states_LBTD
            if len(layers) < len(states_LBTD):
                states_LBTD = states_LBTD[layers]
            states.update({place: states_LBTD[:, row] for row, place in enumerate(batch.places)})
        return states

    def _word_links(
        self, source_LMD: torch.Tensor, target_LND: torch.Tensor, source: Side, target: Side
    ) -> tuple[Links, ...]:
        if not (source.ids and target.ids):  # a tokenizer may take a word for no text
            return ((),) * len(self.layers)
        method = self.settings.chosen
        if method.cosine:
            source_LMD, target_LND = normalize(source_LMD, dim=-1), normalize(target_LND, dim=-1)
        S_LMN = (source_LMD @ target_LND.transpose(-1, -2)).cpu().numpy()
        if method.cosine:
            S_LMN = (S_LMN + 1) / 2
        return tuple(_by_words(linked_MN, source, target) for linked_MN in method.links(S_LMN))


def _by_words(linked_MN: Array, source: Side, target: Side) -> Links:
    """The pairs of words of which any pieces are linked, in order."""
    width = int(target.words[-1]) + 1
    i, j = np.nonzero(linked_MN)
    codes = np.unique(source.words[i] * width + target.words[j])
    return tuple(zip((codes // width).tolist(), (codes % width).tolist(), strict=True))
