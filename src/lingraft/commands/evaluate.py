"""`lingraft evaluate`: it parses, calls and prints."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError

OF_MASKED = ("lang", "rate", "seed", "words")
OF_TEXT = ("sentences", *OF_MASKED)
"""Parameters."""


def command(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A masked language model, or a causal one of `lingraft list families`: directory, "
            "Hub id or name."
        ),
    ],
    text: Annotated[
        list[str] | None,
        typer.Option(help="Held-out text: files or directories; several may follow."),
    ] = None,
    choices: Annotated[
        list[str] | None,
        typer.Option(
            help="Multiple-choice questions for a causal model: JSONL, JSON, CSV or TSV; several "
            "may follow."
        ),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            help="How their columns are read: kobest-copa, hellaswag … (`lingraft list shapes`), "
            "or a TOML file. Without: context, choices, label."
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Other models, to compare on the same text (masked ones on the words that both "
            "score) and questions."
        ),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="At most this many questions of a file.")
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
    ranks of the next token; and accuracies in multiple choice by likelihood.
    """
    from lingraft.pipeline import standalone
    from lingraft.pretrained.load import load_config
    from lingraft.recipe import Choices, catalogue

    if not text and not choices:
        raise RecipeError("give --text, --choices or both; there is nothing to evaluate on")
    for name, value in {"--shape": shape, "--questions": questions}.items():
        if value and not choices:
            raise RecipeError(f"{name}: is for questions; give --choices FILE too")
    result: dict[str, Any] = {}
    asked = [Choices(file=file, shape=shape) for file in choices or ()]
    if not text:
        ask.check_idle(context, OF_TEXT, "is for text; give --text FILE too, or leave it out")
    elif standalone.is_causal(load_config(catalogue.resolve(model))):
        ask.check_idle(context, OF_MASKED, f"is for masked models, not for {model}; leave it out")
    if text and asked:  # before it is scored for nothing; without it `answer` begins so
        standalone.check_answerable((model, *(against or ())), asked, questions)
    if text:
        result |= standalone.evaluate(
            [model, *(against or ())],
            text,
            language=lang,
            sentences=sentences,
            rate=rate,
            seed=seed,
            num_words=words,
            precision=precision,
        )
    if asked:
        result |= standalone.answer(
            model, asked, against=against or (), limit=questions, precision=precision
        )
    console.json_object(result)
