"""Models against gold sets of links: error rates at every layer (Och and Ney 2003, equation 29).

Shape letters: B sentences, R resamples.
"""

from __future__ import annotations

import functools
import logging
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft import errors, files, log
from lingraft.crosslingual import alignment, layers
from lingraft.crosslingual.by_layer import WHOLE, write_report
from lingraft.errors import RecipeError
from lingraft.evaluation.records import by_place
from lingraft.report.row import Score, Value
from lingraft.report.scored import jackknife
from lingraft.rundir import FORMAT, Step, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.alignment import Gold, GoldSet, Link, Links
    from lingraft.crosslingual.layers import Model
    from lingraft.crosslingual.settings import Linking
    from lingraft.report.table import Table

    Array = np.ndarray[Any, Any]
    Found = dict[tuple[str, int | None], dict[str, Array]]
    "[B, 4] By model and layer, and by set: `COUNTED` of each sentence."

logger = logging.getLogger(__name__)

COUNTED = ("predicted", "sure", "found_sure", "found_possible")
"""Numbers of links in a sentence; the last two are predicted ones."""
DIAGONAL = "diagonal"
"""The baseline: words at the same share of their sentences."""
METHOD = {True: "optimal transport", False: "optimal transport without clamp"}
ORACLE = "the scored sentences"
CHOSEN = {
    "given": "given",
    "dev": "the smallest mean on the first sentences of every set, which are not scored",
    ORACLE: "the smallest mean on the very sentences that are scored (an oracle)",
}
"""Ways in which a model's layer was chosen, in words."""


def counts(predicted: Sequence[Iterable[Link]], gold: Sequence[Gold]) -> Array:
    """[B, 4] Count the links of each sentence."""
    rows = []
    for found, right in zip(map(frozenset, predicted), gold, strict=True):
        hits = (len(found & right.sure), len(found & right.possible))
        rows.append((len(found), len(right.sure), *hits))
    return np.array(rows, dtype=np.float64)


def error_rates(counts_B4: Array, draws_RB: Array) -> Array:
    """[R] Return AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) in per cent, 0 without any links.

    Args:
        counts_B4: of the sentences.
        draws_RB: how often each resample draws each sentence.
    """
    hits_R = draws_RB @ (counts_B4[:, 2] + counts_B4[:, 3])
    all_R = draws_RB @ (counts_B4[:, 0] + counts_B4[:, 1])
    return np.asarray(100 * np.where(all_R > 0, 1 - hits_R / np.maximum(all_R, 1), 0.0))


def scores(counts_B4: Array) -> dict[str, float]:
    """Return error rate, precision and recall in per cent; the last two where they are defined."""
    predicted, sure, found_sure, found_possible = counts_B4.sum(0).tolist()
    found = {"aer": float(error_rates(counts_B4, np.ones((1, len(counts_B4))))[0])}
    if predicted:
        found["precision"] = 100 * (found_possible / predicted)
    if sure:
        found["recall"] = 100 * (found_sure / sure)
    return found


def score(
    by_label: Mapping[str, str],
    sets: Sequence[GoldSet],
    out: Path,
    asked: Linking,
    *,
    force: bool = False,
) -> list[Table]:
    """Align every set by every model, and write links and, with gold links, what they are worth.

    Links that are there from the same model, sentences and settings are kept. `out` then holds
    `links/MODEL/SET/layer-NN.txt` (Pharaoh), results.jsonl, table.md and curve.svg.

    Args:
        by_label: directory or Hub id of each model.
        sets: all with gold links, or one without.
        out: the folder of the results.
        asked: layers, and what chooses one.
        force: put these results in place of another call's.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    _check(by_label, sets, asked)
    models = layers.open_models(by_label)
    for model in models:
        for layer in asked.layers or ():
            layers.check_layer(layer, model.depth, model.name)
    record = {
        "models": {model.label: model.mark for model in models},
        "sets": {gold.name: fingerprint(gold.pairs, gold.plain_links()) for gold in sets},
        **asked.model_dump(exclude={"batch_tokens"}),
    }
    with layers.claimed(out, "align", record, force=force):
        found: Found = {}
        for model in models:
            for gold in sets:
                step = _linked(model, gold, out, asked)
                for layer in _layers(model, asked) if gold.gold else ():
                    of_layer = found.setdefault((model.label, layer), {})
                    predicted = _read_links(step.path / _file(layer), len(gold.pairs))
                    of_layer[gold.name] = counts(predicted, gold.gold or ())
            model.unload()
        if not found:
            return []
        found[DIAGONAL, None] = {
            gold.name: counts(alignment.diagonal(gold.pairs), gold.gold or ()) for gold in sets
        }
        rows = list(rows_of(found, asked))
        choice = CHOSEN[str(rows[0].facts["chosen_on"])]
        notes = [
            f"Links by {METHOD[asked.clamp]}. Layers: {choice}.",
            f"{DIAGONAL}: links of words at the same share of their sentences.",
        ]
        title = "Alignment error rate in %, lower is better"
        return write_report(out, rows, "aer", title, notes, lower=True)


def _check(by_label: Mapping[str, str], sets: Sequence[GoldSet], asked: Linking) -> None:
    names = [WHOLE, *(gold.name for gold in sets)]
    if DIAGONAL in by_label or len(set(names)) < len(names):
        raise RecipeError(
            f"names {', '.join((DIAGONAL, *by_label, *names))}: one would stand for two; choose "
            "another by --label, or --gold NAME=FILE"
        )
    for gold in sets:
        if asked.dev >= len(gold.pairs):
            raise RecipeError(f"dev={asked.dev}: {gold.name} has {len(gold.pairs)} sentences")


def _layers(model: Model, asked: Linking) -> Sequence[int]:
    return sorted(set(asked.layers)) if asked.layers else range(model.depth + 1)


def _file(layer: int) -> str:
    return f"layer-{layer:02d}.txt"


def _linked(model: Model, gold: GoldSet, out: Path, asked: Linking) -> Step:
    """Return the step that holds a set's links, made where they are not kept."""
    from lingraft.crosslingual.alignment import Aligner  # torch

    step, wanted = Step(out / "links" / model.label / gold.name), _layers(model, asked)
    made_of = fingerprint(FORMAT["alignment"], model.mark, asked.clamp, list(wanted), gold.pairs)
    title, total = f"align {gold.name} by {model.label}", len(gold.pairs)
    if not step.is_done(made_of):
        encoder, lines = model.encoder, [list[str]() for _ in wanted]
        aligner = Aligner(encoder, wanted, clamp=asked.clamp, batch_tokens=asked.batch_tokens)
        with step.building(made_of) as (folder, facts), log.progress(title, total, "pairs") as bar:
            facts["too_long"] = 0
            for aligned in aligner.align(gold.pairs, bar.advance):
                facts["too_long"] += aligned is None
                for own, of_layer in zip(lines, aligned or [()] * len(lines), strict=True):
                    own.append(alignment.pharaoh(of_layer) + "\n")
            for layer, own in zip(wanted, lines, strict=True):
                files.write_text(folder / _file(layer), "".join(own))
    if too_long := step.result()["too_long"]:
        logger.warning(
            "%s: %d of %d sentence pairs have more tokens than the model reads; they have no "
            "links, and their gold links count as missed",
            *(title, too_long, total),
        )
    return step


def _read_links(path: Path, number: int) -> list[Links]:
    with errors.reading(path, f"delete {path.parent} and align again"):
        lines = path.read_text(encoding="ascii").split("\n")[:-1]
        if len(lines) != number:
            raise ValueError(f"{len(lines)} lines for {number} sentence pairs")
        return [alignment.parsed(line) for line in lines]


def rows_of(found: Found, asked: Linking) -> Iterator[Score]:
    """Yield error rate, precision and recall of every layer and set, in per cent."""
    is_given = len({layer for _, layer in found if layer is not None}) == 1
    chosen_on = "given" if is_given else "dev" if asked.dev else ORACLE
    best = chosen(found, asked.dev)
    for (label, layer), of_sets in found.items():
        axes: dict[str, Value] = {"layer": layer, "method": METHOD[asked.clamp]}
        for name, every_B4 in of_sets.items():
            counts_B4 = every_B4[asked.dev :]
            values, n = scores(counts_B4), len(counts_B4)
            totals = dict(zip(COUNTED, map(int, counts_B4.sum(0)), strict=True))
            rates = {"aer": functools.partial(error_rates, counts_B4)}
            blocks = jackknife(by_place(n).tolist(), rates, values)
            for metric, value in values.items():
                yield Score(
                    model=label,
                    data=name,
                    split="test",
                    metric=metric,
                    value=value,
                    n=n,
                    reported=(label, layer) in best,
                    axes={} if layer is None else axes,
                    facts={"chosen_on": chosen_on, **totals},
                    blocks=blocks.get(metric),
                )


def chosen(found: Found, dev: int) -> set[tuple[str, int | None]]:
    """Return of each model the layer with the smallest mean rate, on dev where there is one."""

    def rate(place: tuple[str, int | None]) -> tuple[float, int]:
        parts = (counts_B4[: dev or None] for counts_B4 in found[place].values())
        return fmean(scores(part)["aer"] for part in parts), place[1] or 0

    labels = {label for label, _ in found}
    return {min((place for place in found if place[0] == label), key=rate) for label in labels}
