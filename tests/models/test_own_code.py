"""Python code that a checkpoint brings is never run, and nobody is asked whether to."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest
from transformers import dynamic_module_utils

import lingraft
from lingraft.errors import UnsupportedModelError
from lingraft.models.source import load_model

ROOT = Path(__file__).parents[2]
LOADING = ("from_pretrained", "from_config")
DATA = ("GenerationConfig",)
"""Classes that read JSON and never ask for code."""
CODE = """
import pathlib
from transformers import BertConfig

pathlib.Path({marker!r}).write_text("it ran")


class EvilConfig(BertConfig):
    model_type = "evil"

"""
MODEL = {
    "AutoConfig": "modeling_evil.EvilConfig",
    **dict.fromkeys(
        ("AutoModel", "AutoModelForMaskedLM", "AutoModelForSequenceClassification"),
        "modeling_evil.EvilModel",
    ),
}


class Planted:
    """A folder of checkpoints, and the file that their code would write."""

    def __init__(self, folder, source_of):
        self.folder, self.source_of = folder, source_of
        self.marker, self.asked = folder / "marker", []

    def source(self, *, model=None, tokenizer=None):
        """A copy of the tiny source with a planted module, and changed settings."""
        source = Path(shutil.copytree(self.source_of("roberta"), self.folder / "source"))
        (source / "modeling_evil.py").write_text(CODE.format(marker=str(self.marker)))
        for name, changes in (("config.json", model), ("tokenizer_config.json", tokenizer)):
            settings = json.loads((source / name).read_text())
            (source / name).write_text(json.dumps(settings | (changes or {})))
        return str(source)

    def answer(self, question=""):
        self.asked.append(question)
        return "yes"


@pytest.fixture
def planted(tmp_path, tiny_source, monkeypatch):
    """Whatever is asked is answered with yes; what is imported lies in the test's folder."""
    made = Planted(tmp_path, tiny_source)
    monkeypatch.setattr("builtins.input", made.answer)
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    yield made
    assert not made.marker.exists()
    assert not made.asked


AUTO_MAPS = [MODEL, 3, "modeling_evil.X", [["a.B"], None]]


@pytest.mark.parametrize("auto_map", AUTO_MAPS)
def test_the_code_of_a_model_is_not_run(auto_map, planted):
    source = planted.source(model={"model_type": "evil", "auto_map": auto_map})
    for load in (lingraft.load, load_model):
        with pytest.raises(UnsupportedModelError, match="its own Python code"):
            load(source)


@pytest.fixture(scope="module")
def calls():
    """Every call in the sources that loads a checkpoint, by file and line."""
    paths = [
        path for one in ("src", "benchmarks", "scripts") for path in (ROOT / one).rglob("*.py")
    ]
    texts = {path: path.read_text("utf-8") for path in paths}
    return {
        f"{path.relative_to(ROOT)}:{node.lineno}": node
        for path, text in texts.items()
        if any(name in text for name in LOADING)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in LOADING
    }


def test_every_loading_call_in_the_sources_forbids_the_code(calls):
    assert len(calls) >= 5
    for where, call in calls.items():
        if getattr(call.func.value, "id", None) in DATA:
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        trust = given.get("trust_remote_code")
        assert isinstance(trust, ast.Constant), where
        assert trust.value is False, where
