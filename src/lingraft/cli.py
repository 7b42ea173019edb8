"""The command line. Thin: it parses, calls, prints; imports what is heavy when it is needed."""

from __future__ import annotations

import json
import logging
import math
import os
import shlex
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from lingraft import __version__, log
from lingraft.commands import bench as benchmarks
from lingraft.commands import compare as comparison
from lingraft.commands import console
from lingraft.commands import corpus as curation
from lingraft.commands import finetune as finetuning
from lingraft.commands import probe_source as probing
from lingraft.commands import study as commands
from lingraft.errors import LingraftError, RecipeError, explain
from lingraft.recipe import decoding

if TYPE_CHECKING:
    from lingraft.recipe import Recipe

app = typer.Typer(
    name="lingraft",
    help="Graft a language onto a pretrained language model: "
    "source model and raw text in, checkpoint and report out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
INTERRUPTED = 128 + signal.SIGINT


class Command(TyperCommand):
    """A command whose numbers are what numpy, torch and the operating system can hold."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            RecipeError: a whole number is beyond 64 bits, or another one not finite.
        """
        for name, value in ctx.params.items():
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, int) and abs(value) > decoding.MAX_INTEGER:
                raise RecipeError(f"{option}: {decoding.TOO_LARGE}")
            if isinstance(value, float) and not math.isfinite(value):
                raise RecipeError(f"{option}: must be a finite number; got {value:g}")
        return super().invoke(ctx)


command = partial(app.command, cls=Command)

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="a.b=c",
        help="Override a value of the recipe, e.g. --set phases.0.budget.value=10",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        console.line(__version__)
        raise typer.Exit


@app.callback()
def everywhere(
    verbose: Annotated[bool, typer.Option("--verbose", help="Say more.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Warnings and errors only.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Options of every command."""
    log.set_up(verbose=verbose, quiet=quiet)
    if int(os.environ.get("RANK", "0")) > 0:  # under torchrun only the first process speaks
        logging.getLogger("lingraft").setLevel(logging.ERROR)


@command()
def adapt(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (TOML). Leave it out and use --source, --text …")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Source model: directory, Hub id (FacebookAI/roberta-base) or a name of "
            "`lingraft list models` (xlm-r-base)."
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="Raw text: files, directories, or hub:DATASET; several may follow."),
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="Target language, a BCP 47 code such as ko.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The run's folder; runs/NAME by default.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="xpt, xpt-sp or scratch: `lingraft list methods`.")
    ] = "xpt",
    preset: Annotated[
        str, typer.Option(help="Hyper-parameters: xpt2021 or chameleon2022.")
    ] = "xpt2021",
    vocab_size: Annotated[
        int | None, typer.Option(help="Pieces of the new vocabulary (50000).")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps over all phases.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak; the preset's: 1e-4.")] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens in a step; the preset's: 256 sentences.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Also train this method on the same budget, to compare: scratch."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, order and masks.")] = None,
    settings: Settings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out; redo what changed.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the run in --out first.")
    ] = False,
    push_to_hub: Annotated[
        str | None, typer.Option(help="Also upload the model under this name.")
    ] = None,
) -> None:
    """Adapt a model to a language, from raw text to checkpoint and report.

    With a recipe:     lingraft adapt recipes/demo.toml --out runs/demo

    Without:           lingraft adapt --source FacebookAI/roberta-base --text ko.txt --lang ko --out
        runs/ko

    The second form writes the recipe that it ran to OUT/recipe.toml. A killed run goes on where it
    was with the same command. What comes out is OUT/model (load it with transformers) and
    OUT/report.html.
    """
    needed: dict[str, object] = {"--source": source, "--text": text, "--lang": lang}
    sizes: dict[str, object] = {
        "--vocab-size": vocab_size,
        "--steps": steps,
        "--learning-rate": learning_rate,
        "--batch-tokens": batch_tokens,
    }
    assignments = list(settings or [])
    assignments += [f"export.push_to_hub={json.dumps(push_to_hub)}"] if push_to_hub else []
    assignments += [f"seed={seed}"] if seed is not None else []
    if recipe is not None:
        chosen = _from_file(recipe, needed | sizes, assignments)
    else:
        data: dict[str, Any] = {
            "language": lang,
            "source": {"model": source},
            "corpus": {"text": text},
            "method": {"name": method, "preset": preset},
            "baselines": [{"method": name} for name in baseline or []],
        }
        if vocab_size is not None:
            data["tokenizer"] = {"vocab_size": vocab_size}
        if steps is not None:
            data["method"]["budget"] = {"value": steps, "unit": "steps"}
        if learning_rate is not None:
            data["method"]["learning_rate"] = learning_rate
        if batch_tokens is not None:
            data["method"]["batch"] = {"size": batch_tokens, "unit": "tokens"}
        chosen = _from_options(data, needed, out_dir, assignments)
    folder = out_dir or Path("runs") / chosen.name
    from lingraft.pipeline import adapt as pipeline
    from lingraft.report import advice, tables

    run = pipeline.adapt(
        chosen,
        folder,
        resume=resume,
        overwrite=overwrite,
        command=shlex.join(["lingraft", *sys.argv[1:]]),
    )
    if int(os.environ.get("RANK", "0")) == 0:
        console.show(tables.for_terminal([run], console.out.width))
        console.line(advice.summary([run]))
        console.line(f"model:  {run.model_path}\nreport: {run.path / 'report.html'}")


def _from_file(recipe: Path, shorthand: dict[str, object], assignments: list[str]) -> Recipe:
    """The recipe in a file; `shorthand` holds the options that do not go with one."""
    from lingraft.recipe.methods import read_recipe

    given = [name for name, value in shorthand.items() if value]
    if given:
        raise RecipeError(
            f"{given[0]}: belongs to the form without a recipe; "
            "with one, use --set (say --set seed=1)"
        )
    return read_recipe(recipe, assignments)


def _from_options(
    data: dict[str, Any], needed: dict[str, object], out_dir: Path | None, assignments: list[str]
) -> Recipe:
    """The recipe that the options stand for; `needed` holds those that must be given."""
    from lingraft.recipe.methods import recipe_from

    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise RecipeError(
            f"give a recipe, or --source, --text and --lang; missing: {', '.join(missing)}"
        )
    if out_dir is None:
        raise RecipeError("--out: name the run's folder, for example --out runs/ko")
    named = {"name": out_dir.resolve().name or "run"}
    return recipe_from(named | data, assignments, "command line")


@command()
def check(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML).")], settings: Settings = None
) -> None:
    """Say whether a recipe is sound and what it will do; loads and downloads no model."""
    from lingraft.pipeline import preflight
    from lingraft.recipe.methods import read_recipe
    from lingraft.report.table import Column, table

    plan = preflight.check(read_recipe(recipe, settings or []))
    console.line(f"{recipe}: sound")
    console.line(f"stages: {' → '.join(plan.stages)}")
    console.line(f"text: {plan.text_files} files, {plan.text_bytes / 1e6:,.1f} MB as stored")
    if plan.parameters:
        parts = ", ".join(f"{part} {size:,}" for part, size in plan.by_part.items() if size)
        console.line(f"model: {plan.model_type}, {plan.parameters:,} parameters ({parts})")
    rows = [
        (
            phase["name"],
            phase["trains"],
            "?" if phase["trainable"] is None else f"{phase['trainable']:,}",
            phase["budget"],
            phase["batch"],
            f"{phase['learning_rate']:g}",
            f"{phase['tokens_estimate']:,.0f}",
        )
        for phase in plan.phases
    ]
    texts = (Column("phase", "text"), Column("trains", "long"))
    head = (*texts, "parameters", "budget", "batch", "learning rate", "tokens (estimate)")
    console.show(table("", head, rows))
    if plan.disk_bytes_estimate and plan.memory_bytes_estimate:
        console.line(
            f"estimates: {plan.disk_bytes_estimate / 1e9:,.2f} GB on disk; "
            f"{plan.memory_bytes_estimate / 1e9:,.2f} GB of memory for weights, gradients "
            "and optimiser, activations on top"
        )
    for note in plan.notes:
        console.line(f"note: {note}")


@command()
def stage(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    name: Annotated[
        str, typer.Argument(help="corpus, tokenizer, graft, a phase, evaluation, model or report.")
    ],
) -> None:
    """Run one stage of a run alone; those before it must be done. Prints its counts as JSON."""
    from lingraft.pipeline import adapt as pipeline

    typer.echo(json.dumps(pipeline.run_stage(run, name), ensure_ascii=False))


@command()
def evaluate(
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


@command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Runs; the first is the main one.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="The page; RUN/report.html for one run.")
    ] = None,
) -> None:
    """Write the report of a run, or one page that compares several."""
    from lingraft.report import advice, tables
    from lingraft.report.pages import run as run_page
    from lingraft.rundir import Run

    opened = [Run.existing(path) for path in runs]
    target = out_file or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    console.show(tables.for_terminal(opened, console.out.width))
    console.line(advice.summary(opened))
    console.line(f"report: {run_page.write(opened, target)}")


@command("list")
def list_entries(
    what: Annotated[
        str,
        typer.Argument(
            help="families, initialisers, methods, presets, objectives, tasks or models"
        ),
    ],
) -> None:
    """Print what there is, as a table made from the code."""
    from lingraft.commands import listing

    console.show(listing.table_of(what))


command()(curation.corpus)
command()(commands.study)
command()(commands.probe)
command()(comparison.compare)
command()(finetuning.finetune)
command()(probing.probe_source)
command()(benchmarks.bench)


def spread(arguments: list[str], options: tuple[str, ...] = ("--text", "--only")) -> list[str]:
    """Let several values follow one option: `--text a b` becomes `--text a --text b`."""
    result: list[str] = []
    current = ""
    for argument in arguments:
        if argument.startswith("-"):
            current = argument if argument in options else ""
            result.append(argument)
        elif current and result[-1] != current:
            result += [current, argument]
        else:
            result.append(argument)
    return result


def main() -> None:
    """Entry point: errors that the user can mend are one line, and the exit status is 1."""
    try:
        app(args=spread(sys.argv[1:]), standalone_mode=True)
    except LingraftError as error:
        typer.echo(f"lingraft: {' '.join(str(error).split())}", err=True)
        sys.exit(error.exit_status)
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer's answer to Ctrl-C
            typer.echo("lingraft: stopped; the same command with --resume goes on", err=True)
        raise
    except OSError as error:
        typer.echo(f"lingraft: {explain(error)}", err=True)
        sys.exit(1)
