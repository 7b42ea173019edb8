"""`lingraft convert sentence-encoder`, `seq2seq` and `gguf`: they parse, call and print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import Field

from lingraft.cli import options as ask, parsing
from lingraft.crosslingual.settings import Pooling
from lingraft.errors import RecipeError
from lingraft.recipe.base import Keys

command = ask.group("Make another kind of model, or a file for another program.")


class Shape(Keys):
    """Shape of the encoder-decoder."""

    decoder_layers: int | None = None
    """Layers of the decoder; by default a quarter of the encoder's, as in VECO."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of cross-attention, where the model has none."""


class Numbers(Keys):
    """Numbers in the file."""

    dtype: Literal["source", "fp32", "bf16", "fp16"] = "source"
    """Type of the matrices; `source` takes the checkpoint's. llama-quantize makes smaller ones."""


@command.command("sentence-encoder")
@parsing.takes(lambda: (Pooling,))
def sentence_encoder(
    model: ask.Model, out_dir: ask.NewFolder, settings: ask.OwnKeys = None
) -> object:
    """Cut a model at a layer, for sentence-transformers and mteb.

    lingraft convert sentence-encoder runs/ko/model layer=8 --out runs/ko/sentences

    lingraft convert sentence-encoder runs/ko/model retrieval=runs/retrieve --out runs/ko/sentences

    The folder is a stock checkpoint too. Its states are compared with the model's before it is
    called done. Then, without lingraft: SentenceTransformer("runs/ko/sentences").encode([…]).
    """
    from lingraft.crosslingual import sentence_export
    from lingraft.recipe import catalogue

    given, name = parsing.read(Pooling, settings), catalogue.resolve(model)
    layer, pool = given.layer, given.pool or "mean"
    if given.retrieval is not None:
        if given.layer is not None or given.pool is not None:
            raise RecipeError("retrieval: gives layer and pooling; leave layer and pool out")
        layer, pool = sentence_export.chosen_in(Path(given.retrieval), name)
    done = sentence_export.export(name, out_dir, layer, pool)
    parsing.line(
        f"{out_dir}: layer {done['layer']} of {done['depth']}, {pool} pooling; "
        f"states differ by {done['difference']:.1g} at most"
    )
    return {"model": out_dir, "pool": pool} | done


@command.command("seq2seq")
@parsing.takes(lambda: (Shape,))
def seq2seq(model: ask.Model, out_dir: ask.NewFolder, settings: ask.OwnKeys = None) -> object:
    """Make an encoder-decoder of a BERT, RoBERTa, XLM-R or ELECTRA encoder, for translation.

    lingraft convert seq2seq runs/veco/model decoder_layers=3 --out runs/translator

    The encoder is the whole model, the decoder its last layers with their cross-attention; a model
    without gets fresh one. Both share embeddings. AutoModelForSeq2SeqLM opens the folder.
    """
    from lingraft.models import encoder_decoder
    from lingraft.recipe import catalogue

    given = parsing.read(Shape, settings)
    result = encoder_decoder.make(catalogue.resolve(model), out_dir, **dict(given))
    first, last = result.keep[0] + 1, result.keep[-1] + 1
    layers = f"layer {first}" if first == last else f"layers {first} to {last}"
    parsing.line(
        f"{out_dir}: encoder of {result.depth} layers, decoder of {layers}; "
        f"{result.parameters:,} parameters, embeddings counted once"
    )
    if result.fresh_cross_attention:
        parsing.line(f"cross-attention: the model has none; fresh, N(0, 0.02), seed {given.seed}")
    return {"model": out_dir, "parameters": result.parameters}


@command.command("gguf")
@parsing.takes(lambda: (Numbers,))
def gguf(
    model: ask.Model,
    out_file: Annotated[Path, typer.Option("--out", help="The file, made here.")],
    settings: ask.OwnKeys = None,
) -> object:
    """Write a causal model as one file for llama.cpp and what is built on it (ollama, LM Studio).

    lingraft convert gguf runs/ko/model --out ko.gguf

    Models and vocabularies of which llama.cpp would give other numbers or ids are refused.
    """
    from lingraft.models import llama_cpp
    from lingraft.recipe import catalogue

    given = parsing.read(Numbers, settings)
    done = llama_cpp.export(catalogue.resolve(model), out_file, given.dtype)
    parsing.line(f"{out_file}: {done['arch']} in {done['dtype']}, words cut by '{done['pre']}'")
    return {"file": out_file} | done
