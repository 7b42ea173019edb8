"""Alignments that need no model: what a model has to beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.embeddings import translation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.crosslingual.bitext import SentencePair
    from lingraft.crosslingual.links import Links
    from lingraft.embeddings.translation import Translations

Array = np.ndarray[Any, Any]

NOTHING = 0
"""The id of the word that the others may come from when none fits."""


def diagonal(pairs: Sequence[SentencePair]) -> list[Links]:
    """Link words at the same share of their sentences, where that holds in both directions."""
    links = []
    for pair in pairs:
        m, n = len(pair.source), len(pair.target)
        forward = [(i, (2 * i + 1) * n // (2 * m)) for i in range(m)]
        links.append(tuple((i, j) for i, j in forward if (2 * j + 1) * m // (2 * n) == i))
    return links


def word_translation(pairs: Sequence[SentencePair]) -> list[Links]:
    """Link by IBM model 1, learnt from these sentence pairs alone; both directions must agree.

    Words are compared without case. Each word takes its likeliest translation in the sentence
    (the first of equals), or none.

    Source: Brown et al. 1993, "The mathematics of statistical machine translation", model 1.
    """
    sources = _numbered([pair.source for pair in pairs])
    targets = _numbered([pair.target for pair in pairs])
    forward = _best(translation.learn(list(zip(targets, sources, strict=True)), nothing=NOTHING))
    backward = _best(translation.learn(list(zip(sources, targets, strict=True)), nothing=NOTHING))
    links = []
    for source, target in zip(sources, targets, strict=True):
        places = forward(target, source)
        back = backward(source, target)
        links.append(tuple((i, j) for i, j in enumerate(places) if j >= 0 and back[j] == i))
    return links


def _numbered(sentences: Sequence[Sequence[str]]) -> list[Array]:
    ids: dict[str, int] = {}
    return [
        np.array(
            [ids.setdefault(word.casefold(), len(ids) + 1) for word in words], dtype=np.int32
        )
        for words in sentences
    ]  # fmt: skip


def _best(learnt: Translations) -> Callable[..., list[int]]:
    """For each word of a sentence the place of the word that it comes from, -1 for nothing."""
    width = 1 + int(learnt.source_ids.max())
    keys = learnt.target_ids * width + learnt.source_ids

    def best_places(causes: Array, words: Array) -> list[int]:
        cause_ids = np.append(causes.astype(np.int64), NOTHING)
        pair_keys = cause_ids[None, :] * width + words[:, None]
        scores = learnt.probabilities[np.searchsorted(keys, pair_keys)]
        places = scores.argmax(1)
        return [int(place) if place < len(causes) else -1 for place in places]

    return best_places


BASELINES: dict[str, tuple[Callable[[Sequence[SentencePair]], list[Links]], str]] = {
    "diagonal": (diagonal, "words at the same share of their sentences"),
    "ibm1": (
        word_translation,
        "IBM model 1 in both directions, intersected, learnt from each set's own sentences alone",
    ),
}
"""By name: the function, and what tables say of it."""
