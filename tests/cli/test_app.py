"""Options that several values may follow, and functions that take one or several."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from tiny_shapes import ENCODERS
from transformers import AutoTokenizer

import lingraft
from lingraft.cli import app as cli
from lingraft.cli.show import TABLES
from lingraft.errors import DataError
from lingraft.training.phase import Stopped

HEAVY = {
    "accelerate", "datasets", "gensim", "matplotlib", "pandas", "pyarrow", "scipy", "sentencepiece",
    "sklearn", "tokenizers", "torch", "transformers",
}  # fmt: skip


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
from lingraft.cli import app as cli
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
    code = IN_ONE_PROCESS.format(commands=LIGHT, heavy=HEAVY)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("family", ENCODERS)
def test_evaluate_prints_one_json_object_of_any_model(family, tiny_source, korean_text, command):
    more = ("--lang", "ko", "max_sentences=20", "max_words=10", "--json")
    ended = command("--quiet", "evaluate", tiny_source(family), "--text", korean_text, *more).well()
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


def test_ctrl_c_is_one_line_and_status_130(command, monkeypatch, adapted, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    recipe = adapted("bert") / "recipe.toml"  # made before anything stops it
    monkeypatch.setattr("lingraft.pipeline.preflight.check", stop)
    ended = command("check", recipe)
    assert ended.status == 130
    said = ended.err.strip().splitlines()[-1]
    assert said == "lingraft: stopped; the same command keeps what is finished"
    with monkeypatch.context() as second:  # all processes get the signal, the first one says so
        second.setenv("RANK", "1")
        ended = command("check", recipe)
    assert (ended.status, "stopped" in ended.err) == (130, False)
    monkeypatch.setattr("lingraft.corpus.streams.prepare", stop)
    ended = command("adapt", recipe, "--out", tmp_path / "run", "--force")
    said = "lingraft: stopped; the same command without --force keeps what is finished"
    assert ended.err.strip().splitlines()[-1] == said


def test_sigterm_outside_training_is_one_line_and_ends_the_workers(command, monkeypatch, adapted):
    """It ended the process without a word, in the middle of the text or an evaluation."""
    import multiprocessing

    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    worker.start()

    def stop(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    recipe = adapted("bert") / "recipe.toml"  # made before anything stops it
    monkeypatch.setattr("lingraft.pipeline.preflight.check", stop)
    ended = command("check", recipe)
    assert ended.status == 128 + signal.SIGTERM
    said = ended.err.strip().splitlines()[-1]
    assert said == "lingraft: stopped; the same command keeps what is finished"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    worker.join(60)
    assert worker.exitcode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("rank", "raised", "says", "waited"),
    [
        ("0", DataError("no text"), "lingraft: no text", []),
        ("1", DataError("no text"), "lingraft: no text", [cli.PRECEDENCE_SECONDS]),
        ("0", RuntimeError("[gloo/transport/tcp/pair.cc:5] Connection closed by peer"),
         "lingraft: another process of this run has ended; mend", []),
        ("1", Stopped("stopped by SIGTERM", 15), "", []),
        ("0", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has"),
         "lingraft: the memory is full; ", []),
        ("0", MemoryError(), "lingraft: the memory is full; ", []),
        ("0", RuntimeError("err == 0. DefaultCPUAllocator: can't allocate memory"),
         "lingraft: the memory is full; ", []),
    ],
)  # fmt: skip
def test_the_first_process_tells_an_error_first(command, monkeypatch, rank, raised, says, waited):
    def fail(_):
        raise raised

    slept: list[float] = []
    monkeypatch.setattr("lingraft.cli.show.table_of", fail)
    monkeypatch.setattr(cli.time, "sleep", slept.append)
    monkeypatch.setenv("RANK", rank)
    ended = command("show", "methods")
    assert ended.status == getattr(raised, "exit_status", 1)
    assert ended.err.startswith(says)
    assert len(ended.err.splitlines()) == bool(says)
    assert slept == waited


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_evaluate_reads_a_spelt_special_token_as_text(family, tiny_source, tmp_path, monkeypatch):
    """As in the evaluation of a run; else a token is hidden that nobody hid."""
    source, rows = tiny_source(family), []
    monkeypatch.setattr(
        "lingraft.pipeline.evaluating.evaluate_sentences",
        lambda _, tokenizer, sentences, **options: (
            rows.extend(sentences) or {"masks": 0, "metrics": 0}
        ),
    )
    text = tmp_path / "en.txt"
    text.write_text("A dog <mask> sleeps in the </s> sun, it is said.\n")
    lingraft.evaluate(source, text, max_words=0)
    tokenizer = AutoTokenizer.from_pretrained(source)
    (row,) = map(list, rows)
    assert tokenizer.mask_token_id not in row
    assert row.index(tokenizer.eos_token_id) == len(row) - 1
    assert (tokenizer.unk_token_id in row) == (family == "xlm-roberta")
