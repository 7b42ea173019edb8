"""`lingraft translate`: it parses, calls and prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.parsing import Keys, read, takes
from lingraft.report.next_step import NextStep


class Decoding(Keys):
    """Settings of translating a text."""

    beams: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Beams of the search; 1 is greedy and fastest. As the model says."""
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    """Longest translation, in tokens. As the model says, or 200."""
    batch_tokens: Annotated[int, Field(ge=1)] = 4_096
    """Source tokens times beams in the model at once."""
    source_language: str | None = None
    """Code of the text's language, for mBART (en_XX), M2M (en), NLLB (eng_Latn)."""
    target_language: str | None = None
    """Code of the language to translate into, for the same."""
    prefix: str = ""
    """Put before every line: "translate English to German: " for T5, say."""


@takes(lambda: (Decoding,))
def command(
    model: Annotated[
        str,
        typer.Argument(
            help="Any stock encoder-decoder (BART, T5, mBART, M2M, NLLB, Marian, EncoderDecoder): "
            "a folder, a Hub id or a name."
        ),
    ],
    text: Annotated[
        Path,
        typer.Option(help="A sentence a line, also .gz .xz .bz2 .zst; - reads standard input."),
    ],
    out: Annotated[
        Path, typer.Option(help="The file of translations, a line for a line; - prints them.")
    ],
    settings: ask.OwnKeys = None,
    force: ask.Replace = False,
) -> object:
    """Translate a text with any stock encoder–decoder: one line in, one line out.

    lingraft translate runs/de-en/model --text test.de --out hypothesis.en

    lingraft translate facebook/nllb-200-distilled-600M --text en.txt --out ko.txt
        source_language=eng_Latn target_language=kor_Hang

    An empty line stays empty, and no translation holds a line break. Lines of like lengths go
    through the model together, which changes no translation. What is done is kept: the
    same command goes on after a kill. `sacrebleu` scores the file (docs/guides/translation.md).
    """
    from lingraft.crosslingual.translator import Settings, Text, Translator, translations, write
    from lingraft.recipe import catalogue

    how = Settings(**dict(read(Decoding, settings)))
    if str(out) == "-":
        lines = Text(text)  # before the model is loaded
        for block in translations(Translator.load(catalogue.resolve(model), how), lines):
            typer.echo("\n".join(block))
        return None
    done = write(model, text, out, how, force=force)
    score = ("sacrebleu", "REFERENCE", "-i", str(out), "-m", "bleu", "chrf")
    console.summary(
        ("what", f"{text}, translated by {model}"),
        ("lines", f"{done['lines']:,}, {done['empty']:,} of them empty"),
        ("speed", f"{done['lines_per_second']:,.1f} lines/s"),
        ("file", out),
        next_step=NextStep("How good is it? With translations by people:", shlex.join(score)),
    )
    return {"file": out} | done
