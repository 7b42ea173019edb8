"""The command line: the app, and one file a command in `commands/`; nothing heavy is loaded."""

from __future__ import annotations

import importlib
import inspect
import io
import logging
import math
import re
import signal
import sys
import textwrap
import time
from collections import UserDict
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from lingraft import __version__, devices, log, starting
from lingraft.commands import console, options
from lingraft.errors import LingraftError, RecipeError, explain, is_memory_full
from lingraft.paths import not_utf8
from lingraft.recipe import decoding
from lingraft.workers import check_one_process

PANELS: dict[str, tuple[str, ...]] = {
    "Make a model": ("demo", "adapt", "check", "recipe", "list"),
    "Prepare text": ("corpus",),
    "Look at a model": ("report", "evaluate", "stage"),
    "Judge models by tasks": ("finetune", "compare", "study"),
    "Sentences and translation": (
        *("retrieve", "export-sentences", "align"),
        *("encoder-decoder", "translate"),
    ),
}
"""Commands in the order of the help, in groups."""
GONE = {
    "bench": "speed and MFU stand in the log of every run (metrics.jsonl); benchmarks are in "
    "research/benchmarks/ of the repository",
    "score-translations": "sacrebleu does it by itself: sacrebleu REFERENCE -i FILE… -m bleu chrf "
    "--chrf-word-order 2 --paired-bs -f text (docs/translation.md)",
    "probe": "compare initializers with a study: lingraft study run "
    "recipes/probe-initializers.toml (docs/study.md)",
    "probe-source": "give the run and its tasks to lingraft finetune RUN --restore-source --task "
    "glue-rte (docs/finetuning-languages.md)",
    "sources": "compare candidates with a study: lingraft study run recipes/probe-sources.toml "
    "(docs/study.md)",
}
"""Commands of earlier versions, and what there is in their place."""
SEVERAL = ("adapt", "demo", "finetune", "stage", "study")
"""Commands that several processes can work on, or that say themselves what to do instead."""
COMMANDS = {
    name: importlib.import_module(f"lingraft.commands.{name.replace('-', '_')}").command
    for names in PANELS.values()
    for name in names
}
"""Each is `command` of a module that imports what is heavy later."""


def _help(command: Any) -> str | None:
    """Return what a command or a group says of itself."""
    return command.info.help if isinstance(command, typer.Typer) else inspect.getdoc(command)


class Built(UserDict[str, Any]):
    """What typer makes of the commands; it reads the annotations of one that is asked for."""

    def __getitem__(self, name: str) -> Any:
        if not isinstance(self.data[name], TyperCommand | TyperGroup):
            alone = self.data[name]
            if not isinstance(alone, typer.Typer):
                alone = typer.Typer(add_completion=False, rich_markup_mode=None)
                alone.command(name, cls=Command)(self.data[name])
            self.data[name] = typer.main.get_command(alone)
        return self.data[name]


class Commands(TyperGroup):
    """The commands in the groups of `PANELS`, each with its whole first sentence."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": Built(COMMANDS)})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is called; arguments are typer's.

        Raises:
            RecipeError: there is none of this name any more.
        """
        if args[0] in GONE:
            raise RecipeError(f"{args[0]} is gone: {GONE[args[0]]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write them into the help; arguments are typer's."""
        width = max(map(len, COMMANDS))
        for panel, names in PANELS.items():
            # without their options, which take long to build
            shown = (TyperCommand(name, help=_help(COMMANDS[name])) for name in names)
            with formatter.section(panel):
                rows = [(command.name, command.get_short_help_str(1_000)) for command in shown]
                formatter.write_dl(rows, col_max=width)


app = typer.Typer(
    name="lingraft",
    cls=Commands,
    help="Graft a language onto a pretrained language model: "
    "source model and raw text in, checkpoint and report out.\n\n"
    "New here? Try `lingraft demo` first. It needs no network and no GPU. "
    "`lingraft COMMAND --help` explains a command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SIGNALLED = 128
"""Below the exit status of what a signal has stopped."""
INTERRUPTED = SIGNALLED + signal.SIGINT


EXAMPLE = re.compile(r"(?:(?P<says>[A-Z][\w ]*): +)?(?P<code>lingraft .*)", re.DOTALL)
"""A paragraph of a command's docstring that says how to call it."""


class Command(TyperCommand):
    """A command whose numbers are what numpy, torch and the operating system can hold.

    Its examples stand in the help as a shell takes them.
    """

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write paragraphs and examples; arguments are typer's."""
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            example = EXAMPLE.fullmatch(paragraph)
            with formatter.indentation():
                if example is None:
                    formatter.write_text(" ".join(paragraph.split()))
                    continue
                if example["says"]:
                    formatter.write_text(f"{example['says']}:")
                words = re.sub(r" (?!--)", "\u00a0", " ".join(example["code"].split()))
                lines = textwrap.wrap(words, formatter.width - 8, break_on_hyphens=False)
                code = " \\\n      ".join(lines).replace("\u00a0", " ")
                formatter.write(f"    {code}\n")

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            RecipeError: a whole number is beyond 64 bits, or another one not finite; or torchrun
                started several processes of what one does.
        """
        if self.name not in SEVERAL:
            check_one_process(str(self.name), "start it without torchrun or accelerate launch")
        for name, value in ctx.params.items():
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, int) and abs(value) > decoding.MAX_INTEGER:
                raise RecipeError(f"{option}: {decoding.TOO_LARGE}")
            if isinstance(value, float) and not math.isfinite(value):
                raise RecipeError(f"{option}: must be a finite number; got {value:g}")
        return super().invoke(ctx)


def _version(value: bool) -> None:
    if value:
        console.line(__version__)
        raise typer.Exit


@app.callback()
def everywhere(
    verbose: Annotated[bool, typer.Option("--verbose", help="Print more of what goes on.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    device: Annotated[
        devices.Device, typer.Option(help="What computes; auto: a GPU where there is one.")
    ] = "auto",
) -> None:
    """Options of every command."""
    devices.choose(command=device)
    log.set_up(verbose=verbose, quiet=quiet)
    if not options.is_first_process():
        logging.getLogger("lingraft").setLevel(logging.ERROR)


MANY = (
    *("--text", "--trim", "--lexicons", "--only", "--gold", "--pairs", "--dev", "--kept"),
    "--against",
)
"""Options that several values may follow, in the commands that take a list there."""


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
"""What typer makes of the app, once a process."""


def chosen(arguments: list[str]) -> list[Any]:
    """The parameters of the command that is called, as typer has them."""
    command: Any = COMMAND_LINE
    for name in (argument for argument in arguments if not argument.startswith("-")):
        command = getattr(command, "commands", {}).get(name, command)
    return [] if command is COMMAND_LINE else list(command.params)


def many(arguments: list[str]) -> tuple[str, ...]:
    """The options of the chosen command that several values may follow."""
    params = [param for param in chosen(arguments) if param.multiple]
    return tuple(flag for param in params for flag in param.opts if flag in MANY)


def hyphened(arguments: list[str]) -> list[str]:
    """Options of the chosen command with hyphens, where they have underscores as in other tools."""
    flags = {flag for param in chosen(arguments) for flag in (*param.opts, *param.secondary_opts)}
    result = []
    for argument in arguments:
        option, sign, value = argument.partition("=")
        option = option.replace("_", "-")
        result.append(f"{option}{sign}{value}" if option in flags else argument)
    return result


MAY_BE_EMPTY = ("--prefix",)
"""Options whose default is the empty text."""


def check_words(arguments: list[str]) -> None:
    """Refuse what a shell makes of a variable that is not set, and names that are not UTF-8.

    An empty path would name this folder, and many options would count as not given; without quotes
    the next option would be the value. A name that is not UTF-8 stands in no JSON or HTML file,
    which is known when the work is done.

    Raises:
        RecipeError: an argument is empty, or not UTF-8, or an option stands in a value's place.
    """
    flags = {flag: param for param in chosen(arguments) for flag in param.opts}
    values = {flag: 0 if p.bare_type() == "bool" else p.nargs for flag, p in flags.items()}
    before, due = "", 0
    for argument in arguments:
        if problem := not_utf8(argument):
            raise RecipeError(problem)
        option, has_value, value = before, "=", argument
        if argument.startswith("--"):
            option, has_value, value = argument.partition("=")
            if due and option in flags:
                raise RecipeError(
                    f"{before}: {argument} stands where its value should (a variable that is not "
                    "set?); give a value, or leave it out"
                )
            before, due = option, values.get(option, 0)
        if has_value and not value and option not in MAY_BE_EMPTY:
            raise RecipeError(
                f"{option or 'command line'}: an argument is empty (a variable that is not set?); "
                "give a value, or leave it out"
            )
        due -= bool(has_value and due)
        before = option if due or not has_value else ""


GPU_FULL = (
    "the GPU's memory is full; look whether another program fills it, or let less go through it at "
    "once (--set hardware.micro_batch_tokens=2048; of a fine-tuning micro_batch_tokens, of align "
    "and translate --batch-tokens) or keep less (--set hardware.gradient_checkpointing=true)"
)
MEMORY_FULL = (
    "the memory is full; close other programs, let less go through it at once (--set "
    "hardware.micro_batch_tokens=1024; of a fine-tuning micro_batch_tokens, of align and translate "
    "--batch-tokens), or take a smaller model"
)
PRECEDENCE_SECONDS = 10.0
"""For which a process that is not the first keeps an error to itself."""


def call() -> None:
    """Run the command; of several processes the first one tells of an error first.

    What ended that one, torchrun lets end the others before they say the same again, or that their
    peer has gone. An error of another process alone is told after a moment.

    Raises:
        LingraftError: also in place of what torch raises when another process has gone.
    """
    arguments = hyphened(sys.argv[1:])
    try:
        check_words(arguments)
        COMMAND_LINE(args=spread(arguments, many(arguments)), standalone_mode=True)
    except Exception as error:
        if not options.is_first_process():
            if isinstance(error, LingraftError) and error.exit_status > SIGNALLED:
                sys.exit(error.exit_status)  # all stop together, and the first one says so
            time.sleep(PRECEDENCE_SECONDS)
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which need not be loaded
            raise LingraftError(f"{GPU_FULL} ({str(error).partition('. GPU')[0]})") from None
        if is_memory_full(error):
            raise LingraftError(f"{MEMORY_FULL} ({' '.join(str(error).split())[:120]})") from None
        # DistBackendError and the like of NCCL; gloo has no class of its own
        if type(error).__name__.startswith("Dist") or "gloo/transport" in str(error):
            raise LingraftError(
                "another process of this run has ended or cannot be reached; if it told why, mend "
                f"that and run the same command again ({str(error)[:200]})"
            ) from None
        raise


def main() -> None:
    """Entry point: errors that the user can mend are one line, and the exit status is 1.

    What standard output cannot encode is escaped, as on standard error, and ends no command.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    chosen(sys.argv[1:])  # built while Ctrl-C still ends the process without a traceback
    starting.loaded()
    with starting.terminable() as received:
        try:
            call()
        except LingraftError as error:
            message = options.going_on(" ".join(str(error).split()))
            typer.echo(f"lingraft: {message}", err=True)
            sys.exit(error.exit_status)
        except SystemExit as end:
            # typer's answer to Ctrl-C, which all processes get
            if end.code == INTERRUPTED and options.is_first_process():
                message = options.going_on("stopped; the same command keeps what is finished")
                typer.echo(f"lingraft: {message}", err=True)
            if end.code == INTERRUPTED and received:
                sys.exit(SIGNALLED + received[0])
            raise
        except OSError as error:
            typer.echo(f"lingraft: {options.going_on(explain(error))}", err=True)
            sys.exit(1)
