"""`lingraft retrieve`: finds, chooses layers, writes what came out. Loads torch when it must."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.crosslingual import retrieval
from lingraft.crosslingual.layers import RESULTS
from lingraft.crosslingual.retrieval import WAYS
from lingraft.crosslingual.retrieval_report import Chosen, Report
from lingraft.report.table import markdown, shown_as_csv
from lingraft.rundir import write_rows, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.layers import Options
    from lingraft.crosslingual.pairs import Pairs
    from lingraft.crosslingual.retrieval import Found, Way
    from lingraft.report.table import Table


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
    for name, table in tables.items():
        write_text(out / f"{name}.md", markdown(table) + "\n")
        write_text(out / f"{name}.csv", shown_as_csv(table))
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
    write_rows(out / RESULTS, report.rows(settings))
    return list(tables.values())
