"""`lingraft translate`: it parses, calls and prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lingraft.cli import options as ask, parsing
from lingraft.crosslingual.settings import Decoding
from lingraft.report.next_step import NextStep


@parsing.takes(lambda: (Decoding,))
def command(
    model: ask.Model,
    text: Annotated[Path, typer.Option()],
    out: Annotated[Path, typer.Option()],
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

    Options:
        text: A sentence a line, also .gz .xz .bz2.
        out: The file of translations, a line for a line.
    """
    from lingraft.crosslingual.translator import write

    done = write(model, text, out, parsing.read(Decoding, settings), force=force)
    score = ("sacrebleu", "REFERENCE", "-i", str(out), "-m", "bleu", "chrf")
    parsing.summary(
        ("what", f"{text}, translated by {model}"),
        ("lines", f"{done['lines']:,}, {done['empty']:,} of them empty"),
        ("speed", f"{done['lines_per_second']:,.1f} lines/s"),
        ("file", out),
        next_step=NextStep("How good is it? With translations by people:", shlex.join(score)),
    )
    return {"file": out} | done
