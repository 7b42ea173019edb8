"""`lingraft.AdaptConfig`: the same recipe from Python and from the command line."""

from __future__ import annotations

import numpy as np
import pytest

import lingraft
from lingraft import AdaptConfig, RecipeError

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
    assert [(s.language, s.corpus.text) for s in recipe.streams] == [
        ("en", ("en.txt",)),
        ("de", ("de/", "more.txt")),
    ]
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
