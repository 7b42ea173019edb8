"""`lingraft score-translations`: it parses, calls and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError
from lingraft.rundir import check_free


def command(
    context: typer.Context,
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="[SYSTEM=]FILE…",
            help="Translations, a line for a line of the reference; the others are compared with "
            "the first.",
        ),
    ],
    reference: Annotated[
        list[Path],
        typer.Option(help="The right translations, a sentence a line; twice for two references."),
    ],
    source: Annotated[
        Path | None, typer.Option(help="What was translated; only COMET reads it.")
    ] = None,
    metrics: Annotated[
        str,
        typer.Option(
            help="Of bleu, chrf (chrF++), bleu_tokenised (cut by Moses first, as in papers; _lc "
            "ignores case), bleu_char, bleu_zh."
        ),
    ] = "bleu,chrf",
    lang: Annotated[
        str,
        typer.Option(
            help="Of the translations (en, ja, …): by its rules bleu and Moses cut words."
        ),
    ] = "en",
    resamples: ask.Draws = 1_000,
    export_comet: Annotated[
        Path | None,
        typer.Option(help="Write the files that comet-score reads into this folder, and stop."),
    ] = None,
    comet: Annotated[
        Path | None, typer.Option(help="Show the scores that comet-score --to_json wrote, too.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write results.jsonl and scores.csv into this folder.")
    ] = None,
    overwrite: ask.Replace = False,
) -> None:
    """Score files of translations: one table of systems, with intervals and a paired bootstrap.

    lingraft score-translations --reference test.en small=small.en large=large.en

    Scores, signatures, intervals and p are sacrebleu's: `sacrebleu test.en -i small.en large.en -m
    bleu chrf --chrf-word-order 2 --paired-bs -f text` prints the same, but for p of equal scores.
    An interval is that of the test set; of seeds tells `lingraft compare`.
    """
    from lingraft.crosslingual import systems as scoring

    if export_comet is not None:
        idle = ("metrics", "lang", "resamples", "comet", "out")
        ask.check_idle(
            context, idle, "is for scores, and --export-comet only writes files; leave one out"
        )
    for folder in filter(None, (out, export_comet)):
        if folder.is_file():
            raise RecipeError(f"{folder}: is a file; name a folder")
        if overwrite:
            scoring.check_ours(folder, comet=folder is export_comet)
        else:
            check_free(folder, "choose another folder, or --overwrite")
    inputs = scoring.Systems.read(_named(systems), reference, source)
    if export_comet is not None:
        if source is None:
            raise RecipeError("--export-comet: COMET reads the source too; give --source FILE")
        console.line(scoring.export_comet(inputs, export_comet))
        return
    # a file that is not there is told of before minutes of draws
    of_comet = [] if comet is None else scoring.read_comet(comet, inputs, resamples)
    results = scoring.score(inputs, ask.names_in(metrics), language=lang, resamples=resamples)
    results += of_comet
    if not results:
        raise RecipeError("--metrics: name a score, such as bleu")
    if out is not None:
        scoring.write(out, results)
    console.show(scoring.shown(inputs, results, resamples), best="")


def _named(entries: list[str]) -> dict[str, Path]:
    """The files by the names of their systems; a file alone is called as it is, spaces dashed."""
    files: dict[str, Path] = {}
    for entry in entries:
        name, path = ask.named_file(entry, "system")
        name = name or re.sub(r"[^\w.+-]+", "-", path.name).lstrip(".+-")
        ask.check_folder_name(name, "system")
        if name in files:
            raise RecipeError(f"two systems would be called '{name}'; name them: SYSTEM=FILE")
        files[name] = path
    return files
