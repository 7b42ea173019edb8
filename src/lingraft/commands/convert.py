"""`lingraft convert sentence-encoder` and `seq2seq`: they parse, call and print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import Field

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.parsing import Keys, read, takes
from lingraft.errors import RecipeError
from lingraft.recipe.base import Names

command = typer.Typer(
    help="Make another kind of model of an encoder.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


class Pooling(Keys):
    """Settings of a sentence's vector."""

    layer: int | None = None
    """Whose states are pooled; the last by default."""
    pool: str | None = None
    """mean (default) over all tokens, or cls."""
    retrieval: str | None = None
    """Take layer and pooling from this --out of `lingraft analyze retrieval`."""


class Shape(Keys):
    """Shape of the encoder-decoder."""

    decoder_layers: int | None = None
    """Layers of the decoder; by default a quarter of the encoder's, as in VECO."""
    keep: Literal["last", "first"] = "last"
    """The decoder starts from the encoder's last layers, or its first."""
    format: Literal["encoder-decoder", "bart"] = "encoder-decoder"
    """encoder-decoder keeps the head that turns states into logits; bart leaves its transform out,
    as the paper's code, and stores embeddings once."""
    random: bool = False
    """Draw all weights anew: the shape alone is kept."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of weights that are drawn: random, cross-attention."""
    trim: Names = ()
    """Text of both languages, plain or TAB-separated: pieces that it does not have leave vocabulary
    and embeddings."""
    decoder_start: str | None = None
    """The token that the decoder starts with; by default the end of a sentence."""


@command.command("sentence-encoder")
@takes(lambda: (Pooling,))
def sentence_encoder(
    model: Annotated[str, typer.Argument(help="Any stock encoder: a folder, a Hub id or a name.")],
    out_dir: ask.NewFolder,
    settings: ask.OwnKeys = None,
) -> object:
    """Cut a model at a layer, for sentence-transformers and mteb.

    lingraft convert sentence-encoder runs/ko/model layer=8 --out runs/ko/sentences

    lingraft convert sentence-encoder runs/ko/model retrieval=runs/retrieve --out runs/ko/sentences

    The folder is a stock checkpoint too. Its states are compared with the model's before it is
    called done. Then, without lingraft: SentenceTransformer("runs/ko/sentences").encode([…]).
    """
    from lingraft.recipe import catalogue

    given = read(Pooling, settings)
    if given.retrieval is not None and (given.layer is not None or given.pool is not None):
        raise RecipeError("retrieval: gives layer and pooling; leave layer and pool out")
    from lingraft.crosslingual import sentence_export

    name = catalogue.resolve(model)
    chosen: tuple[int | None, str] = (given.layer, given.pool or "mean")
    if given.retrieval is not None:
        chosen = sentence_export.chosen_in(Path(given.retrieval), name)
    facts = sentence_export.export(name, out_dir, *chosen)
    why = "for the norm that this model ends with" if facts.layer else "since a model needs one"
    more = "" if facts.kept == facts.layer else f", one more {why}"
    console.line(
        f"{out_dir}: layer {facts.layer} of {facts.depth}, {chosen[1]} pooling; "
        f"{facts.kept} layer{'s'[: facts.kept != 1]} kept{more}; "
        f"states differ by {facts.difference:.1g} at most"
    )
    return {
        "model": out_dir,
        "layer": facts.layer,
        "pool": chosen[1],
        "difference": facts.difference,
    }


@command.command("seq2seq")
@takes(lambda: (Shape,))
def seq2seq(
    model: Annotated[
        str,
        typer.Argument(
            help="A BERT, RoBERTa, XLM-R or ELECTRA encoder, with or without cross-attention: a "
            "folder, a Hub id or a name."
        ),
    ],
    out_dir: ask.NewFolder,
    settings: ask.OwnKeys = None,
) -> object:
    """Make an encoder-decoder of an encoder, to learn to translate.

    lingraft convert seq2seq runs/veco/model decoder_layers=3 --out runs/translator

    The encoder is the whole model, the decoder its last layers with their cross-attention; a model
    without gets fresh one. Both share embeddings. AutoModelForSeq2SeqLM opens the folder.
    """
    from lingraft.models import encoder_decoder
    from lingraft.recipe import catalogue

    given = read(Shape, settings)
    options = encoder_decoder.Options(**dict(given) | {"trim": tuple(map(Path, given.trim))})
    result = encoder_decoder.make(catalogue.resolve(model), out_dir, options)
    first, last = result.keep[0] + 1, result.keep[-1] + 1
    layers = f"layer {first}" if first == last else f"layers {first} to {last}"
    console.line(
        f"{out_dir}: encoder of {result.depth} layers, decoder of {layers}; "
        f"{result.parameters:,} parameters, embeddings counted once"
    )
    if given.random:
        console.line(f"all weights are fresh (seed {given.seed})")
    elif result.fresh_cross_attention:
        console.line(f"cross-attention: the model has none; fresh, N(0, 0.02), seed {given.seed}")
    pieces, before = result.pieces
    if given.trim:
        console.line(f"vocabulary: {pieces:,} of {before:,} pieces")
    return {"model": out_dir, "parameters": result.parameters, "pieces": pieces}
