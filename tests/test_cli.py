from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from tiny_shapes import ENCODERS

import lingraft
from lingraft import cli
from lingraft.commands.show import TABLES
from lingraft.errors import DataError
from lingraft.report.table import table
from lingraft.rundir import Run
from lingraft.training.phase import Stopped


def python(*arguments):
    """A process of its own, as a shell starts it."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )


def test_adapt_says_where_the_model_is_and_how_good(shorthand, tmp_path, command, monkeypatch):
    monkeypatch.setattr("lingraft.report.tables.FEWEST_TARGETS", 1)
    run = tmp_path / "run"
    ended = command(*shorthand(run), "--baseline", "scratch")
    assert ended.status == 0, ended.err
    tokens = sum(Run(run).stage(name).result()["tokens"] for name in ("phase-1", "phase-2"))
    assert ended.out.splitlines()[-4:-1] == [
        f"model:  {run / 'model'}",
        f"report: {run / 'report.html'}",
        "next:   The model has learnt little. Train it "
        f"{math.ceil(300_000 / tokens)} times as long, in a run of its own:",
    ]
    assert f"{run}-longer" in ended.out.splitlines()[-1]
    assert "XPT reaches perplexity" in ended.out
    assert "scratch" in ended.out
    assert "corpus: done in" in ended.err
    written = json.loads((run / "environment.json").read_text())["command"]
    assert written.startswith("lingraft adapt --source ")


HEAVY = {
    "accelerate", "datasets", "gensim", "matplotlib", "pandas", "pyarrow", "scipy", "sentencepiece",
    "sklearn", "tokenizers", "torch", "transformers",
}  # fmt: skip


def loaded_by(code):
    """Modules that a process of its own has loaded behind some code."""
    ended = python("-c", f"{code}\nimport sys\nprint(*sys.modules, file=sys.stderr)")
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split())


def heavy(modules):
    return sorted({name.partition(".")[0] for name in modules} & HEAVY)


def test_importing_lingraft_loads_nothing_heavy():
    assert heavy(loaded_by("import lingraft")) == []


LIGHT = [
    *(("show", what) for what in TABLES),
    ("--help",),
    ("--version",),
    *((name, "--help") for name in cli.COMMANDS),
    *(("data", name, "--help") for name in ("clean", "pairs", "lexicon", "mine")),
    *(("analyze", name, "--help") for name in ("retrieval", "alignment")),
    ("convert", "seq2seq", "--help"),
]
IN_ONE_PROCESS = """
import sys
from lingraft import cli
for words in {commands!r}:
    sys.argv = ["lingraft", *words]
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code, words
    loaded = sorted({{name.partition(".")[0] for name in sys.modules}} & {heavy!r})
    assert not loaded, (words, loaded)
"""


def test_a_light_command_loads_nothing_heavy():
    loaded_by(IN_ONE_PROCESS.format(commands=LIGHT, heavy=HEAVY))


def test_the_command_line_loads_what_few_commands_need_when_they_are_called():
    later = {"jinja2", "langcodes", "numpy", "rich.progress"}
    later |= {"lingraft.models.families", "lingraft.objectives", "lingraft.tasks"}
    assert later & loaded_by("import lingraft.cli") == set()


def test_the_options_of_the_short_form_reach_the_recipe(command, shorthand, tmp_path):
    more = ("--method", "xpt-sp", "training.preset=chameleon2022", "--seed", 7)
    changed = ("phases.0.budget=2 steps", "--baseline", "scratch", "training.learning_rate=2e-3")
    ended = command(*shorthand(tmp_path / "mine", steps=4), *more, *changed)
    assert ended.status == 0, ended.err
    recipe = lingraft.read_recipe(tmp_path / "mine" / "recipe.toml")
    assert (recipe.name, recipe.language, recipe.seed) == ("mine", "ko", 7)
    assert (recipe.training.method, recipe.training.preset) == ("xpt-sp", "chameleon2022")
    assert [phase.budget.value for phase in recipe.phases] == [2]
    assert recipe.phases[0].optimizer.learning_rate == 2e-3
    assert recipe.phases[0].batch.size == 8
    assert recipe.tokenizer.vocab_size == 300
    assert [baseline.method for baseline in recipe.baselines] == ["scratch"]


@pytest.mark.parametrize("family", ENCODERS)
def test_evaluate_prints_one_json_object_for_any_stock_model(
    family, tiny_source, korean_text, command
):
    more = ("--lang", "ko", "max_sentences=20", "max_words=10", "--json")
    ended = command("--quiet", "evaluate", tiny_source(family), "--text", korean_text, *more)
    assert ended.status == 0, ended.err
    result = json.loads(ended.out)
    assert result["sentences"] == 20
    assert set(result["metrics"]) == {"bert", "mask-only"}
    metrics = result["metrics"]["mask-only"]
    # Random weights know nothing: about as good as a guess among the vocabulary.
    assert 50 < metrics["perplexity"] < 100_000
    assert 0 <= metrics["hits@1"] <= metrics["hits@10"] <= 100
    if family in ("bert", "electra"):  # the tiny ones lower-case
        assert "words" not in result
        assert "lower-cases its text" in ended.err
    else:
        assert result["words"]["words"] + result["words"]["dropped"] == 10


def test_report_compares_several_runs_on_one_page(adapted, command, tmp_path):
    page = tmp_path / "both.html"
    for _ in range(2):  # a page of ours is replaced
        ended = command("report", adapted("bert"), adapted("electra"), "--out", page)
        assert ended.status == 0, ended.err
    assert ended.out.splitlines()[-1] == f"report: {page}"
    text = page.read_text(encoding="utf-8")
    assert "bert" in text
    assert "electra" in text


def test_a_name_that_is_not_utf8_is_refused_before_any_work(command, tmp_path, monkeypatch):
    """No JSON or HTML file holds it: a corpus ended with a traceback when its report was due."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ko.txt").write_text("글이다.\n" * 20)
    ended = command("data", "clean", "ko.txt", "--lang", "ko", "--out", os.fsdecode(b"b\xff"))
    assert ended.status == 1
    assert "b?: the name is not UTF-8; rename it" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["ko.txt"]


def test_ctrl_c_is_one_line_and_status_130(command, monkeypatch, adapted, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lingraft.pipeline.preflight.check", stop)
    ended = command("check", adapted("bert") / "recipe.toml")
    assert ended.status == 130
    said = ended.err.strip().splitlines()[-1]
    assert said == "lingraft: stopped; the same command keeps what is finished"
    with monkeypatch.context() as second:  # all processes get the signal, the first one says so
        second.setenv("RANK", "1")
        ended = command("check", adapted("bert") / "recipe.toml")
    assert (ended.status, "stopped" in ended.err) == (130, False)
    monkeypatch.setattr("lingraft.corpus.streams.prepare", stop)
    recipe = adapted("bert") / "recipe.toml"
    ended = command("adapt", recipe, "--out", tmp_path / "run", "--force")
    assert ended.err.strip().splitlines()[-1] == (
        "lingraft: stopped; the same command without --force keeps what is finished"
    )


def test_sigterm_outside_training_is_one_line_and_ends_the_workers(command, monkeypatch, adapted):
    """It ended the process without a word, in the middle of the text or an evaluation."""
    import multiprocessing

    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    worker.start()

    def stop(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("lingraft.pipeline.preflight.check", stop)
    ended = command("check", adapted("bert") / "recipe.toml")
    assert ended.status == 128 + signal.SIGTERM
    said = ended.err.strip().splitlines()[-1]
    assert said == "lingraft: stopped; the same command keeps what is finished"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    worker.join(60)
    assert worker.exitcode == -signal.SIGTERM


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys

class CtrlC:
    def find_spec(name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC)
from lingraft.cli import main
"""


@pytest.mark.parametrize("module", ["pydantic", "lingraft.commands.parsing"])
def test_ctrl_c_while_modules_load_ends_the_command_without_a_word(module, tmp_path):
    script = INTERRUPTED_WHILE_LOADING.format(module=module)
    (tmp_path / "lingraft").write_text(script)
    (tmp_path / "mine.py").write_text(script)
    ended = python(tmp_path / "lingraft")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
    ended = python(tmp_path / "mine.py")  # an application of its own
    assert ended.stderr.endswith("KeyboardInterrupt\n")


def test_processes_other_than_the_first_are_silent(command, monkeypatch):
    import logging

    levels = []
    monkeypatch.setattr(
        "lingraft.commands.show.table_of",
        lambda what: levels.append(logging.getLogger("lingraft").level) or table("t", ("a",), []),
    )
    command("show", "methods")
    monkeypatch.setenv("RANK", "1")
    command("show", "methods")
    assert levels == [logging.INFO, logging.ERROR]


@pytest.mark.parametrize(
    "called",
    [("data", "clean", "a", "--out", "b"), ("evaluate", "a", "--text", "b"), ("report", "a")],
)
def test_what_one_process_does_is_refused_to_several(called, command, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    ended = command(*called)
    assert ended.err.startswith(f"lingraft: {called[0]}")
    assert ": works in one process; start it without" in ended.err


@pytest.mark.parametrize(
    ("rank", "raised", "says", "waited"),
    [
        ("0", DataError("no text"), "lingraft: no text", []),
        ("1", DataError("no text"), "lingraft: no text", [cli.PRECEDENCE_SECONDS]),
        ("0", RuntimeError("[gloo/transport/tcp/pair.cc:5] Connection closed by peer"),
         "lingraft: another process of this run has ended or cannot be reached; if it told", []),
        ("1", Stopped("stopped by SIGTERM", 15), "", []),
        ("0", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has"),
         "lingraft: the GPU's memory is full; look whether another program fills it", []),
        ("0", MemoryError(), "lingraft: the memory is full; ", []),
        ("0", RuntimeError("could not create a primitive"), "lingraft: the memory is full; ", []),
        ("0", RuntimeError("err == 0. DefaultCPUAllocator: can't allocate memory"),
         "lingraft: the memory is full; ", []),
    ],
)  # fmt: skip
def test_the_first_of_several_processes_tells_of_an_error_first(
    command, monkeypatch, rank, raised, says, waited
):
    def fail(_):
        raise raised

    slept: list[float] = []
    monkeypatch.setattr("lingraft.commands.show.table_of", fail)
    monkeypatch.setattr(cli.time, "sleep", slept.append)
    monkeypatch.setenv("RANK", rank)
    ended = command("show", "methods")
    assert ended.status == getattr(raised, "exit_status", 1)
    assert ended.err.startswith(says)
    assert len(ended.err.splitlines()) == bool(says)
    assert slept == waited
