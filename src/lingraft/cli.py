"""The command line: the app, and one file a command in `commands/`; nothing heavy is loaded."""

from __future__ import annotations

import importlib
import logging
import math
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from lingraft import __version__, log
from lingraft.commands import console, options
from lingraft.errors import LingraftError, RecipeError, explain
from lingraft.recipe import decoding

COMMANDS: tuple[str, ...] = ("adapt", "demo", "recipe", "check", "stage", "evaluate", "report")
COMMANDS += ("list", "corpus", "study", "probe", "sources", "compare", "finetune", "probe-source")
COMMANDS += ("retrieve", "export-sentences", "align", "encoder-decoder", "translate")
COMMANDS += ("score-translations", "bench")
"""In the order of the help; each is `command` of a module that imports what is heavy later."""

app = typer.Typer(
    name="lingraft",
    help="Graft a language onto a pretrained language model: "
    "source model and raw text in, checkpoint and report out.",
    no_args_is_help=True,
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
    if not options.is_first_process():
        logging.getLogger("lingraft").setLevel(logging.ERROR)


for _name in COMMANDS:
    _module = importlib.import_module(f"lingraft.commands.{_name.replace('-', '_')}")
    app.command(_name, cls=Command)(_module.command)


MANY = (
    *("--text", "--trim", "--lexicons", "--only", "--gold", "--pairs", "--dev", "--kept"),
    *("--choices", "--against", "--lm-eval"),
)
"""Options that several values may follow."""


def spread(arguments: list[str], options: tuple[str, ...] = MANY) -> list[str]:
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


COMMAND_LINE = typer.main.get_command(app)
"""What typer makes of the app, once a process: it reads the annotations of every command."""


def main() -> None:
    """Entry point: errors that the user can mend are one line, and the exit status is 1."""
    try:
        COMMAND_LINE(args=spread(sys.argv[1:]), standalone_mode=True)
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
