"""Is a sentence's translation its nearest neighbour? Accuracy at every layer.

MetaXLM (Chi et al. 2021, §4.4 and figure 3): the mean over both directions and over the languages,
at every layer. XTREME (Hu et al. 2020): English sentences look for their translation, at one layer.

Shape letters: L layers and the embeddings before them, N pairs, W directions.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lingraft.crosslingual import layers
from lingraft.crosslingual.by_layer import write_report
from lingraft.errors import DataError
from lingraft.evaluation.records import blocks
from lingraft.report.row import Score, Value
from lingraft.rundir import FORMAT, Step, fingerprint
from lingraft.tasks.sentences import translations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.layers import Model
    from lingraft.crosslingual.settings import Pool, Searching
    from lingraft.report.table import Table
    from lingraft.tasks.sentences import Bitext

    Array = np.ndarray[Any, Any]
    Found = Mapping[str, Array]
    "[W, L, N] By language: whether the nearest of each query is its translation."

logger = logging.getLogger(__name__)

WAYS = ("en→xx", "xx→en")
"""English sentences look for translations, and the other way round."""
SORTED_LEAST = 20
"""Lines from which alphabetical order is no accident."""
CHOSEN = {
    "dev": "chosen on the dev pairs alone",
    "test": "the best on the test pairs themselves (an oracle)",
    "given": "given",
    "xtreme": "XTREME's",
}
"""Ways in which a model's layer was chosen, in words."""


class Pairs(NamedTuple):
    """Translations in one language."""

    language: str
    english: tuple[str, ...]
    other: tuple[str, ...]

    def lines(self) -> set[tuple[str, str]]:
        """Return the sentences with their translations."""
        return set(zip(self.english, self.other, strict=True))

    @classmethod
    def of(cls, language: str, bitext: Bitext) -> Pairs:
        """Return those of a benchmark whose sides are aligned, the second in English."""
        return cls(language, tuple(bitext.target.values()), tuple(bitext.source.values()))

    @classmethod
    def read(cls, language: str, path: Path) -> Pairs:
        """Read a table of two columns, English first."""
        english, other, _ = zip(*translations([path]), strict=True)
        return cls(language, english, other)


def nearest(encoder: Encoder, pairs: Pairs, pool: Pool) -> Array:
    """[W, L, N] Encode both sides and return the place of each query's nearest at every layer."""
    from lingraft.crosslingual.encoder import both_ways, sentence_vectors  # torch

    english_LND = sentence_vectors(encoder, pairs.english, pool)
    other_LND = sentence_vectors(encoder, pairs.other, pool)
    places_LWN = [
        [way.places_NK[:, 0] for way in both_ways(x_ND, y_ND)]
        for x_ND, y_ND in zip(english_LND, other_LND, strict=True)
    ]
    return np.array(places_LWN, dtype=np.int32).swapaxes(0, 1)


def _found(model: Model, split: str, sets: Sequence[Pairs], out: Path, asked: Searching) -> Found:
    """Return a model's answers in the directions that count, made where they are not kept."""
    pool, ways = asked.pool or "mean", 1 if asked.parity else len(WAYS)
    found = {}
    for pairs in sets:
        folder = out / model.label / f"{split}-{pairs.language}"
        inputs = fingerprint(FORMAT["retrieval"], model.mark, pool, pairs.english, pairs.other)
        if not Step(folder).is_done(inputs):
            layers.keep_arrays(folder, inputs, {"places": nearest(model.encoder, pairs, pool)})
        places_WLN = layers.kept_arrays(folder)["places"][:ways]
        found[pairs.language] = places_WLN == np.arange(places_WLN.shape[-1])
    return found


def best_layer(found: Found) -> int:
    """Return the layer of the highest mean over directions and languages; the lowest of equals."""
    means_L = [(100 * right_WLN.mean(axis=0)).mean(axis=1) for right_WLN in found.values()]
    return int(np.argmax(np.mean(means_L, axis=0)))


def retrieve(
    by_label: Mapping[str, str],
    test: Sequence[Pairs],
    dev: Sequence[Pairs],
    out: Path,
    asked: Searching,
    *,
    task: str | None = None,
    force: bool = False,
) -> list[Table]:
    """Look for translations with every model, and write tables, rows and the curve.

    Args:
        by_label: directory or Hub id; the first is what the others are compared with.
        test: what is reported.
        dev: of the same languages, to choose layers on; may be none.
        out: the folder.
        asked: pooling, layer, directions.
        task: the benchmark that is read, for `lingraft report`.
        force: put these results in place of another call's.

    Raises:
        LingraftError: a model cannot be loaded or has no such layer, or dev and test share pairs.
    """
    models = layers.open_models(by_label)
    given = {model.label: model.asked_layer(asked, layers.XTREME_LAYERS) for model in models}
    check(test, dev)
    splits = {"test": test, "dev": dev}
    record = {
        "models": {model.label: model.mark for model in models},
        **asked.model_dump(),
        **{name: {p.language: fingerprint(*p[1:]) for p in sets} for name, sets in splits.items()},
    }
    protocol = "xtreme" if asked.parity else "metaxlm"
    axes: dict[str, Value] = {"task": task, "pool": asked.pool or "mean", "protocol": protocol}
    rows: list[Score] = []
    notes: list[str] = []
    with layers.claimed(out, "retrieve", record, force=force):
        for model in models:
            on_test, on_dev = (_found(model, *split, out, asked) for split in splits.items())
            best = (best_layer(on_dev or on_test), "dev" if on_dev else "test")
            layer, how = given[model.label] or best
            model.unload()
            rows += _rows(on_test, axes, layer, model.label, model.facts | {"chosen_on": how})
            notes.append(f"{model.label}: its layer is {CHOSEN[how]}.")
        chance = ", ".join(f"{100 / len(p.english):.3g}" for p in test)
        notes.append(f"Guessing finds {chance} %. Intervals are of the pairs alone (bootstrap).")
        title = "Nearest neighbours: accuracy in %"
        return write_report(out, rows, "accuracy", title, notes)


def check(test: Sequence[Pairs], dev: Sequence[Pairs]) -> None:
    """Refuse dev pairs of test or of other languages; warn of XTREME's sorted release."""
    by_code = {pairs.language: pairs for pairs in dev}
    for pairs in test if dev else ():
        if pairs.language not in by_code:
            raise DataError(f"--dev: holds no pairs of '{pairs.language}'")
        own = by_code[pairs.language]
        shared = own.lines() & pairs.lines()
        if shared:
            raise DataError(
                f"--dev: {len(shared):,} pairs of '{pairs.language}' are among the test pairs, "
                "too; layers must be chosen on other pairs"
            )
    for pairs in (*test, *dev):
        if len(pairs.english) >= SORTED_LEAST and list(pairs.english) == sorted(pairs.english):
            logger.warning(
                "the English side of '%s' is in alphabetical order, as in XTREME's release, where "
                "line n does not translate line n; take LASER's files",
                pairs.language,
            )


def _rows(
    found: Found, settings: dict[str, Value], chosen: int, label: str, facts: dict[str, Value]
) -> Iterator[Score]:
    """Yield one row a number: every layer, language and direction, in per cent."""
    for language, right_WLN in found.items():
        n = right_WLN.shape[-1]
        for way, right_LN in zip(WAYS, right_WLN, strict=False):
            for layer, right_N in enumerate(right_LN):
                place: dict[str, Value] = {"language": language, "direction": way, "layer": layer}
                yield Score(
                    model=label,
                    data=f"{settings['task'] or 'pairs'}-{language}",
                    split="test",
                    metric="accuracy",
                    value=100 * int(right_N.sum()) / n,
                    n=n,
                    reported=layer == chosen,
                    axes=settings | place,
                    facts=facts,
                    blocks=tuple((t, c) for t, c in blocks(right_N.astype(float), np.ones(n))),
                )
