"""`lingraft align`: it parses, calls and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from lingraft.crosslingual.alignment import Settings
    from lingraft.crosslingual.links import GoldSet


SCORES = ("baseline", "dev", "label", "reference", "base", "outside", "resamples")
"""Parameters of what scores links."""


def command(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Encoders: directories, Hub ids or names."),
    ] = None,
    gold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Gold links: 'ID I J [S|P]' (XLM-Align), 'I-J IpJ …' (Pharaoh), 'ID TAB I-J …', "
            "or .jsonl with src, tgt, sure and possible; several may follow.",
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="Sentences: SOURCE TARGET, a sentence a line; or a .tsv or .jsonl with both. "
            "For several gold files, in their order."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --gold a folder; without, the file of links.")
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N…]", help="Layers, 0 is the embeddings; all with --gold, else 2/3 deep."
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="ot, simalign-inter, itermax or awesome.")] = "ot",
    clamp: Annotated[
        bool, typer.Option(help="Of ot; --no-clamp gives the released aligner's links.")
    ] = True,
    dev: Annotated[
        int, typer.Option(min=0, help="Choose the layer on the first N sentences of every set.")
    ] = 0,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Beside the models: diagonal, ibm1 (A,B).")
    ] = None,
    label: ask.Labels = None,
    reference: Annotated[
        str | None,
        typer.Option(help="What the others are compared with; the first model by default."),
    ] = None,
    base: Annotated[
        int | None,
        typer.Option(min=0, max=1, help="The gold files' first word; 1 for 'ID I J', else 0."),
    ] = None,
    outside: Annotated[
        str,
        typer.Option(
            help="Gold links outside their sentence: stop, drop them, or miss (published scorers)."
        ),
    ] = "stop",
    resamples: ask.Draws = 4_000,
    batch_tokens: Annotated[
        int, typer.Option(min=16, help="Tokens through the model at once.")
    ] = 4_096,
    overwrite: ask.Replace = False,
) -> None:
    """Link the words of sentence pairs by a model's hidden states; score links against gold.

    lingraft align MODEL --gold de-en=alignv2.txt --text test.de test.en --out aligned

    lingraft align MODEL --text src.txt trg.txt --layer 8 --out links.txt

    With gold links: a table of alignment error rates, the curve over the layers (aer.svg), rows
    (results.jsonl) and the links of every layer (links/MODEL/SET/layer-NN.txt). Without: the links
    of one layer, a line a sentence pair. What is done is kept; a killed call goes on.
    """
    from lingraft.crosslingual.alignment import Settings
    from lingraft.crosslingual.matching import METHODS

    if method not in METHODS:
        raise RecipeError(f"--method {method}: allowed: {', '.join(METHODS)}")
    if not clamp and method != "ot":
        raise RecipeError(f"--no-clamp: belongs to --method ot; {method} clamps nothing")
    if out is None:
        raise RecipeError("--out: say where the links go: a folder with --gold, else a file")
    settings = Settings(method, clamp, _layers(layer), batch_tokens)
    if not gold:
        _check_plain(models, text)
        ask.check_idle(context, SCORES, "is for scoring links; give --gold FILE, or leave it out")
        assert models
        assert text
        _write_file(models[0], text, out, settings, overwrite=overwrite)
        return
    from lingraft.crosslingual import alignment_run

    call = alignment_run.Call(
        ask.labelled(models or [], ask.names_in(label)),
        _sets(gold, text or [], base, outside),
        settings,
        tuple(dict.fromkeys(ask.names_in(baseline))),
        dev,
        resamples,
        reference,
        overwrite,
        ask.command_line(),
    )
    report = alignment_run.score(call, out)
    for table in report.tables:
        console.show(table, best="")
    console.line(f"written: {', '.join(map(str, report.written))}; links: {out / 'links'}")


def _layers(text: str | None) -> tuple[int, ...] | None:
    if text is None or text == "all":
        return None
    if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", text):
        raise RecipeError(f"--layer {text}: write numbers, as 8 or 0,4,8, or all")
    return tuple(sorted({int(part) for part in text.split(",")}))


def _check_plain(models: list[str] | None, text: list[Path] | None) -> None:
    """Without gold there is one model and one text."""
    if not models or len(models) != 1:
        raise RecipeError("give one model to link sentences by, or --gold FILE to compare models")
    if not text:
        raise RecipeError("--text: give the sentence pairs: SOURCE TARGET, or one .tsv or .jsonl")


def _write_file(
    model: str, text: list[Path], out: Path, settings: Settings, *, overwrite: bool
) -> None:
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
        usual = f" (two thirds of {depth}; --layer chooses another)"
    assert settings.layers is not None
    if len(settings.layers) != 1:
        raise RecipeError("--layer: one file holds the links of one layer; give one number")
    done = alignment_run.write(model, groups[0], out, settings, overwrite=overwrite)
    console.line(
        f"{out}: {done['links']:,} links of {done['pairs']:,} sentence pairs, layer "
        f"{settings.layers[0]}{usual}, {done['tokens_per_second']:,} tokens/s"
    )


def _sets(gold: list[str], text: list[Path], base: int | None, outside: str) -> tuple[GoldSet, ...]:
    """The gold sets; those without sentences take the texts in order."""
    from lingraft.corpus.readers.lines import kind
    from lingraft.crosslingual import bitext, links

    choices: dict[str, links.Outside] = {"stop": "stop", "drop": "drop", "miss": "miss"}
    if outside not in choices:
        raise RecipeError(f"--outside {outside}: allowed: {', '.join(choices)}")
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
        gold_set = links.read(name, path, own, base=base, outside=choices[outside])
        gold_sets.append(gold_set)
    return tuple(gold_sets)


def _named(entry: str) -> tuple[str, Path]:
    """Name and file of `NAME=FILE`; a file alone is called as it is, without its suffix."""
    name, path = ask.named_file(entry, "--gold")
    if not name:
        name = re.sub(r"(\.(jsonl|txt|gz|xz|bz2|zst|tsv))+$", "", path.name.lower())
        name = re.sub(r"[^a-z0-9._+-]+", "-", name).strip("-.") or "gold"
    return name, path
