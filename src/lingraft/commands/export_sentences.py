"""`lingraft export-sentences`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.errors import RecipeError


def command(
    model: Annotated[str, typer.Argument(help="Any stock encoder: directory, Hub id or name.")],
    out_dir: Annotated[Path, typer.Option("--out", help="The folder, made here.")],
    layer: Annotated[
        int | None, typer.Option(help="Whose states are pooled; the last by default.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="mean (default) over all tokens, or cls.")
    ] = None,
    retrieval: Annotated[
        Path | None,
        typer.Option(help="Take layer and pooling from this --out of `lingraft retrieve`."),
    ] = None,
) -> None:
    """Write a model as sentence encoder, cut at a layer, for sentence-transformers and mteb.

    lingraft export-sentences runs/ko/model --retrieval runs/retrieve --out runs/ko/sentences

    The folder is a stock checkpoint too. Its states are compared with the model's before it is
    called done. Then, without lingraft: SentenceTransformer("runs/ko/sentences").encode([…]).
    """
    from lingraft.recipe import catalogue

    if retrieval is not None and (layer is not None or pool is not None):
        raise RecipeError("--retrieval gives layer and pooling; leave --layer and --pool out")
    from lingraft.crosslingual import sentence_export

    name = catalogue.resolve(model)
    settings: tuple[int | None, str] = (layer, pool or "mean")
    if retrieval is not None:
        settings = sentence_export.chosen_in(retrieval, name)
    facts = sentence_export.export(name, out_dir, *settings)
    why = "for the norm that this model ends with" if facts.layer else "since a model needs one"
    more = "" if facts.kept == facts.layer else f", one more {why}"
    console.line(
        f"{out_dir}: layer {facts.layer} of {facts.depth}, {settings[1]} pooling; "
        f"{facts.kept} layer{'s'[: facts.kept != 1]} kept{more}; "
        f"states differ by {facts.difference:.1g} at most"
    )
