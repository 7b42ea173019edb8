"""`lingraft translate`: it parses, calls and prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.report.next_step import NextStep


def command(
    model: Annotated[
        str,
        typer.Argument(
            help="Any stock encoder–decoder (BART, T5, mBART, M2M, NLLB, Marian, EncoderDecoder): "
            "directory, Hub id or name."
        ),
    ],
    text: Annotated[
        Path,
        typer.Option(help="A sentence a line, also .gz .xz .bz2 .zst; - reads standard input."),
    ],
    out: Annotated[
        Path, typer.Option(help="The file of translations, a line for a line; - prints them.")
    ],
    beams: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000, help="Of beam search; 1 is greedy and fastest. As the model says."
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Longest translation, in tokens. As the model says, or 200."),
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option(min=1, help="Source tokens times beams in the model at once.")
    ] = 4_096,
    source_language: Annotated[
        str | None,
        typer.Option(
            help="Code of the text's language, for mBART (en_XX), M2M (en), NLLB (eng_Latn)."
        ),
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(help="Code of the language to translate into, for the same.")
    ] = None,
    prefix: Annotated[
        str,
        typer.Option(help='Put before every line: "translate English to German: " for T5, say.'),
    ] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out.")] = False,
) -> None:
    """Translate a text with any stock encoder–decoder: one line in, one line out.

    lingraft translate runs/de-en/model --text test.de --out hypothesis.en

    An empty line stays empty, and no translation holds a line break. Lines of like lengths go
    through the model together, which changes no translation. What is done is kept: the
    same command goes on after a kill. `sacrebleu` scores the file (docs/translation.md).
    """
    from lingraft.crosslingual.translator import Settings, Text, Translator, translations, write
    from lingraft.recipe import catalogue

    settings = Settings(
        beams, max_new_tokens, batch_tokens, source_language, target_language, prefix
    )
    if str(out) == "-":
        lines = Text(text)  # before the model is loaded
        for block in translations(Translator.load(catalogue.resolve(model), settings), lines):
            typer.echo("\n".join(block))
        return
    done = write(model, text, out, settings, overwrite=overwrite)
    score = ("sacrebleu", "REFERENCE", "-i", str(out), "-m", "bleu", "chrf")
    console.summary(
        ("what", f"{text}, translated by {model}"),
        ("lines", f"{done['lines']:,}, {done['empty']:,} of them empty"),
        ("speed", f"{done['lines_per_second']:,.1f} lines/s"),
        ("file", out),
        next_step=NextStep("How good is it? With translations by people:", shlex.join(score)),
    )
