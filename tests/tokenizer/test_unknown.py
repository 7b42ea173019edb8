"""Tokenizers without an unknown token: every command says so in one line."""

from __future__ import annotations

import json
import shutil

import pytest

from lingraft.errors import UnsupportedModelError
from lingraft.tokenizer import files


@pytest.fixture(params=["bert", "t5"])
def without(request, tiny_source, tmp_path):
    """A source whose tokenizer.json names no unknown token, or one that is no piece."""
    folder = shutil.copytree(tiny_source(request.param), tmp_path / "source")
    path = folder / "tokenizer.json"
    state = json.loads(path.read_text())
    if state["model"]["type"] == "WordPiece":
        vocabulary = state["model"]["vocab"]
        vocabulary["[unused9]"] = vocabulary.pop("[UNK]")
        state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] != "[UNK]"]
    else:
        state["model"]["unk_id"] = None
    path.write_text(json.dumps(state))
    return folder


def test_it_is_refused_where_it_is_loaded(without):
    with pytest.raises(UnsupportedModelError, match="no unknown token"):
        files.load(without)


@pytest.mark.parametrize("name", ["check", "evaluate", "adapt"])
def test_commands_end_with_one_line(name, without, korean_text, command, tmp_path):
    run = ["--source", without, "--lang", "ko", "--method", "lapt", "--out", tmp_path / "run"]
    more = {"check": [without], "evaluate": [without], "adapt": [*run, "--budget", "2steps"]}[name]
    more += [] if name == "check" else ["--text", korean_text]
    ended = command(name, *more)
    assert ended.status == 1
    assert [line for line in (ended.out + ended.err).splitlines() if "no unknown token" in line]
    assert not (tmp_path / "run").exists()
