"""What Python sees of a run: model, tokenizer, tables, a figure; and callbacks while it runs.

The public names: what they say of themselves, and thin functions beside adapt and graft.
`lingraft.AdaptConfig`: the same recipe from Python and from the command line.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lingraft
from lingraft import AdaptConfig, RecipeError


@pytest.fixture(scope="module")
def run(adapted):
    return lingraft.Run(str(adapted("roberta")))


def test_scores_are_those_of_the_evaluation(run):
    done = json.loads((run.path / "evaluation/done.json").read_text())["result"]
    table = run.scores.set_index("model")
    assert table.loc["XPT", "perplexity"] == done["metrics"]["mask-only"]["perplexity"]
    assert table.loc["XPT", "bits_per_character"] == done["words"]["bits_per_character"]
    assert {"hits@1", "mrr", "seconds", "tokens"} <= set(table.columns)
    rows = lingraft.read_scores(run.path).set_index(["model", "metric"])
    assert rows.loc[("XPT", "mask-only/perplexity"), "value"] == table.loc["XPT", "perplexity"]


class Stopped(Exception):
    """An error of a callback's own."""


class Notes(lingraft.Callback):
    def __init__(self, stop_at=None):
        self.stages, self.rows, self.stop_at = [], [], stop_at

    def on_step(self, run, row):
        self.rows.append((run.path.name, row))
        if row["step"] == self.stop_at:
            raise Stopped

    def on_validation(self, run, row):
        self.rows.append((run.path.name, row))

    def on_stage(self, run, name, result):
        assert result == run.stage(name).result()
        self.stages.append((run.path.name, name))


def test_callbacks_are_told_of_everything_and_errors_stop_it(tiny_source, korean_text, tmp_path):
    given = {"source": tiny_source("roberta"), "text": korean_text, "language": "ko"}
    given |= {"method": "xpt-sp", "preset": "xpt2021", "budget": "4steps", "baselines": ["scratch"]}
    keys = {"tokenizer.vocab_size": 300, "hardware.log_steps": 1, "training.batch.size": 4}
    config = lingraft.AdaptConfig(**given, out=tmp_path / "run", settings=keys)
    first, second = Notes(stop_at=3), Notes()
    with pytest.raises(Stopped):
        lingraft.adapt(config, callbacks=[first])
    assert [name for _, name in first.stages] == ["corpus", "tokenizer", "graft"]
    assert [row["step"] for _, row in first.rows if row["kind"] == "train"] == [1, 2, 3]
    run = lingraft.adapt(config, callbacks=[second])
    assert run.plot_loss()
    own = [name for folder, name in second.stages if folder == "run"]
    assert own == ["phase-1", "evaluation", "model"]
    assert ("scratch", "phase-1") in second.stages
    logged = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    assert [row for folder, row in second.rows if folder == "run"] == logged
    third = Notes()
    lingraft.adapt(config, callbacks=[third])
    assert third.stages == third.rows == []


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
    assert list(lingraft.read_scores(tmp_path / "out").value) == list(table.value)
    with pytest.raises(lingraft.RecipeError, match="sedes: no such key"):
        lingraft.finetune(*given, settings={"sedes": 2})


def test_a_model_is_scored_on_text(adapted, korean_text):
    model = adapted("roberta") / "model"
    scores = lingraft.evaluate(model, korean_text, language="ko", max_sentences=20, max_words=5)
    assert scores["sentences"] == 20
    assert scores["metrics"]["mask-only"]["perplexity"] > 1


NEEDED = {"source": "s", "text": "ko.txt", "language": "ko", "budget": "7steps"}


def recipe_of(**given):
    return AdaptConfig(**given).recipe()


def test_python_and_the_command_line_ask_for_one_recipe(command, monkeypatch):
    asked = []

    def caught(recipe, out, **_):
        asked.append((recipe, str(out)))
        raise RecipeError("caught")

    monkeypatch.setattr("lingraft.pipeline.adapt.adapt", caught)
    words = ("--source", "s", "--text", "a.txt", "b", "--lang", "ko", "--out", "runs/x")
    words += ("--method", "lapt", "--baseline", "scratch", "--seed", 4, "--tokenizer", "t")
    assert "caught" in command("adapt", *words, "--budget", "2steps").err
    given = {"source": "s", "text": ["a.txt", "b"], "language": "ko", "out": "runs/x", "seed": 4}
    given |= {"method": "lapt", "baselines": "scratch", "budget": "2steps", "tokenizer": "t"}
    with pytest.raises(RecipeError, match="caught"):
        lingraft.adapt(**given)
    with pytest.raises(RecipeError, match="caught"):
        lingraft.adapt(AdaptConfig(**given | {"seed": 9}), seed=4)
    assert asked[0] == asked[1] == asked[2]
    assert asked[0][0].tokenizer.model == "t"


def test_settings_are_keys_of_the_recipe_however_they_are_written():
    sweep = {"seed": np.int64(4), "training": {"learning_rate": np.float64(1e-3)}}
    sweep |= {"evaluation.kept": ("en.txt",), "training.preset": None}
    recipe = recipe_of(**NEEDED, settings=sweep)
    assert (recipe.seed, recipe.training.learning_rate) == (4, 1e-3)
    assert recipe.evaluation.kept == ("en.txt",)
    texts = ["seed=4", "training.learning_rate=1e-3", 'evaluation.kept=["en.txt"]']
    assert recipe_of(**NEEDED, settings=texts) == recipe


def test_several_languages_are_a_dict_of_texts_that_may_be_read_once():
    given = {"source": "s", "method": "metaxlm", "budget": "9steps", "out": "runs/many"}
    text = {"en": "en.txt", "de": ["de/", "more.txt"]}
    recipe = recipe_of(**given, text=text)
    read = [(stream.language, stream.corpus.text) for stream in recipe.streams]
    assert read == [("en", ("en.txt",)), ("de", ("de/", "more.txt"))]
    assert recipe.name == "many"
    config = AdaptConfig(**given, text=text | {"de": iter(text["de"])})
    assert config.recipe() == config.recipe() == recipe


@pytest.mark.parametrize(("kind", "streams"), [("trim", ()), ("append", ("ko",))])
def test_a_vocabulary_is_trimmed_to_replayed_text_too_and_learnt_without_it(kind, streams):
    given = {"source": "s", "text": {"ko": "ko.txt", "en": "en.txt"}, "budget": "9steps"}
    settings = {"training.replay.en": 0.1, "tokenizer.action": kind}
    assert recipe_of(**given, method="continued", settings=settings).tokenizer.streams == streams


def test_beside_a_recipe_go_its_keys_alone():
    data = {"source": {"model": "s"}, "language": "ko", "corpus": {"text": ["a.txt"]}}
    with pytest.raises(RecipeError, match=r"method: is not given beside a recipe"):
        lingraft.adapt(data, method="xpt")
    with pytest.raises(RecipeError, match="a Recipe is complete"):
        lingraft.adapt(recipe_of(**NEEDED), seed=3)
