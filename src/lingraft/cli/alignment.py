"""`lingraft analyze alignment`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lingraft.cli import console
from lingraft.cli import options as ask
from lingraft.cli.parsing import read, takes
from lingraft.crosslingual.settings import Linking
from lingraft.errors import RecipeError


@takes(lambda: (Linking,))
def command(
    models: ask.Encoders,
    text: Annotated[list[Path], typer.Option(metavar="SOURCE TARGET")],
    settings: ask.OwnKeys = None,
    gold: Annotated[list[str] | None, typer.Option(metavar="[NAME=]FILE")] = None,
    label: ask.Labels = None,
    out_dir: ask.ResultsFolder = Path("runs/aligned"),
    force: ask.Replace = False,
) -> object:
    """Link words of sentence pairs; score links against gold.

    lingraft analyze alignment MODEL --gold de-en=gold.txt --text test.de test.en --out aligned

    lingraft analyze alignment MODEL --text src.txt trg.txt layers=[8] --out aligned

    The links of every layer are OUT/links/MODEL/SET/layer-NN.txt. With gold links: a table of
    alignment error rates beside links along the diagonal, the curve over the layers (curve.svg) and
    rows (results.jsonl). What is done is kept.

    Options:
        text: Sentences, one a line; for several gold files two each, in their order.
        gold: Gold links, as '0-0 1p2' (p: only possible).
    """
    from lingraft.crosslingual import alignment_run, links

    asked = read(Linking, settings)
    named = (ask.named_file(entry, "--gold") for entry in gold or ())
    files: list[tuple[str, Path | None]] = [(name or path.stem, path) for name, path in named]
    files = files or [("text", None)]
    if len(text) != 2 * len(files):
        raise RecipeError(f"--text: {len(text)} files for {len(files)} sets; give two for each")
    sides = zip(files, text[::2], text[1::2], strict=True)
    sets = [links.read(name, path, source, target) for (name, path), source, target in sides]
    by_label = ask.labelled(models, label or [])
    tables = alignment_run.score(by_label, sets, out_dir, asked, force=force)
    scores = console.show(*tables, best="")
    console.line(f"links{', table.md, curve.svg and results.jsonl' if tables else ''}: {out_dir}")
    return {"results": out_dir, "scores": scores}
