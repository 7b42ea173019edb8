"""Words of a command, read: lists by spaces, KEY=VALUE settings, and --json.

Printing of commands: results on standard output, tables alike.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from lingraft import log
from lingraft.cli.options import is_first_process
from lingraft.errors import RecipeError
from lingraft.files import not_utf8
from lingraft.processes import check_one_process
from lingraft.recipe import Section, decoding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.report.next_step import NextStep
    from lingraft.report.table import Table


EXAMPLE = re.compile(r"(?:(?P<says>[A-Z][\w ]*): +)?(?P<code>lingraft .*)", re.DOTALL)
"""A paragraph of a command's docstring that says how to call it."""
SETTING = re.compile(r"([A-Za-z_]\w*)((?:\.[\w-]+)*)=.*", re.DOTALL)
ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""An entry under `Options:` of a command's docstring, which is the help of a parameter."""

F = TypeVar("F", bound="Callable[..., Any]")


K = TypeVar("K", bound=Section)


def read(kind: type[K], settings: Sequence[str] | None, **given: Any) -> K:
    """Return the keys with what `settings` (KEY=VALUE) and `given` say.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    return decoding.checked(kind, decoding.override(given, settings or ()), "command line")


def takes(
    sections: Callable[[], Sequence[type[Section]]], *, listed: bool = True
) -> Callable[[F], F]:
    """Let a command take KEY=VALUE settings, in its parameter `settings`.

    Args:
        sections: gives the tables whose keys they are.
        listed: whether the command's help lists the keys.
    """

    def mark(function: F) -> F:
        function.sections, function.listed = sections, listed  # type: ignore[attr-defined]
        return function

    return mark


ABOUT_JSON = "Print the result as JSON; all else goes to standard error."
_JSON = typer.Typer(add_completion=False)


@_JSON.command()
def _json(
    json: Annotated[
        bool, typer.Option("--json", callback=only_json, expose_value=False, help=ABOUT_JSON)
    ] = False,
) -> None:
    """Lend an option to every command."""


class Command(TyperCommand):
    """A command as this module's first line says.

    Its docstring is its help: examples, and under `Options` the parameters.
    """

    def __init__(self, name: str | None, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.takes_settings = any(param.name == "settings" for param in self.params)
        self.help, _, arguments = (self.help or "").partition("\nOptions:\n")
        told = {key: " ".join(text.split()) for key, text in ARGUMENT.findall(arguments)}
        parameters: list[Any] = self.params
        for param in parameters:
            param.help = param.help or told.get(param.name)
            _dress(param)
        if getattr(self.callback, "listed", False):
            keys = "".join(f"* `{key}=VALUE`: {of}\n" for key, of in self.keys().items())
            self.epilog = f"**Keys**:\n\n{keys}"
        self.params += typer.main.get_command(_JSON).params

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write paragraphs, and each example on one line; arguments are typer's."""
        for paragraph in (self.help or "").strip().split("\n\n"):
            formatter.write_paragraph()
            text, example = " ".join(paragraph.split()), EXAMPLE.fullmatch(paragraph)
            with formatter.indentation():
                if example is None:
                    formatter.write_text(text)
                    continue
                if example["says"]:
                    formatter.write_text(f"{example['says']}:")
                formatter.write(f"    {' '.join(example['code'].split())}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options and keys; arguments are typer's."""
        super().format_options(ctx, formatter)
        if self.epilog:
            with formatter.section("Keys (KEY=VALUE)"):
                formatter.write_dl(list(self.keys().items()))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write nothing more: the epilog is the keys, for pages; arguments are typer's."""

    def keys(self) -> dict[str, str]:
        """Return the keys that a setting may begin with, and what they are."""
        sections: Sequence[type[Section]] = getattr(self.callback, "sections", tuple)()
        return {
            key: _told(field) for section in sections for key, field in section.model_fields.items()
        }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a call; arguments are typer's."""
        if ctx.resilient_parsing:  # completion
            return super().parse_args(ctx, args)
        words, settings = self.sort_words(args, self.get_params(ctx))
        rest = super().parse_args(ctx, words)
        if self.takes_settings:
            ctx.params["settings"] = settings
        return rest

    def sort_words(self, args: Sequence[str], params: Sequence[Any]) -> tuple[list[str], list[str]]:
        """Return what typer can read, a list's option before each of its values, and the settings.

        Raises:
            RecipeError: an argument is empty, as of a shell's variable that is not set, or not
                UTF-8; an option stands in a value's place, or is a key.
        """
        flags = {flag: param for param in params for flag in (*param.opts, *param.secondary_opts)}
        words: list[str] = []
        settings: list[str] = []
        option, of_list, due = "", "", 0
        for word in args:
            name, sign, value = word.partition("=")
            name = name.replace("_", "-") if word.startswith("--") else name
            param = flags.get(name) if word.startswith("-") else None
            if param is not None:
                if due:
                    raise RecipeError(
                        f"{option}: {word} stands where its value should (a variable that is not "
                        "set?); give a value, or leave it out"
                    )
                option, of_list = name, name if param.multiple else ""
                due = 0 if param.is_flag else param.nargs - bool(sign)
                words.append(f"{name}{sign}{value}")
            elif not due and word.startswith("--"):
                self.refuse_key(name)
                words.append(word)
            elif not due and self.is_setting(word, behind_list=bool(of_list)):
                settings.append(word)
                continue
            else:
                words += [word] if due or not of_list else [of_list, word]
                due -= bool(due)
            if problem := not_utf8(word):
                raise RecipeError(problem)
            if not (value if param is not None and sign else word):
                raise RecipeError(
                    f"{option or 'command line'}: an argument is empty (a variable that is not "
                    "set?); give a value, or leave it out"
                )
        return words, settings

    def is_setting(self, word: str, *, behind_list: bool) -> bool:
        """Return whether a word is KEY=VALUE, and not a value of the list that it stands behind."""
        found = SETTING.fullmatch(word) if self.takes_settings else None
        if found is None:
            return False
        is_key = found[1] in self.keys() or bool(found[2])
        return is_key or not (behind_list or Path(word).exists())

    def refuse_key(self, option: str) -> None:
        """Refuse a key that is written as an option.

        Raises:
            RecipeError: it is one.
        """
        key = option.removeprefix("--").replace("-", "_")
        if key in self.keys():
            raise RecipeError(f"{option}: is a key, no option; write {key}=VALUE")

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            RecipeError: torchrun started several processes of what one does.
        """
        called, parent = [str(self.name)], ctx.parent
        while parent is not None and parent.parent is not None:  # the last is lingraft's own name
            called.insert(0, str(parent.info_name))
            parent = parent.parent
        # The others can be worked on by several, or say themselves what to do instead.
        if called[0] not in ("adapt", "demo", "finetune", "study"):
            check_one_process(" ".join(called), "start it without torchrun or accelerate launch")
        result = super().invoke(ctx)
        if out.stderr and result is not None and is_first_process():
            json_object(result)
        return result


def _dress(param: Any) -> None:
    """Show a parameter without Python's types; leave settings to `sort_words`."""
    if param.name == "settings":
        param.add_to_parser = lambda *_: None
    if param.param_type_name == "argument":
        param.display_type_rich = lambda *_, **__: ""  # of typer 0.29 and later
    elif param.metavar is None and not param.is_flag:
        word = param.opts[0].rpartition("-")[2].upper()
        param.metavar = f"{word}…" if param.multiple else word


def _told(field: Any) -> str:
    """Return what a key is, and its default where that says something."""
    default = "" if field.default in (None, (), "") else f" Default: {field.default}."
    return f"{field.description or ''}{default}"


out = log.results_console()


def only_json(value: bool) -> bool:
    """Leave standard output to `json_object` where `value` says so; return it."""
    out.stderr = value
    return value


def line(text: str) -> None:
    """Print a line as it is, however long."""
    out.print(text, soft_wrap=True)


def json_object(data: Any) -> None:
    """Print plain data as JSON: on one line for programs, indented on a terminal."""
    indent = 1 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=indent, default=str) + "\n")


def rows(*tables: Table) -> list[dict[str, str]]:
    """Return the rows of tables as plain data, by the titles of their columns."""
    return [
        {column.title: cell.whole for column, cell in zip(table.columns, row.cells, strict=True)}
        for table in tables
        for row in table.rows
    ]


def show(*tables: Table, best: str = "*") -> list[dict[str, str]]:
    """Print tables, each note on a line of its own; return their rows as plain data.

    Args:
        tables: what is printed.
        best: a sign behind the best of a column, for terminals without colours.
    """
    from lingraft.report.table import terminal

    for table in tables:
        out.print(terminal(table, out.width, best))
        for note in table.notes:
            line(note)
    return rows(*tables)


def summary(*facts: tuple[str, object], next_step: NextStep | None = None) -> None:
    """Print the box at the end of a command: what, where, how good, what next.

    Between two rules on a terminal, plain lines elsewhere; no border at the sides, so that a path
    or a command can be copied.

    Args:
        facts: names and values; those without a value are left out.
        next_step: stands last, its command on a line of its own.
    """
    rows = [(name, str(value)) for name, value in facts if value]
    rows += [("next", next_step.text)] if next_step else []
    width = max(len(name) for name, _ in rows) + 2
    if out.is_terminal:
        out.rule()
    for name, value in rows:
        line(f"{name + ':':<{width}}" + value.replace("\n", "\n" + " " * width))
    if out.is_terminal:
        out.rule()
