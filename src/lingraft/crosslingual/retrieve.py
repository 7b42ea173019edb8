"""`lingraft analyze retrieval`: find, choose layers, write results; loads torch when it must.

Shape letters: L layers and the embeddings before them, N pairs, R resamples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.crosslingual import retrieval
from lingraft.crosslingual.by_layer import Reading
from lingraft.crosslingual.layers import facts_of
from lingraft.crosslingual.retrieval import WAYS
from lingraft.evaluation.records import blocks
from lingraft.report.row import RESULTS, Score, Value, write
from lingraft.report.table import markdown, shown_as_csv
from lingraft.rundir import write_text
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.layers import Options
    from lingraft.crosslingual.pairs import Pairs
    from lingraft.crosslingual.retrieval import Found, Way
    from lingraft.report.table import Table

CHOSEN = {
    "dev": "its layer is chosen on the dev pairs alone",
    "test": "its layer is the best on the test pairs themselves (an oracle): no other layer can do "
    "better here, and on other pairs this one may do worse",
    "given": "its layer was given",
    "xtreme": "its layer is XTREME's",
}
"""How a model's layer was chosen."""


@dataclass(frozen=True)
class Chosen:
    """A model and the layer at which it is reported."""

    found: Found
    layer: int
    how: str
    """A key of `CHOSEN`."""

    @property
    def label(self) -> str:
        return self.found.label


def rows(
    models: Sequence[Chosen], ways: Sequence[Way], settings: Mapping[str, Value]
) -> Iterator[Score]:
    """Yield one row a number: every layer, language and direction, in per cent."""
    for result in models:
        facts = facts_of(result.found.name, result.found.fingerprint)
        for language, answers in result.found.test.items():
            n = len(answers)
            for way in ways:
                right_LN = answers.gains([way]) / 100
                for layer, value in enumerate(answers.accuracies(way)):
                    sums = blocks(right_LN[layer], np.ones(n))
                    place: dict[str, Value] = {
                        "language": language,
                        "direction": way,
                        "layer": layer,
                    }
                    yield Score(
                        model=result.found.label,
                        data=f"{settings['task'] or 'pairs'}-{language}",
                        split="test",
                        metric="accuracy",
                        value=float(value),
                        n=n,
                        reported=layer == result.layer,
                        axes={**settings, "language": language, **place},
                        facts=facts | {"chosen_on": result.how},
                        blocks=tuple((total, count) for total, count in sums),
                    )


def tables(models: Sequence[Chosen], reading: Reading) -> dict[str, Table]:
    """Return by file name accuracies, accuracies by layer, and differences to the first model."""
    notes = [f"{result.found.label}: {CHOSEN[result.how]}." for result in models]
    chance = [100 / len(answers) for answers in models[0].found.test.values()]
    low, high = min(chance), max(chance)
    guess = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    notes.append(
        f"Guessing finds {guess} %. Intervals are of the pairs alone (bootstrap), not of the "
        "choice of the layer."
    )
    made = {
        "accuracies": reading.main("Nearest neighbours: accuracy in percent", notes),
        "layers": reading.by_layer("Accuracy by layer (0: the embeddings)"),
        "differences": reading.differences("paired bootstrap over the pairs"),
    }
    return {name: one for name, one in made.items() if one is not None}


def predictions(result: Chosen, pairs: Pairs, ways: Sequence[Way]) -> str:
    """Return what was found for every pair at the chosen layer, as TSV; lines count from 1."""
    answers = result.found.test[pairs.language]
    head = ["line", *(f"{way} {kind}" for way in ways for kind in ("found", "cosine"))]
    lines = ["\t".join([*head, "English", pairs.language])]
    for number in range(len(pairs)):
        cells = [str(number + 1)]
        for way in ways:
            place, score = (
                of[way][result.layer, number] for of in (answers.places, answers.scores)
            )
            cells += [str(int(place) + 1), f"{score:.6f}"]
        texts = (pairs.english[number], pairs.other[number])
        lines.append("\t".join([*cells, *(" ".join(text.split()) for text in texts)]))
    return "\n".join(lines) + "\n"


def ways(options: Options) -> tuple[Way, ...]:
    """The directions that count."""
    return WAYS[:1] if options.parity else WAYS


def chosen_layer(result: Found, options: Options) -> Chosen:
    """The layer at which a model is reported.

    Raises:
        RecipeError: it has no such layer.
    """
    choice = options.asked_layer(result.num_layers, result.name)
    if choice is not None:
        return Chosen(result, *choice)
    split: retrieval.Split = "dev" if result.dev else "test"
    return Chosen(result, result.best(ways(options), split), split)


def retrieve(
    models: Mapping[str, str],
    test: Sequence[Pairs],
    dev: Sequence[Pairs],
    out: Path,
    options: Options,
) -> list[Table]:
    """Look for translations with every model, and write tables, rows, curves and predictions.

    Args:
        models: directory or Hub id by label; the first is what the others are compared with.
        test: what is reported.
        dev: of the same languages, to choose layers on; may be none.
        out: the folder, which is this call's already.
        options: pooling, layer, directions.

    Returns:
        Accuracies, accuracies by layer, and differences where there are several models.

    Raises:
        LingraftError: a model cannot be loaded, two are the same, or has no such layer.
    """
    results = retrieval.find(models, test, dev, out, options.pool)
    choices = [chosen_layer(result, options) for result in results]
    settings: dict[str, Value] = {
        "task": options.task,
        "pool": options.pool,
        "protocol": "xtreme" if options.parity else "metaxlm",
    }
    found = list(rows(choices, ways(options), settings))
    reading = Reading(found, Resampling(options.resamples), lower=False)
    made = tables(choices, reading)
    for name, shown in made.items():
        write_text(out / f"{name}.md", markdown(shown) + "\n")
        write_text(out / f"{name}.csv", shown_as_csv(shown))
    caption = "Accuracy of nearest-neighbour retrieval by layer, mean over the languages, by model."
    if (figure := reading.figure("curve", "accuracy (%)", caption)) is not None:
        write_text(out / "curve.svg", figure.svg)
    for model in choices:
        for pairs in test:
            path = out / model.found.label / f"predictions-{pairs.language}.tsv"
            write_text(path, predictions(model, pairs, ways(options)))
    write(out / RESULTS, found)
    return list(made.values())
