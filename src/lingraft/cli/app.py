"""The command line: the app, and one file a command in `commands/`; nothing heavy is loaded."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import signal
import sys
import threading
import time
from collections import UserDict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lingraft import __version__, devices, log
from lingraft.cli import options, parsing
from lingraft.errors import LingraftError, explain, is_memory_full

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = {
    "demo": "Make a Korean model of a small English one, offline, in minutes.",
    "adapt": "Adapt a model to a language or domain: raw text to checkpoint.",
    "graft": "Give a model another tokenizer and embeddings, without training.",
    "check": "Say whether a recipe is sound, and what will be done.",
    "show": "Show methods, models, tasks, recipes … that lingraft has.",
    "data": "Prepare text: clean, pairs, lexicon, mine.",
    "finetune": "Fine-tune models on tasks, with several seeds.",
    "evaluate": "Score models on held-out text.",
    "report": "Write the page of a run, or one that compares several.",
    "study": "Run a grid of recipes and compare them: run, plan, report.",
    "analyze": "Compare languages inside a model: retrieval, alignment.",
    "translate": "Translate a text with any encoder-decoder.",
    "convert": "Make another kind of model: sentence-encoder, seq2seq, gguf.",
}
"""Commands in the order of the help."""
HELP = (
    "Adapt a pretrained language model to your language or domain.",
    "Model and raw text in; a Hugging Face checkpoint and a report out.",
)
FIRST = "lingraft demo", "lingraft adapt --source MODEL --text FILES --lang ko --budget 2h"


class Built(UserDict[str, Any]):
    """Command line that typer makes of the commands; it imports only the one that is asked for."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.data[name], str):
            found = importlib.import_module(f"lingraft.cli.{name}").command
            if not isinstance(found, typer.Typer):
                single = typer.Typer(add_completion=False, rich_markup_mode=None)
                single.command(name)(found)
                found = single
            for info in found.registered_commands:
                info.cls = parsing.Command
            self.data[name] = typer.main.get_command(found)
            self.data[name].name = name
        return self.data[name]


class Commands(TyperGroup):
    """The commands, on one screen."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": Built(COMMANDS)})

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; arguments are typer's."""
        formatter.write("\n".join((*HELP, "", *(f"  {line}" for line in FIRST), "", "")))
        width = max(map(len, COMMANDS))
        formatter.write("".join(f"  {name:{width}}  {told}\n" for name, told in COMMANDS.items()))
        shown = ("verbose", "quiet", "device", "version", "help")
        names = [param.opts[-1] for param in self.get_params(ctx) if param.name in shown]
        formatter.write(f"\nBefore the command: {', '.join(names)}\n")
        formatter.write("`lingraft COMMAND --help` explains a command and shows examples.\n")


app = typer.Typer(
    name="lingraft",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SIGNALLED = 128
"""Below the exit status of what a signal has stopped."""
INTERRUPTED = SIGNALLED + signal.SIGINT


def _version(value: bool) -> None:
    if value:
        parsing.line(__version__)
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
    """Set what holds for every command."""
    devices.choose(command=device)
    log.set_up(verbose=verbose, quiet=quiet)
    if not options.is_first_process():
        logging.getLogger("lingraft").setLevel(logging.ERROR)


COMMAND_LINE: Any = typer.main.get_command(app)
"""Click command that typer makes of the app, once a process."""


LESS = (
    "let less go through it at once (hardware.micro_batch_tokens=1024; of finetune "
    "micro_batch_tokens, of analyze, mine and translate batch_tokens)"
)
FULL = f"the memory is full; close other programs, {LESS}, or take a smaller model"
PRECEDENCE_SECONDS = 10.0
"""For which a process that is not the first keeps an error to itself."""


def call() -> None:
    """Run the command; of several processes the first one tells of an error first.

    What ended that one, torchrun lets end the others before they say the same again, or that their
    peer has gone. An error of another process alone is told after a moment.

    Raises:
        LingraftError: also in place of what torch raises when another process has gone.
    """
    try:
        COMMAND_LINE(args=sys.argv[1:], standalone_mode=True)
    except Exception as error:
        if not options.is_first_process():
            if isinstance(error, LingraftError) and error.exit_status > SIGNALLED:
                sys.exit(error.exit_status)  # all stop together, and the first one says so
            time.sleep(PRECEDENCE_SECONDS)
        # torch's error of a GPU, which need not be loaded
        if type(error).__name__ == "OutOfMemoryError" or is_memory_full(error):
            raise LingraftError(f"{FULL} ({' '.join(str(error).split())[:120]})") from None
        # DistBackendError and the like of NCCL; gloo has no class of its own
        if type(error).__name__.startswith("Dist") or "gloo/transport" in str(error):
            told = "another process of this run has ended; mend what it told and run it again"
            raise LingraftError(f"{told} ({str(error)[:200]})") from None
        raise


@contextlib.contextmanager
def terminable() -> Iterator[list[int]]:
    """Take SIGTERM as Ctrl-C, where nothing else handles it; a second one ends the process at once.

    Not of several processes: when one has failed, torchrun ends the others by it.

    Yields:
        The signals that came.
    """
    received, process = list[int](), os.getpid()

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:  # a fork, which ends as it would have
            os.kill(os.getpid(), number)
            return
        received.append(number)
        # a terminal's Ctrl-C reaches the workers, too; else their pool would wait for them
        if (multiprocessing := sys.modules.get("multiprocessing")) is not None:
            for worker in multiprocessing.active_children():
                worker.terminate()
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if not (in_main and alone and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
        yield received
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main() -> None:
    """Run the command line: errors that the user can mend are one line, and the exit status is 1.

    What standard output cannot encode is escaped, as on standard error, and ends no command.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with terminable() as received:
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
