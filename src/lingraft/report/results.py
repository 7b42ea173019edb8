"""The results of a run for Python: numbers, rows for pandas, figures. Reads files only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.report import plots, tables
from lingraft.report.variants import labelled
from lingraft.report.verdict import verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from lingraft.report.tables import Line
    from lingraft.report.variants import Variant
    from lingraft.rundir import Run

FIGURES = {"loss": plots.losses, "learning rate": plots.learning_rates}


@dataclass(frozen=True)
class Results:
    """What a run measured: its own model first, then its baselines.

    Attributes:
        run: the run on disk.
        models: a line each: `name`, `method`, `parameters`, `tokens`, `seconds`, and `metrics` by
            name (perplexity, hits@1, hits@5, hits@10, mrr, mr, bits_per_character).
        unigram_perplexity: of guessing by token frequency alone; None before evaluation.
        verdict: the numbers in a sentence.
        notes: what to know before the numbers are compared.
    """

    run: Run
    models: tuple[Line, ...]
    unigram_perplexity: float | None
    verdict: str
    notes: tuple[str, ...]
    variants: tuple[Variant, ...]

    @property
    def perplexity(self) -> float | None:
        """Of the run's own model; None before evaluation."""
        return self.models[0].perplexity

    def rows(self) -> list[dict[str, Any]]:
        """One row a model: `pandas.DataFrame(results.rows())`.

        Tokens are real ones, seconds those of training, hits@k in per cent.
        """
        return [
            {
                "model": line.name,
                "method": line.method,
                "parameters": line.parameters,
                "tokens": line.tokens,
                "seconds": line.seconds,
                **{name: line.metrics.get(name) for name in tables.METRICS},
            }
            for line in self.models
        ]

    def history(self) -> list[dict[str, Any]]:
        """One row a logged step: model, phase, kind, step, tokens, loss and what else is logged.

        `kind` is "train" or "valid". `tokens` count from the model's start over all phases; the
        loss is in nats a predicted token.
        """
        rows: list[dict[str, Any]] = []
        for variant in self.variants:
            before = 0
            for phase in variant.phases:
                logged = sorted((*phase.train, *phase.valid), key=lambda row: int(row["step"]))
                rows += [
                    {"model": variant.label, **row, "tokens": before + row["tokens"]}
                    for row in logged
                ]
                before += phase.tokens or 0
        return rows

    def figure(self, what: str = "loss") -> MatplotlibFigure:
        """A figure of the report as a figure of matplotlib.

        Args:
            what: "loss" or "learning rate".

        Raises:
            DataError: there is no such figure, or nothing is logged yet.
        """
        if what not in FIGURES:
            raise DataError(f"figure '{what}': there is none; there are {', '.join(FIGURES)}")
        drawing = FIGURES[what](self.variants)
        if drawing is None:
            raise DataError(f"{self.run.path}: nothing is logged yet; train at least one step")
        return drawing.for_python()


def results(run: Run) -> Results:
    """The results of a run and its baselines.

    Raises:
        DataError: the folder is not a run.
    """
    variants = labelled([run])
    compared = tables.compare(variants)
    unigrams = compared.unigrams
    return Results(
        run,
        compared.lines,
        unigrams[0].unigram_perplexity if unigrams else None,
        verdict(compared),
        compared.notes,
        tuple(variants),
    )
