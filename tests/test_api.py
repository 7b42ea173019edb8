"""The public names: what they say of themselves, and thin functions beside adapt and graft."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lingraft

OFFICIAL = Path(__file__).parent / "tasks" / "official"


def test_public_functions_name_their_arguments_and_importing_them_loads_no_torch():
    functions = [getattr(lingraft, name) for name in lingraft.__all__]
    for function in filter(inspect.isfunction, functions):
        told = inspect.getdoc(function)
        parameters = inspect.signature(function).parameters
        assert [name for name in parameters if f"\n    {name}:" not in told] == []
        assert "Raises:" in told
    code = "import sys, lingraft; assert not {'torch', 'transformers', 'pandas'} & {*sys.modules}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_corpus_is_cleaned_and_read_again(korean_text, tiny_source, tmp_path):
    out = tmp_path / "ko"
    counts = lingraft.clean_corpus(korean_text, "ko", out, settings={"corpus.valid": 0.1})
    assert counts["splits"]["train"]["sentences"] > counts["splits"]["valid"]["sentences"] > 0
    assert (out / "report.html").is_file()
    made = lingraft.train_tokenizer(out, like=tiny_source("bert"), language="ko", vocab_size=200)
    assert len(made) == 200
    with pytest.raises(lingraft.LingraftError, match="is not a BCP 47 code"):
        lingraft.clean_corpus(korean_text, "xx-yy-zz", tmp_path / "no")


def test_fine_tuning_gives_a_row_a_number(tiny_source, tmp_path):
    settings = {"seeds": 2, "settings": {"epochs": 1, "batch": 2, "max_length": 64}}
    given = ([tiny_source("bert")], "glue-sst2", OFFICIAL, tmp_path / "out")
    table = lingraft.finetune(*given, settings=settings)
    assert set(table.seed) == {0, 1}
    assert {"model", "data", "split", "metric", "value", "n"} <= set(table.columns)
    read = lingraft.read_scores(tmp_path / "out")
    assert list(read.value) == list(table.value)
    with pytest.raises(lingraft.RecipeError, match="sedes: no such key"):
        lingraft.finetune(*given, settings={"sedes": 2})


def test_a_model_is_scored_on_text(adapted, korean_text):
    model = adapted("roberta") / "model"
    scores = lingraft.evaluate(model, korean_text, language="ko", max_sentences=20, max_words=5)
    assert scores["sentences"] == 20
    assert scores["metrics"]["mask-only"]["perplexity"] > 1
