"""Is a sentence's translation its nearest neighbour? Accuracy at every layer.

MetaXLM (Chi et al. 2021, §4.4 and figure 3): the mean over both directions and over the languages,
at every layer. XTREME (Hu et al. 2020): English sentences look for their translation, at one layer.

Shape letters: L layers and the embeddings before them, N pairs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.crosslingual.layers import check_distinct, keep_arrays, kept_arrays
from lingraft.rundir import FORMAT, fingerprint
from lingraft.tasks.retrieval import accuracy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.layers import Pool
    from lingraft.crosslingual.pairs import Pairs

    Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)

Way = Literal["en→xx", "xx→en"]
WAYS: tuple[Way, ...] = ("en→xx", "xx→en")
"""English sentences look for translations, and the other way round."""
Split = Literal["test", "dev"]


@dataclass(frozen=True)
class Answers:
    """What was found for the pairs of one language: places count from 0."""

    language: str
    places: Mapping[Way, Array]
    """[L, N] Where the nearest of each query stands; it should be the query's own number."""
    scores: Mapping[Way, Array]
    """[L, N] Its cosine."""

    @classmethod
    def of(cls, language: str, arrays: Mapping[str, Array]) -> Answers:
        """Out of the arrays of `nearest`."""
        by_way = (dict(zip(WAYS, arrays[name], strict=True)) for name in ("places", "scores"))
        return cls(language, *by_way)

    def __len__(self) -> int:
        return int(self.places[WAYS[0]].shape[1])

    def accuracies(self, way: Way) -> Array:
        """[L] Percent."""
        own = range(len(self))
        return np.array([accuracy(own, places_N.tolist()) for places_N in self.places[way]])

    def gains(self, ways: Sequence[Way]) -> Array:
        """[L, N] Share of the ways in which each pair was found, in percent."""
        own_N = np.arange(len(self))
        return 100 * np.mean([self.places[way] == own_N for way in ways], axis=0)

    def curve(self, ways: Sequence[Way]) -> Array:
        """[L] Accuracy in percent, the mean over the ways."""
        return self.gains(ways).mean(axis=1)


@dataclass(frozen=True)
class Found:
    """One model's answers."""

    label: str
    name: str
    """Directory or Hub id."""
    fingerprint: str
    """Of weights and tokenizer."""
    test: Mapping[str, Answers]
    """By language."""
    dev: Mapping[str, Answers]
    """Empty where there are none."""

    @property
    def num_layers(self) -> int:
        """Without the embeddings."""
        answers = next(iter(self.test.values()))
        return len(answers.places[WAYS[0]]) - 1

    def curve(self, ways: Sequence[Way], split: Split = "test") -> Array:
        """[L] Accuracy in percent, the mean over the ways and over the languages."""
        answers = (self.test if split == "test" else self.dev).values()
        return np.mean([answer.curve(ways) for answer in answers], axis=0)

    def best(self, ways: Sequence[Way], split: Split) -> int:
        """The layer of the highest accuracy; the lowest of equals."""
        return int(np.argmax(self.curve(ways, split)))


def nearest(encoder: Encoder, pairs: Pairs, pool: Pool) -> dict[str, Array]:
    """Encode both sides and search at every layer: places and scores [2, L, N], by way."""
    from lingraft.crosslingual.encoder import sentence_vectors  # torch
    from lingraft.crosslingual.search import both_ways

    english_LND = sentence_vectors(encoder, pairs.english, pool)
    other_LND = sentence_vectors(encoder, pairs.other, pool)
    layers = [both_ways(x_ND, y_ND) for x_ND, y_ND in zip(english_LND, other_LND, strict=True)]
    ways = list(zip(*layers, strict=True))
    places = [[neighbours.places_NK[:, 0].astype(np.int32) for neighbours in way] for way in ways]
    scores = [[neighbours.scores_NK[:, 0] for neighbours in way] for way in ways]
    return {"places": np.array(places), "scores": np.array(scores)}


def find(
    models: Mapping[str, str],
    test: Sequence[Pairs],
    dev: Sequence[Pairs],
    out: Path,
    pool: Pool = "mean",
) -> list[Found]:
    """Every model's answers on all pairs; those that are saved are read.

    Args:
        models: directory or Hub id by label.
        test: what is reported.
        dev: what layers are chosen on; may be none.
        out: where answers are saved.
        pool: how tokens become a sentence.

    Raises:
        LingraftError: a model cannot be loaded, or two are the same.
    """
    marks = check_distinct(models)
    splits: dict[Split, Sequence[Pairs]] = {"test": test, "dev": dev}
    result = []
    for label, name in models.items():
        encoder: Encoder | None = None
        by_split: dict[Split, dict[str, Answers]] = {"test": {}, "dev": {}}
        for split, sets in splits.items():
            for pairs in sets:
                path = out / label / f"{split}-{pairs.language}"
                inputs = fingerprint(
                    FORMAT["retrieval"], marks[label], pool, pairs.english, pairs.other
                )
                arrays = kept_arrays(path, inputs)
                if fresh := arrays is None:
                    if encoder is None:
                        from lingraft.crosslingual.encoder import Encoder  # torch

                        encoder = Encoder.load(name)
                    arrays = nearest(encoder, pairs, pool)
                    keep_arrays(path, inputs, arrays)
                answers = by_split[split][pairs.language] = Answers.of(pairs.language, arrays)
                if fresh:
                    logger.info(
                        "%s, %s (%s): at best %.1f %%, the mean of both directions",
                        *(label, pairs.language, split),
                        answers.curve(WAYS).max(),
                    )
        result.append(Found(label, name, marks[label], by_split["test"], by_split["dev"]))
    return result
