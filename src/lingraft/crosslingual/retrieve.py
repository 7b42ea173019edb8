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


def chosen_layer(found: Found, options: Options) -> Chosen:
    """The layer at which a model is reported.

    Raises:
        RecipeError: it has no such layer.
    """
    asked = options.asked_layer(found.num_layers, found.name)
    if asked is not None:
        return Chosen(found, *asked)
    split: retrieval.Split = "dev" if found.dev else "test"
    return Chosen(found, found.best(ways(options), split), split)


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
    found = retrieval.find(models, test, dev, out, options.pool)
    chosen = [chosen_layer(one, options) for one in found]
    report = Report(chosen, ways(options), options.resamples)
    made = {"accuracies": report.accuracies(), "layers": report.layers()}
    if (differences := report.compared()) is not None:
        made["differences"] = differences
    for name, one in made.items():
        write_text(out / f"{name}.md", markdown(one) + "\n")
        write_text(out / f"{name}.csv", shown_as_csv(one))
    for name, drawn in report.figures().items():
        write_text(out / f"{name}.svg", drawn.alone())
    for model in chosen:
        for pairs in test:
            path = out / model.found.label / f"predictions-{pairs.language}.tsv"
            write_text(path, report.predictions(model, pairs))
    settings = {
        "task": options.task,
        "pool": options.pool,
        "protocol": "xtreme" if options.parity else "metaxlm",
    }
    write_rows(out / RESULTS, report.rows(settings))
    return list(made.values())
