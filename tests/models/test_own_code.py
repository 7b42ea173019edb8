"""Python code that a checkpoint brings is never run, and nobody is asked whether to."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest
import tiny_study
from transformers import dynamic_module_utils

import lingraft
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models.source import load_model
from lingraft.study import executors
from lingraft.tokenizer import files as tokenizer_files

ROOT = Path(__file__).parents[2]
LOADING = ("from_pretrained", "from_config")
DATA = ("GenerationConfig",)
"""Classes that read JSON and never ask for code."""
CODE = """
import pathlib
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

pathlib.Path({marker!r}).write_text("it ran")


class EvilConfig(BertConfig):
    model_type = "evil"


class EvilModel(BertForMaskedLM):
    config_class = EvilConfig


class EvilTokenizer(PreTrainedTokenizerFast):
    pass
"""
MODEL = {
    "AutoConfig": "modeling_evil.EvilConfig",
    **dict.fromkeys(
        ("AutoModel", "AutoModelForMaskedLM", "AutoModelForSequenceClassification"),
        "modeling_evil.EvilModel",
    ),
}
TOKENIZER = {"AutoTokenizer": [None, "modeling_evil.EvilTokenizer"]}


class Planted:
    """A folder of checkpoints, and the file that their code would write."""

    def __init__(self, folder, source_of):
        self.folder, self.source_of = folder, source_of
        self.marker, self.asked = folder / "marker", []

    def source(self, *, family="roberta", model=None, tokenizer=None):
        """A copy of the tiny source with a planted module, and changed settings."""
        source = Path(shutil.copytree(self.source_of(family), self.folder / "source"))
        (source / "modeling_evil.py").write_text(CODE.format(marker=str(self.marker)))
        for name, changes in (("config.json", model), ("tokenizer_config.json", tokenizer)):
            settings = json.loads((source / name).read_text())
            (source / name).write_text(json.dumps(settings | (changes or {})))
        return source

    def evil(self, what):
        """One whose model, or whose tokenizer, cannot be loaded without its code."""
        if what == "model":
            return self.source(model={"model_type": "evil", "auto_map": MODEL})
        return self.source(tokenizer={"tokenizer_class": "EvilTokenizer", "auto_map": TOKENIZER})

    def answer(self, question=""):
        self.asked.append(question)
        return "yes"


@pytest.fixture
def planted(tmp_path, tiny_source, monkeypatch):
    """Whatever is asked is answered with yes; what is imported lies in the test's folder."""
    made = Planted(tmp_path, tiny_source)
    monkeypatch.setattr("builtins.input", made.answer)
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(executors, "start_process", tiny_study.Here())  # of study
    monkeypatch.chdir(tmp_path)
    yield made
    assert not made.marker.exists()
    assert not made.asked


def adapt(planted, text, adapted):
    start = ["adapt", "--source", "source", "--text", text, "--lang", "ko", "--out", "run"]
    return [*start, "training.preset=xpt2021", "--budget", "4steps", "tokenizer.vocab_size=300"]


def check(planted, text, adapted):
    lines = ['language = "ko"', "[source]", 'model = "source"', "[corpus]", f'text = ["{text}"]']
    lines += ["[tokenizer]", "vocab_size = 300"]
    Path("recipe.toml").write_text("\n".join(lines), "utf-8")
    return ["check", "recipe.toml"]


def evaluate(planted, text, adapted):
    return ["evaluate", "source", "--text", text, "max_words=0"]


def finetune(planted, text, adapted):
    Path("data").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        Path("data", name).write_text("sentence\tlabel\n" + "good\t1\nbad\t0\n" * 4, "utf-8")
    settings = "epochs=1 batch=2 checks_per_epoch=1 max_length=32"
    tail = ["--data", "data", "--seeds", "1", *settings.split(), "--out", "tasks"]
    return ["finetune", "source", "--task", "glue-sst2", *tail]


def restore_source(planted, text, adapted):
    arguments = finetune(planted, text, adapted)
    run = Path(shutil.copytree(adapted("roberta"), "run"))
    recipe = (run / "recipe.toml").read_text("utf-8")
    source = str(planted.source_of("roberta"))
    (run / "recipe.toml").write_text(recipe.replace(source, "source"), "utf-8")
    return ["finetune", "run", "restore_source=true", *arguments[2:]]


def study(planted, text, adapted):
    tiny_study.write_study(planted.folder, "source", text)
    return ["study", "run", "study.toml", "--out", "studied"]


def retrieve(planted, text, adapted):
    Path("eng-kor.tsv").write_text("A cat.\t고양이.\nTwo dogs.\t개 두 마리.\n", "utf-8")
    return ["analyze", "retrieval", "source", "--pairs", "eng-kor.tsv"]


def export_sentences(planted, text, adapted):
    return ["convert", "sentence-encoder", "source", "--out", "made"]


def align(planted, text, adapted):
    for name in ("de.txt", "en.txt"):
        Path(name).write_text("das haus\n", "utf-8")
    return ["analyze", "alignment", "source", "--text", "de.txt", "en.txt", "--out", "links.txt"]


def translate(planted, text, adapted):
    return ["translate", "source", "--text", text, "--out", "translated.txt"]


def encoder_decoder(planted, text, adapted):
    return ["convert", "seq2seq", "source", "--out", "made"]


def with_its_tokenizer(planted, text, adapted):
    good = str(planted.source_of("roberta"))
    arguments = adapt(planted, text, adapted)
    arguments[arguments.index("source")] = good
    return [*arguments[:-1], "--tokenizer", "source"]


COMMANDS = [adapt, evaluate, finetune, restore_source, study]
COMMANDS += [retrieve, export_sentences, align]
OF_THE_MODEL = [check, encoder_decoder, translate]


@pytest.mark.parametrize("arguments", [*COMMANDS, *OF_THE_MODEL])
def test_no_command_runs_the_code_of_a_model(arguments, planted, korean_text, adapted, command):
    refused(planted.evil("model"), arguments(planted, korean_text, adapted), command)


@pytest.mark.parametrize("arguments", [*COMMANDS, with_its_tokenizer])
def test_no_command_runs_the_code_of_a_tokenizer(arguments, planted, korean_text, adapted, command):
    refused(planted.evil("tokenizer"), arguments(planted, korean_text, adapted), command)


def refused(source, arguments, command):
    ended = command("--quiet", *arguments)
    assert ended.status == 1
    said = "brings its own Python code (modeling_evil.py), which lingraft never runs"
    assert any(said in line for line in ended.err.splitlines())
    assert "Traceback" not in ended.err


def test_neither_does_the_library(planted):
    with pytest.raises(UnsupportedModelError, match="its own Python code"):
        lingraft.load(planted.evil("model"))


def test_a_stock_model_loads_by_the_stock_class_whatever_auto_map_says(planted, caplog):
    source = planted.source(model={"auto_map": MODEL}, tokenizer={"auto_map": TOKENIZER})
    loaded = load_model(str(source))
    assert type(loaded.model).__module__ == "transformers.models.roberta.modeling_roberta"
    assert "its own Python code is not run; it is loaded as a roberta" in caplog.text
    ours, theirs = (tokenizer_files.load(one) for one in (source, planted.source_of("roberta")))
    assert ours.get_vocab() == theirs.get_vocab()


def test_a_model_that_its_code_changes_is_not_taken_for_the_stock_one(planted):
    source = planted.source(model={"auto_map": MODEL, "num_hidden_layers": 3})
    with pytest.raises(DataError, match="its weights lack 16 tensors of a roberta"):
        load_model(str(source))


def test_attention_that_is_code_on_the_hub_is_refused(planted):
    source = planted.source(model={"attn_implementation": "someone/attention"})
    with pytest.raises(UnsupportedModelError, match="code on the Hub, which lingraft never runs"):
        load_model(str(source))


@pytest.mark.parametrize("auto_map", [3, "modeling_evil.X", [["a.B"], None], {"AutoConfig": 3}])
def test_an_auto_map_of_any_form_is_one_line(auto_map, planted):
    source = planted.source(model={"model_type": "evil", "auto_map": auto_map})
    with pytest.raises(UnsupportedModelError, match="its own Python code"):
        load_model(str(source))


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


def test_only_one_module_of_the_library_loads_what_others_have_saved(calls):
    found = [where for where, call in calls.items() if call.func.attr == "from_pretrained"]
    loading = {where.partition(":")[0] for where in found if where.startswith("src")}
    assert loading == {f"src/lingraft/pretrained/{name}.py" for name in ("load", "tokenizers")}
