"""`lingraft retrieve`: finds, chooses layers, writes what came out. Loads torch when it must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.crosslingual import retrieval
from lingraft.crosslingual.retrieval import WAYS
from lingraft.crosslingual.retrieval_report import Chosen, Report
from lingraft.errors import DataError
from lingraft.report.table import markdown
from lingraft.rundir import read_json, write_json, write_rows, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.pairs import Pairs
    from lingraft.crosslingual.pooling import Pool
    from lingraft.crosslingual.retrieval import Found, Way
    from lingraft.report.table import Table

SETTINGS = "retrieve.json"
RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Options:
    """How translations are looked for."""

    pool: Pool = "mean"
    layer: int | None = None
    """None: the best on dev; without dev, the best on test (said so)."""
    parity: bool = False
    """XTREME: English looks for translations, at XTREME's layer."""
    resamples: int = 4_000

    @property
    def ways(self) -> tuple[Way, ...]:
        """The directions that count."""
        return WAYS[:1] if self.parity else WAYS


def claim(out: Path, settings: Mapping[str, Any], *, overwrite: bool) -> None:
    """Make a folder this call's; one that holds results of other settings is left alone.

    Args:
        out: the folder.
        settings: plain data; the same settings go on with what is there.
        overwrite: replace results of other settings.

    Raises:
        DataError: the folder holds something else.
    """
    path = out / SETTINGS
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: is a file, not a folder; choose another --out")
    finished = (out / RESULTS).exists()
    if path.is_file():
        if finished and read_json(path) != settings and not overwrite:
            raise DataError(
                f"{out}: holds results of other models, pairs or settings; choose another --out, "
                "or replace them with --overwrite"
            )
    elif finished:
        raise DataError(
            f"{out}: holds results of another command ({RESULTS}); choose another --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, settings)


def chosen_layer(found: Found, options: Options) -> Chosen:
    """The layer at which a model is reported.

    Raises:
        RecipeError: it has no such layer.
    """
    if options.layer is not None:
        layer = retrieval.check_layer(options.layer, found.num_layers, found.name)
        return Chosen(found, layer, "given")
    if options.parity:
        return Chosen(found, retrieval.xtreme_layer(found.num_layers, found.name), "xtreme")
    split: retrieval.Split = "dev" if found.dev else "test"
    return Chosen(found, found.best(options.ways, split), split)


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
    for name in models.values():  # before anything is encoded
        _check_depth(name, options)
    found = retrieval.find(models, test, dev, out, options.pool)
    chosen = [chosen_layer(one, options) for one in found]
    report = Report(chosen, options.ways, options.resamples)
    made = {"accuracies": report.accuracies(), "layers": report.layers()}
    if (differences := report.differences()) is not None:
        made["differences"] = differences
    for name, one in made.items():
        write_text(out / f"{name}.md", markdown(one) + "\n")
        write_text(out / f"{name}.csv", report.sheet(one))
    for name, drawn in report.figures().items():
        write_text(out / f"{name}.svg", drawn.alone())
    for model in chosen:
        for pairs in test:
            path = out / model.found.label / f"predictions-{pairs.language}.tsv"
            write_text(path, report.predictions(model, pairs))
    settings = {"pool": options.pool, "protocol": "xtreme" if options.parity else "metaxlm"}
    write_rows(out / RESULTS, report.rows(settings))
    return list(made.values())


def _check_depth(name: str, options: Options) -> None:
    if options.layer is None and not options.parity:
        return
    from lingraft.pretrained.load import load_config  # torch

    depth = int(load_config(name).num_hidden_layers)
    if options.layer is not None:
        retrieval.check_layer(options.layer, depth, name)
    else:
        retrieval.xtreme_layer(depth, name)
