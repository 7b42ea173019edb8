"""`lingraft evaluate`: it parses, calls and prints."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lingraft.errors import RecipeError


def command(
    model: Annotated[
        str, typer.Argument(help="Any masked language model: directory, Hub id or name.")
    ],
    text: Annotated[
        list[str], typer.Option(help="Held-out text: files or directories; several may follow.")
    ],
    lang: Annotated[
        str, typer.Option(help="Language of the text, for sentence splitting.")
    ] = "und",
    sentences: Annotated[int, typer.Option(min=1, help="At most this many sentences.")] = 10_000,
    rate: Annotated[float, typer.Option(help="Share of the tokens that is hidden.")] = 0.15,
    seed: Annotated[int, typer.Option(help="Seed of the masks.")] = 0,
    words: Annotated[
        int, typer.Option(min=0, help="Words scored for bits per character; 0 leaves it out.")
    ] = 2_000,
    precision: Annotated[str, typer.Option(help="auto, bf16 or fp32.")] = "auto",
) -> None:
    """Print a model's intrinsic metrics on text, as one JSON object.

    Perplexity, hits@k, MRR, mean rank, and bits per character.
    """
    from lingraft.pipeline import standalone

    if not 0 < rate < 1:
        raise RecipeError(f"--rate: must be above 0 and below 1; got {rate:g}")
    if precision not in ("auto", "bf16", "fp32"):
        raise RecipeError(f"--precision: must be auto, bf16 or fp32; got {precision}")
    result = standalone.evaluate(
        model,
        text,
        language=lang,
        sentences=sentences,
        rate=rate,
        seed=seed,
        num_words=words,
        precision=precision,
    )
    typer.echo(json.dumps(result, ensure_ascii=False))
