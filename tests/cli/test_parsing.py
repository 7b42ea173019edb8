"""How words become options, lists and settings; --json; help."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings, strategies as some

from lingraft.cli import app as cli
from lingraft.errors import LingraftError


def leaves(group=cli.COMMAND_LINE, name=""):
    """Every command that does something, by its whole name."""
    for word in group.commands:
        command = group.commands[word]
        if hasattr(command, "commands"):
            yield from leaves(command, f"{name}{word} ")
        else:
            yield f"{name}{word}", command


LEAVES = dict(leaves())


def read(words):
    """What the command that is called reads of these words."""
    name = next(name for name in LEAVES if f"{words} ".startswith(f"{name} "))
    with LEAVES[name].make_context(name, shlex.split(words.removeprefix(name))) as context:
        return context.params


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("adapt --text a b --lang ko", {"text": ["a", "b"], "settings": []}),
        ("adapt --text=a seed=3 b --lang=ko", {"text": ["a", "b"], "settings": ["seed=3"]}),
        ("adapt seed=3 --text ko=a en=b", {"text": ["ko=a", "en=b"], "settings": ["seed=3"]}),
        ("adapt r.toml corpus.x=1 --out a=b", {"settings": ["corpus.x=1"], "out_dir": Path("a=b")}),
        ("adapt --baseline scratch lapt x=1", {"baseline": ["scratch", "lapt", "x=1"]}),
        ("finetune a b epochs=3 --label A B", {"models": ["a", "b"], "label": ["A", "B"]}),
        ("finetune a --task t --test_language ko de", {"test_language": ["ko", "de"]}),
        ("finetune a --task t data=d epochs=3", {"settings": ["data=d", "epochs=3"]}),
        ("translate M --text - --out c prefix=", {"settings": ["prefix="], "text": Path("-")}),
        ("evaluate M --text a b --against c", {"text": ["a", "b"], "against": ["c"]}),
        ("data pairs x.tsv --lang en ko --out o", {"languages": ["en", "ko"]}),
    ],
)
def test_lists_go_by_spaces_and_keys_stand_anywhere(words, expected):
    assert {name: read(words)[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("adapt", "r.toml", "methd.preset=x"), "r.toml: cannot be read as a recipe"),
        (("evaluate", "m", "max_word=3", "--text", "t"), "Did you mean 'max_words'?"),
        (("data", "clean", "", "--lang", "ko", "--out", "o"), "an argument is empty"),
        (("data", "clean", "a", "--lang", "ko", "--out="), "--out: an argument is empty"),
        (("evaluate", "m", "--text", "--lang=ko"), "--text: --lang=ko stands where its value"),
        (("adapt", "--out", "--force"), "--out: --force stands where its value"),
        (("translate", "m", "--beams", "3"), "--beams: is a key, no option; write beams=VALUE"),
        (("adapt", "r.toml", "--lang", "ko"), "language: is not given beside a recipe"),
        (("show", "methodz"), "there is no such table; there are methods, "),
        (("report", "run", "reference=x", "resamples=1"), "resamples: must be greater than"),
    ],
)
def test_a_slip_is_one_line_that_says_what_to_write(command, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    ended = command(*words)
    assert (ended.status, len(ended.err.splitlines())) == (1, 1), ended.err
    assert says in ended.err
    assert not list(tmp_path.iterdir())


words = some.one_of(
    some.text(max_size=6),
    some.sampled_from(["--text", "--lang", "--out", "seed=1", "a=b", "=", "--", "-", "-h", "ko=x",
                       "--text=", "--budget=8h", "recipe.a.b=[1", "--nothing", "--minutes", "\0"]),
)  # fmt: skip


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(words=some.lists(words, max_size=6), name=some.sampled_from(["adapt", "finetune", "check"]))
def test_any_words_are_read_or_refused_in_one_line(name, words):
    command = LEAVES[name]
    context = typer.Context(command)
    said, plain, found = "", [], []
    try:
        plain, found = command.sort_words(words, command.get_params(context))
    except LingraftError as error:
        said = str(error)
    assert len(said.splitlines()) == bool(said)
    assert all("=" in setting for setting in found)
    assert said or len(plain) + len(found) >= len(words)


def test_json_is_the_only_thing_on_standard_output(command, adapted):
    recipe = adapted("bert") / "recipe.toml"
    ended = command("check", recipe, "--json")
    assert json.loads(ended.out)["sound"] is True
    assert "sound" in ended.err
    assert "sound" in command("check", recipe).out
    shown = json.loads(command("show", "methods", "--json").out)
    assert {"xpt", "lapt"} <= {row["name"] for row in shown}


def test_the_surface_is_small():
    params = [param for command in LEAVES.values() for param in command.params]
    options = [one for one in params if one.param_type_name == "option"]
    options = [one for one in options if "--json" not in one.opts]
    assert len(cli.COMMANDS) <= 13
    assert len(options) <= 105


@pytest.mark.parametrize("name", LEAVES)
def test_each_help_is_a_sentence_and_examples_that_are_read(name, command):
    said = command(*name.split(), "--help").out
    assert re.match(r"Usage: .*(\n .*)*\n\n  [A-Z][^\n]*(\n  [^\n]+)?[.;]", said), said
    examples = re.findall(r"^    (lingraft (?:.*\\\n)*.*)$", said, re.MULTILINE)
    assert examples
    for example in examples:
        command_words = example.replace("\\\n", " ").partition(" > ")[0].removeprefix("lingraft ")
        assert command_words.startswith(name)
        assert read(" ".join(command_words.split())) is not None
    for param in LEAVES[name].params:
        assert (param.help or ".").endswith("."), param.name
