"""`lingraft analyze retrieval`: find, choose layers, write results; loads torch when it must.

Shape letters: L layers and the embeddings before them, N pairs, R resamples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.crosslingual import by_layer, retrieval
from lingraft.crosslingual.by_layer import Scores
from lingraft.crosslingual.layers import facts_of
from lingraft.crosslingual.retrieval import WAYS
from lingraft.report import numbers
from lingraft.report.row import RESULTS, Score, write
from lingraft.report.table import BEST, Cell, Column, markdown, row, shown_as_csv, table
from lingraft.rundir import write_text
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.layers import Options
    from lingraft.crosslingual.pairs import Pairs
    from lingraft.crosslingual.retrieval import Found, Way
    from lingraft.report.figure import Figure
    from lingraft.report.table import Role, Table
    from lingraft.stats import Array

AVERAGE = "average"
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


class Report(Scores):
    """Everything that is made from the answers of some models.

    Args:
        models: the first is what the others are compared with.
        ways: directions that count.
        resamples: draws of sentences.
    """

    def __init__(
        self, models: Sequence[Chosen], ways: Sequence[Way], resamples: int = 4_000
    ) -> None:
        sets = list(models[0].found.test)
        super().__init__(sets, AVERAGE, Resampling(resamples))
        self.chosen, self.ways = models, ways

    def on_set(self, result: Chosen, name: str) -> float:
        return float(result.found.test[name].curve(self.ways)[result.layer])

    def on_draws(self, result: Chosen, name: str) -> Array:
        gains_N = result.found.test[name].gains(self.ways)[result.layer]
        parts = self.resampling.parts(len(gains_N), f"pairs of {name}")
        return np.concatenate([draws_RN @ gains_N / draws_RN.sum(1) for draws_RN in parts])

    def number(self, result: Chosen, name: str) -> int:
        return len(result.found.test[name])

    def of_way(self, result: Chosen, language: str, way: Way) -> float:
        """Accuracy of one way."""
        languages = self.names if language == AVERAGE else [language]
        accuracies = [result.found.test[name].accuracies(way)[result.layer] for name in languages]
        return float(np.mean(accuracies))

    # -- tables

    def accuracies(self) -> Table:
        """Languages × models at the chosen layers."""
        columns: list[str | Column] = [Column("language", "text"), Column("model", "text")]
        columns += ["pairs", "layer"]
        columns += [*self.ways, *(["mean"] if len(self.ways) > 1 else []), "95 % interval"]
        rows = []
        for language in self.columns:
            best = max(self.value(result, language) for result in self.chosen)
            for result in self.chosen:
                value = self.value(result, language)
                rank = BEST if len(self.chosen) > 1 and value == best else 0
                mean = Cell(numbers.fixed(value, 1), rank=rank)
                rates = [numbers.fixed(self.of_way(result, language, way), 1) for way in self.ways]
                cells = [*rates, mean] if len(rates) > 1 else [mean]
                answers = result.found.test.get(language)  # none of the average
                count = numbers.count(None if answers is None else len(answers))
                role: Role = "total" if language == AVERAGE else ""
                names = (language, result.found.label, count, str(result.layer))
                rows.append(row(*names, *cells, self.bounds(result, language), role=role))
        return table("Nearest neighbours: accuracy in percent", columns, rows, self._notes())

    def _notes(self) -> list[str]:
        notes = [f"{result.found.label}: {CHOSEN[result.how]}." for result in self.chosen]
        chance = {
            language: 100 / len(self.chosen[0].found.test[language]) for language in self.names
        }
        low, high = min(chance.values()), max(chance.values())
        guess = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        notes.append(
            f"Guessing finds {guess} %. Intervals are of the pairs alone (bootstrap), not of the "
            "choice of the layer."
        )
        return notes

    def layers(self) -> Table:
        """Accuracy at every layer: the curve of figure 3, for each language and their mean."""
        return by_layer.as_table(
            "Accuracy by layer (0: the embeddings)",
            ["model", "language"],
            [
                ([result.found.label, language], curve)
                for result in self.chosen
                for language, curve in self._curves(result).items()
            ],
            max,
            ["The best layer of each row is marked; it is the best on these very pairs."],
        )

    def _curves(self, result: Chosen) -> dict[str, dict[int, float]]:
        curves_L = {name: of.curve(self.ways) for name, of in result.found.test.items()}
        if len(self.names) > 1:
            curves_L[AVERAGE] = result.found.curve(self.ways)
        return {name: dict(enumerate(map(float, curve_L))) for name, curve_L in curves_L.items()}

    def compared(self) -> Table | None:
        """Each further model less the first, on the same pairs; None for a single model."""
        first, *rest = self.chosen
        title = "paired bootstrap over the pairs"
        return self.differences(first, rest, "language", title) if rest else None

    # -- files

    def rows(self, settings: Mapping[str, Any]) -> Iterator[Score]:
        """Yield one row a number, for results.jsonl: every layer, language and direction."""
        for result in self.chosen:
            facts = facts_of(result.found.name, result.found.fingerprint)
            for language, answers in result.found.test.items():
                for way in self.ways:
                    axes = {**settings, "language": language, "direction": way}
                    for layer, value in enumerate(answers.accuracies(way)):
                        yield Score(
                            model=result.found.label,
                            data=f"{settings['task'] or 'pairs'}-{language}",
                            split="test",
                            metric="accuracy",
                            value=float(value),
                            n=len(answers),
                            reported=layer == result.layer,
                            axes=axes | {"layer": layer},
                            facts=facts | {"chosen_on": result.how},
                        )

    def predictions(self, result: Chosen, pairs: Pairs) -> str:
        """What was found for every pair at the chosen layer, as TSV; lines count from 1."""
        answers = result.found.test[pairs.language]
        head = ["line", *(f"{way} {kind}" for way in self.ways for kind in ("found", "cosine"))]
        lines = ["\t".join([*head, "English", pairs.language])]
        for number in range(len(pairs)):
            cells = [str(number + 1)]
            for way in self.ways:
                place, score = (
                    of[way][result.layer, number] for of in (answers.places, answers.scores)
                )
                cells += [str(int(place) + 1), f"{score:.6f}"]
            texts = (pairs.english[number], pairs.other[number])
            lines.append("\t".join([*cells, *(" ".join(text.split()) for text in texts)]))
        return "\n".join(lines) + "\n"

    def figures(self) -> dict[str, Figure]:
        """By file name: the mean over the languages for all models, and each model's languages."""
        whole = AVERAGE if len(self.names) > 1 else self.names[0]
        of_models = {result.found.label: self._curves(result) for result in self.chosen}
        means = {label: curves[whole] for label, curves in of_models.items()}
        figures = {"curve": _figure("curve", means, "Mean over the languages, by model.")}
        for label, curves in of_models.items():
            name = f"curve-{label}"
            figures[name] = _figure(name, curves, f"{label}, by language.")
        return figures


def _figure(name: str, curves: Mapping[str, Mapping[int, float]], about: str) -> Figure:
    caption = f"Accuracy of nearest-neighbour retrieval by layer. {about}"
    return by_layer.as_figure(name, curves, "accuracy (%)", caption, {})


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
    report = Report(choices, ways(options), options.resamples)
    tables = {"accuracies": report.accuracies(), "layers": report.layers()}
    if (differences := report.compared()) is not None:
        tables["differences"] = differences
    for name, shown in tables.items():
        write_text(out / f"{name}.md", markdown(shown) + "\n")
        write_text(out / f"{name}.csv", shown_as_csv(shown))
    for name, figure in report.figures().items():
        write_text(out / f"{name}.svg", figure.alone())
    for model in choices:
        for pairs in test:
            path = out / model.found.label / f"predictions-{pairs.language}.tsv"
            write_text(path, report.predictions(model, pairs))
    settings = {
        "task": options.task,
        "pool": options.pool,
        "protocol": "xtreme" if options.parity else "metaxlm",
    }
    write(out / RESULTS, report.rows(settings))
    return list(tables.values())
