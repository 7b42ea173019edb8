"""`lingraft analyze alignment`: it parses, calls and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import Field

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.parsing import Keys, read, takes
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.alignment import Settings
    from lingraft.crosslingual.links import GoldSet, Outside

SCORES = ("reference", "dev", "base", "outside", "resamples")
"""Keys of what scores links."""


class Linking(Keys):
    """Settings of linking words and of scoring links."""

    layers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False)] | None = None
    """Layers, as [8]; 0 is the embeddings. Default: all with --gold, else one 2/3 deep."""
    method: str = "ot"
    """ot, simalign-inter, itermax or awesome."""
    clamp: bool = True
    """For ot: false gives the released aligner's links."""
    dev: Annotated[int, Field(ge=0)] = 0
    """Choose the layer on the first N sentences of every set."""
    reference: str | None = None
    """The label that the others are compared with; the first model by default."""
    base: Annotated[int, Field(ge=0, le=1)] | None = None
    """The gold files' first word; by default 1 for 'ID I J', else 0."""
    outside: Literal["stop", "drop", "miss"] = "stop"
    """Gold links outside their sentence: stop, drop them, or miss (published scorers)."""
    resamples: ask.Resamples = 4_000
    """Draws of the paired bootstrap."""
    batch_tokens: Annotated[int, Field(ge=16)] = 4_096
    """Tokens through the model at once."""


@takes(lambda: (Linking,))
def command(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Encoders: folders, Hub ids or names.")
    ],
    settings: ask.OwnKeys = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="Sentences: SOURCE TARGET, a sentence a line; or a .tsv or .jsonl with both. "
            "For several gold files, in their order."
        ),
    ] = None,
    gold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Gold links: 'ID I J [S|P]' (XLM-Align), 'I-J IpJ …' (Pharaoh), 'ID TAB I-J …', "
            "or .jsonl with src, tgt, sure and possible.",
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Beside the models: diagonal, ibm1.")
    ] = None,
    label: ask.Labels = None,
    out: Annotated[
        Path, typer.Option(help="With --gold a folder; without, the file of links.")
    ] = Path("runs/aligned"),
    force: ask.Replace = False,
) -> object:
    """Link words of sentence pairs; score links against gold.

    lingraft analyze alignment MODEL --gold de-en=alignv2.txt --text test.de test.en --out aligned

    lingraft analyze alignment MODEL --text src.txt trg.txt layers=[8] --out links.txt

    With gold links: a table of alignment error rates, the curve over the layers (aer.svg), rows
    (results.jsonl) and the links of every layer (links/MODEL/SET/layer-NN.txt). Without: the links
    of one layer, a line a sentence pair. What is done is kept; a killed call goes on.
    """
    given = read(Linking, settings)
    how = _how(given)
    if not gold:
        idle = [*(["--baseline"] if baseline else []), *(["--label"] if label else [])]
        if idle := [*idle, *(key for key in SCORES if key in given.model_fields_set)]:
            raise RecipeError(f"{idle[0]}: is for scoring links; give --gold, or leave it out")
        if len(models) != 1 or not text:
            raise RecipeError("give one MODEL and --text SOURCE TARGET; to compare models, --gold")
        return _write_file(models[0], text, out, how, force=force)
    from lingraft.crosslingual import alignment_run

    call = alignment_run.Call(
        ask.labelled(models, label or []),
        _sets(gold, text or [], given.base, given.outside),
        how,
        tuple(dict.fromkeys(baseline or ())),
        given.dev,
        given.resamples,
        given.reference,
        force,
        ask.command_line(),
    )
    report = alignment_run.score(call, out)
    for table in report.tables:
        console.show(table, best="")
    console.line(f"written: {', '.join(map(str, report.written))}; links: {out / 'links'}")
    return {"results": out, "written": report.written, "scores": console.rows(*report.tables)}


def _how(given: Linking) -> Settings:
    """Return how words are linked.

    Raises:
        RecipeError: there is no such method, or it has nothing to clamp.
    """
    from lingraft.crosslingual.alignment import Settings
    from lingraft.crosslingual.matching import METHODS

    if given.method not in METHODS:
        raise RecipeError(f"method {given.method}: allowed: {', '.join(METHODS)}")
    if not given.clamp and given.method != "ot":
        raise RecipeError(f"clamp: belongs to method ot; {given.method} clamps nothing")
    layers = given.layers and tuple(sorted(set(given.layers)))
    return Settings(given.method, given.clamp, layers, given.batch_tokens)


def _write_file(
    model: str, text: Sequence[Path], out: Path, settings: Settings, *, force: bool
) -> object:
    from dataclasses import replace

    from lingraft.crosslingual import alignment_run, bitext, layers
    from lingraft.recipe import catalogue

    groups = bitext.grouped(text)
    if len(groups) != 1:
        raise RecipeError(
            f"--text: {len(groups)} texts for one file of links; give SOURCE TARGET, or one .tsv "
            "or .jsonl"
        )
    usual = ""
    if settings.layers is None:
        depth = layers.depth_of(catalogue.resolve(model))
        settings = replace(settings, layers=(layers.usual_layer(depth),))
        usual = f" (two thirds of {depth}; layers=[N] chooses another)"
    assert settings.layers is not None
    if len(settings.layers) != 1:
        raise RecipeError("layers: one file holds the links of one layer; give one number")
    done = alignment_run.write(model, groups[0], out, settings, force=force)
    console.line(
        f"{out}: {done['links']:,} links of {done['pairs']:,} sentence pairs, layer "
        f"{settings.layers[0]}{usual}, {done['tokens_per_second']:,} tokens/s"
    )
    return {"links": out, "layer": settings.layers[0]} | done


def _sets(
    gold: Sequence[str], text: Sequence[Path], base: int | None, outside: Outside
) -> tuple[GoldSet, ...]:
    """Return the gold sets; those without sentences take the texts in order."""
    from lingraft.corpus.readers.lines import kind
    from lingraft.crosslingual import bitext, links

    texts = bitext.grouped(text)
    files = [_named(entry) for entry in gold]
    needed = sum(kind(path) != ".jsonl" for _, path in files)
    if needed != len(texts):
        raise RecipeError(
            f"--text: {len(texts)} texts for {needed} gold files without sentences; give SOURCE "
            "TARGET (or one .tsv or .jsonl) for each, in order; .jsonl gold files bring theirs"
        )
    gold_sets = []
    for name, path in files:
        own = () if kind(path) == ".jsonl" else texts.pop(0)
        gold_set = links.read(name, path, own, base=base, outside=outside)
        gold_sets.append(gold_set)
    return tuple(gold_sets)


def _named(entry: str) -> tuple[str, Path]:
    """Return name and file of `NAME=FILE`; a file alone is called as it is, without its suffix."""
    name, path = ask.named_file(entry, "--gold")
    if not name:
        name = re.sub(r"(\.(jsonl|txt|gz|xz|bz2|zst|tsv))+$", "", path.name.lower())
        name = re.sub(r"[^a-z0-9._+-]+", "-", name).strip("-.") or "gold"
    return name, path
