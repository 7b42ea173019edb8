"""`lingraft evaluate`: it parses, calls and prints."""

from __future__ import annotations

from typing import Annotated

import typer

from lingraft.commands import console


def command(
    model: Annotated[
        str,
        typer.Argument(
            help="A masked language model, or a causal one of `lingraft list families`: directory, "
            "Hub id or name."
        ),
    ],
    text: Annotated[
        list[str],
        typer.Option(help="Held-out text: files or directories; several may follow."),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Other models, to compare on the same text (masked ones on the words that both "
            "score)."
        ),
    ] = None,
    lang: Annotated[
        str, typer.Option(help="Language of a masked model's text, for sentence splitting.")
    ] = "und",
    sentences: Annotated[
        int,
        typer.Option(min=1, help="At most this many sentences; of a causal model about as much."),
    ] = 10_000,
    rate: Annotated[
        float, typer.Option(help="Share of the tokens that is hidden from a masked model.")
    ] = 0.15,
    seed: Annotated[int, typer.Option(help="Seed of the masks.")] = 0,
    words: Annotated[
        int,
        typer.Option(min=0, help="Words scored for a masked model's bits per character; 0: none."),
    ] = 2_000,
    precision: Annotated[str, typer.Option(help="auto, bf16 or fp32.")] = "auto",
) -> None:
    """Print a model's intrinsic metrics on text, as one JSON object.

    Of a masked model: perplexity, hits@k, MRR, mean rank, and bits per character of whole words.

    Of a causal model: bits per byte and per character of whole documents, perplexity, hits@k and
    ranks of the next token.
    """
    from lingraft.pipeline import standalone

    result = standalone.evaluate(
        [model, *(against or ())],
        text,
        language=lang,
        sentences=sentences,
        rate=rate,
        seed=seed,
        num_words=words,
        precision=precision,
    )
    console.json_object(result)
