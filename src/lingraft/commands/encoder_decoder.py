"""`lingraft encoder-decoder`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lingraft.commands import console


def command(
    model: Annotated[
        str,
        typer.Argument(
            help="A BERT, RoBERTa, XLM-R or ELECTRA encoder, with or without cross-attention: "
            "RUN/model, directory, Hub id or name."
        ),
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="The folder, made here.")],
    decoder_layers: Annotated[
        int | None,
        typer.Option(
            help="Layers of the decoder; by default a quarter of the encoder's, as in VECO."
        ),
    ] = None,
    keep: Annotated[
        Literal["last", "first"],
        typer.Option(help="The decoder starts from the encoder's last layers, or its first."),
    ] = "last",
    format_: Annotated[
        Literal["encoder-decoder", "bart"],
        typer.Option(
            "--format",
            help="encoder-decoder keeps the head that turns states into logits; bart leaves its "
            "transform out, as the paper's code, and stores embeddings once.",
        ),
    ] = "encoder-decoder",
    random: Annotated[
        bool, typer.Option("--random", help="Draw all weights anew: the shape alone is kept.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Of weights that are drawn: --random, cross-attention.")
    ] = 0,
    trim: Annotated[
        list[Path] | None,
        typer.Option(
            help="Text of both languages, plain or TAB-separated: pieces that it does not have "
            "leave vocabulary and embeddings."
        ),
    ] = None,
    decoder_start: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="What the decoder starts with; by default the end of a sentence."
        ),
    ] = None,
) -> None:
    """Make an encoder–decoder of an encoder's weights, to train translation with.

    lingraft encoder-decoder runs/veco/model --out runs/translator --decoder-layers 3

    The encoder is the whole model, the decoder its last layers with their cross-attention; a model
    without gets fresh one. Both share embeddings. AutoModelForSeq2SeqLM opens the folder.
    """
    from lingraft.models import encoder_decoder
    from lingraft.recipe import catalogue

    options = encoder_decoder.Options(
        decoder_layers, keep, format_, random, seed, tuple(trim or ()), decoder_start
    )
    result = encoder_decoder.make(catalogue.resolve(model), out_dir, options)
    first, last = result.keep[0] + 1, result.keep[-1] + 1
    layers = f"layer {first}" if first == last else f"layers {first} to {last}"
    console.line(
        f"{out_dir}: encoder of {result.depth} layers, decoder of {layers}; "
        f"{result.parameters:,} parameters, embeddings counted once"
    )
    if random:
        console.line(f"all weights are fresh (seed {seed})")
    elif result.fresh_cross_attention:
        console.line(f"cross-attention: the model has none; fresh, N(0, 0.02), seed {seed}")
    if trim:
        pieces, before = result.pieces
        console.line(f"vocabulary: {pieces:,} of {before:,} pieces")
