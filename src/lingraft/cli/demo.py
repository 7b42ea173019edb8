"""`lingraft demo`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.cli import adapt, options as ask, parsing
from lingraft.recipe import Recipe
from lingraft.report import next_step

if TYPE_CHECKING:
    from lingraft.rundir import Run


@parsing.takes(lambda: (Recipe,), listed=False)
def command(
    settings: ask.RecipeKeys = None,
    out_dir: ask.NewFolder = Path("runs/demo"),
    method: ask.MethodName = None,
    files_to: Path | None = None,
    update: ask.UpdateRun = False,
    force: ask.ForceRun = False,
) -> object:
    """Make a Korean model of a small English one: offline, in minutes, with the package's own data.

    lingraft demo --out runs/demo

    lingraft demo --method xpt seed=1 --out runs/demo-xpt

    lingraft demo --files-to demo

    A model from random weights is trained beside it on the same text for as long, to compare. What
    comes out is OUT/model and OUT/report.html.

    Options:
        files_to: Train nothing. Copy the demo's source model and text into this folder, to try
            other commands on them.
    """
    from lingraft.pipeline import demo

    if files_to is not None:
        demo.copy_files(files_to)
        text = files_to / demo.TEXT
        source, out = files_to / "source", Path("runs/mine")
        flags = ("--source", source, "--text", text, "--lang", "ko", "--budget", "5m", "--out", out)
        step = next_step.NextStep("Make a model of them:", next_step.command("adapt", *flags))
        parsing.summary(("source", source), ("text", text), next_step=step)
        return {"source": source, "text": text}
    from lingraft.pipeline import adapt as pipeline

    recipe = demo.recipe(settings or [], method)
    run = pipeline.adapt(recipe, out_dir, update=update, force=force, command=ask.command_line())
    if ask.is_first_process():
        adapt.show(run)
        _answer(run, demo.EXAMPLE)
    return adapt.facts(run)


def _answer(run: Run, sentence: str) -> None:
    """Print what the model puts into a gap."""
    from transformers import pipeline

    from lingraft.tokenizer import files as tokenizer_files

    tokenizer = tokenizer_files.load(str(run.model_path))
    fill = pipeline("fill-mask", model=str(run.model_path), tokenizer=tokenizer)
    text = sentence.format(mask=tokenizer.mask_token)
    guesses = [f"{guess['token_str'].strip()} ({guess['score']:.0%})" for guess in fill(text)[:3]]
    parsing.line(f"{text}  →  {', '.join(guesses)}")
