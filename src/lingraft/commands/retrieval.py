"""`lingraft analyze retrieval`: it parses, calls and prints."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.mining import Searching, options_of, records_of
from lingraft.commands.parsing import read, takes
from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.layers import Options
    from lingraft.crosslingual.pairs import Pairs
    from lingraft.tasks import Retrieval

logger = logging.getLogger(__name__)


class Finding(Searching):
    """Settings of finding translations."""

    max_sentences: Annotated[int, Field(ge=1)] | None = None
    """The first so many pairs of each language alone."""
    resamples: ask.Resamples = 4_000
    """Draws of the paired bootstrap."""


@takes(lambda: (Finding,))
def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Any stock encoders: folders, Hub ids or names of `show models`; the others are "
            "compared with the first.",
        ),
    ],
    settings: ask.OwnKeys = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            help="Test pairs: folders or files such as eng-kor.tsv or tatoeba.kor-eng.kor, or "
            "LANGUAGE=FILE with English first."
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="tatoeba in the place of --pairs, from its files in --data.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The folder of the task's files.")] = None,
    lang: Annotated[
        list[str] | None,
        typer.Option(help="Languages; all that are there, or 'xtreme' for XTREME's 36."),
    ] = None,
    dev: Annotated[
        list[str] | None,
        typer.Option(help="Other pairs of the same languages, to choose layers on."),
    ] = None,
    label: ask.Labels = None,
    out_dir: ask.ResultsFolder = Path("runs/retrieve"),
    force: ask.Replace = False,
) -> object:
    """Find translations by nearest neighbours, at every layer.

    lingraft analyze retrieval runs/ko/model demo/source --pairs tatoeba --lang ko de --dev pud

    lingraft analyze retrieval runs/ko/model --task tatoeba --data DIR layer=8

    Accuracy in both directions by layer and language, with intervals. What comes out is
    OUT/accuracies.md, layers.md, curve.svg, results.jsonl and MODEL/predictions-LANGUAGE.tsv. What
    is done is kept.
    """
    given = read(Finding, settings)
    if bool(pairs) == bool(task):
        raise RecipeError("give --pairs (folders or files), or a --task with its --data")
    if data is not None and task is None:
        raise RecipeError("--data: goes with --task alone; leave it out")
    by_label = ask.labelled(models, label or [])
    most = given.max_sentences
    records = records_of(task, data, lang or [])
    whole = task if most is None else None  # a part is not the benchmark
    options = options_of(given, whole, resamples=given.resamples)
    test = _pairs(pairs, records, data, lang or [], most)
    dev_pairs = _pairs(dev, [], None, [p.language for p in test], most) if dev else []
    _check_dev(test, dev_pairs)
    return _retrieve(by_label, (test, dev_pairs), out_dir, options, force=force)


def _pairs(
    names: Sequence[str] | None,
    records: Sequence[Retrieval],
    data: Path | None,
    languages: Sequence[str],
    most: int | None,
) -> list[Pairs]:
    from lingraft.crosslingual import pairs as sets
    from lingraft.tasks import retrieval

    if data is None:
        pairs = sets.read(names or [], languages)
    else:
        pairs = [sets.Pairs.of(record.language, retrieval.read(record, data)) for record in records]
    return [group.first(most) for group in pairs]


def _check_dev(test: Sequence[Pairs], dev: Sequence[Pairs]) -> None:
    by_code = {part.language: set(zip(part.english, part.other, strict=True)) for part in dev}
    for part in test:
        shared = by_code.get(part.language, set()) & set(zip(part.english, part.other, strict=True))
        if shared:
            raise DataError(
                f"--dev: {len(shared):,} pairs of '{part.language}' are among the test pairs, too; "
                "layers must be chosen on other pairs"
            )


def _retrieve(
    models: dict[str, str],
    splits: tuple[Sequence[Pairs], Sequence[Pairs]],
    out: Path,
    options: Options,
    *,
    force: bool,
) -> object:
    from lingraft.crosslingual import layers
    from lingraft.crosslingual import retrieve as task
    from lingraft.rundir import fingerprint

    test, dev = splits
    about = options.identity(models)
    for name, split in (("test", test), ("dev", dev)):
        about[name] = {group.language: fingerprint(group.english, group.other) for group in split}
    for name, split in (("test", test), ("dev", dev)):
        for group in split:
            if group.english_is_sorted:
                logger.warning(
                    "the English side of '%s' (%s) is in alphabetical order, as in XTREME's "
                    "release, so line n does not translate line n; take LASER's files",
                    *(group.language, name),
                )
    with layers.claimed(out, "retrieve", about, force=force):
        tables = list(task.retrieve(models, test, dev, out, options))
        for table in tables:
            console.show(table, best="*")
    console.line(f"tables, curves (.svg) and predictions: {out}")
    return {"results": out, "scores": console.rows(*tables)}
