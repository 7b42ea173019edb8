"""Is a sentence's translation its nearest neighbour? Accuracy at every layer (SPEC C.4).

MetaXLM (Chi et al. 2021, §4.4 and figure 3): the mean over both directions and over the languages,
at every layer. XTREME (Hu et al. 2020): English sentences look for their translation, at one layer.

Shape letters: L layers and the embeddings before them, N pairs.
"""

from __future__ import annotations

import logging
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.errors import RecipeError
from lingraft.pretrained.checkpoints import folder_of
from lingraft.rundir import checkpoint_digests, fingerprint, writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.pairs import Pairs
    from lingraft.crosslingual.pooling import Pool

    Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)

Way = Literal["en→xx", "xx→en"]
WAYS: tuple[Way, ...] = ("en→xx", "xx→en")
"""English sentences look for translations, and the other way round."""
Split = Literal["test", "dev"]
FORMAT = 1
"""Of the saved answers; raise it when equal inputs give others."""
XTREME_LAYERS = {12: 8, 24: 14}
"""By depth: hidden state that XTREME's script takes (SPEC C.4; for XLM-R base our reading)."""


@dataclass(frozen=True)
class Answers:
    """What was found for the pairs of one language: places count from 0."""

    language: str
    places: Mapping[Way, Array]
    """[L, N] Where the nearest of each query stands; it should be the query's own number."""
    scores: Mapping[Way, Array]
    """[L, N] Its cosine."""

    def correct(self, way: Way) -> Array:
        """[L, N] Whether the translation was found."""
        places_LN = self.places[way]
        right_LN: Array = places_LN == np.arange(places_LN.shape[1])
        return right_LN

    def accuracies(self, way: Way) -> Array:
        """[L] Percent."""
        accuracy_L: Array = 100 * self.correct(way).mean(axis=1)
        return accuracy_L

    def gains(self, ways: Sequence[Way]) -> Array:
        """[L, N] Share of the ways in which each pair was found, in percent."""
        gains_LN: Array = 100 * np.mean([self.correct(way) for way in ways], axis=0)
        return gains_LN


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
        curve_L: Array = np.mean([one.gains(ways).mean(axis=1) for one in answers], axis=0)
        return curve_L

    def best(self, ways: Sequence[Way], split: Split) -> int:
        """The layer of the highest accuracy; the lowest of equals."""
        return int(np.argmax(self.curve(ways, split)))


def fingerprint_of(name: str) -> str:
    """Of a checkpoint's weights and tokenizer: those in a directory, or a commit on the Hub.

    Raises:
        LingraftError: there is no such checkpoint.
    """
    folder = folder_of(name)
    if folder is not None:
        return fingerprint(checkpoint_digests(folder))
    from lingraft.pretrained.load import load_config  # torch

    return fingerprint(name, load_config(name)._commit_hash)


def check_distinct(models: Mapping[str, str]) -> dict[str, str]:
    """The fingerprint of each model by its label.

    Raises:
        RecipeError: two are the same.
    """
    found: dict[str, str] = {}
    for label, name in models.items():
        mark = fingerprint_of(name)
        for other, seen in found.items():
            if seen == mark:
                raise RecipeError(
                    f"models: {models[other]} and {name} are the same (weights and tokenizer are "
                    "equal); give each model once"
                )
        found[label] = mark
    return found


def check_layer(layer: int, depth: int, name: str) -> int:
    """The layer, if a model of this depth has it.

    Raises:
        RecipeError: it does not.
    """
    if not 0 <= layer <= depth:
        raise RecipeError(
            f"--layer {layer}: {name} has layers 0 (its embeddings) to {depth}; choose one of them"
        )
    return layer


def xtreme_layer(depth: int, name: str) -> int:
    """The hidden state that XTREME takes of a model of this depth.

    Raises:
        RecipeError: XTREME has no such model.
    """
    if depth not in XTREME_LAYERS:
        raise RecipeError(
            f"--parity xtreme: XTREME has a layer for models of 12 and of 24 layers only; {name} "
            f"has {depth}: add --layer N"
        )
    return XTREME_LAYERS[depth]


def answers_of(encoder: Encoder, pairs: Pairs, pool: Pool) -> Answers:
    """Encode both sides and search, at every layer."""
    from lingraft.crosslingual.pooling import sentence_vectors  # torch
    from lingraft.crosslingual.search import both_ways

    english_LND = sentence_vectors(encoder, pairs.english, pool)
    other_LND = sentence_vectors(encoder, pairs.other, pool)
    found = [both_ways(x_ND, y_ND) for x_ND, y_ND in zip(english_LND, other_LND, strict=True)]
    by_way = dict(zip(WAYS, zip(*found, strict=True), strict=True))
    return Answers(
        pairs.language,
        {way: np.stack([one.places_NK[:, 0] for one in of]) for way, of in by_way.items()},
        {way: np.stack([one.scores_NK[:, 0] for one in of]) for way, of in by_way.items()},
    )


class Saved:
    """The answers of one model on disk: `OUT/LABEL/SPLIT-LANGUAGE.npz`; what is there is kept."""

    def __init__(self, folder: Path, label: str, mark: str, pool: Pool) -> None:
        self.folder, self.mark, self.pool = folder / label, mark, pool

    def _inputs(self, pairs: Pairs) -> str:
        return fingerprint(FORMAT, self.mark, self.pool, pairs.english, pairs.other)

    def _path(self, pairs: Pairs, split: Split) -> Path:
        return self.folder / f"{split}-{pairs.language}.npz"

    def load(self, pairs: Pairs, split: Split) -> Answers | None:
        """The answers, if they were made from the same inputs."""
        path = self._path(pairs, split)
        try:
            with np.load(path) as file:
                if str(file["inputs"]) != self._inputs(pairs):
                    return None
                places, scores = file["places"], file["scores"]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None
        by_way = dict(zip(WAYS, zip(places, scores, strict=True), strict=True))
        return Answers(
            pairs.language,
            {way: of[0] for way, of in by_way.items()},
            {way: of[1] for way, of in by_way.items()},
        )

    def save(self, answers: Answers, pairs: Pairs, split: Split) -> None:
        """Write the answers; the file appears when it is complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(pairs, split)
        partial = path.with_name(f".{path.name}.partial.npz")
        try:
            with writing(path):
                np.savez_compressed(
                    partial,
                    inputs=self._inputs(pairs),
                    places=np.stack([answers.places[way].astype(np.int32) for way in WAYS]),
                    scores=np.stack([answers.scores[way] for way in WAYS]),
                )
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


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
        saved = Saved(out, label, marks[label], pool)
        encoder: Encoder | None = None
        by_split: dict[Split, dict[str, Answers]] = {"test": {}, "dev": {}}
        for split, sets in splits.items():
            for pairs in sets:
                answers = saved.load(pairs, split)
                if answers is None:
                    if encoder is None:
                        from lingraft.crosslingual.encoder import Encoder  # torch

                        encoder = Encoder.load(name)
                    answers = answers_of(encoder, pairs, pool)
                    saved.save(answers, pairs, split)
                    logger.info(
                        "%s, %s (%s): at best %.1f %%, the mean of both directions",
                        *(label, pairs.language, split),
                        answers.gains(WAYS).mean(axis=1).max(),
                    )
                by_split[split][pairs.language] = answers
        result.append(Found(label, name, marks[label], by_split["test"], by_split["dev"]))
    return result
