"""The short form: the same recipe from the command line and from Python."""

from __future__ import annotations

import numpy as np
import pytest

import lingraft
from lingraft.commands.from_python import recipe_of
from lingraft.errors import RecipeError
from lingraft.recipe.shorthand import ShortForm

NEEDED = {"source": "s", "text": "ko.txt", "language": "ko"}


def test_python_and_the_command_line_make_one_recipe(command, monkeypatch) -> None:
    asked = []

    def caught(recipe, out, **_):
        asked.append(recipe)
        raise RecipeError("caught")

    monkeypatch.setattr("lingraft.pipeline.adapt.adapt", caught)
    given = ("--source", "s", "--text", "a.txt", "b", "--lang", "ko", "--out", "runs/x")
    words = (
        "tokenizer.vocab_size=300",
        "--budget",
        "2steps",
        "training.learning_rate=1e-3",
        "training.batch.size=64",
        "training.batch.unit=tokens",
    )
    more = (
        "--method",
        "metaxlm-dict",
        "embeddings.lexicons=d",
        "evaluation.kept=k",
        "--baseline",
        "scratch",
        "--seed",
        4,
    )
    assert command("adapt", *given, *words, *more, "training.preset=xpt2021").status == 1
    form = {"source": "s", "text": ["a.txt", "b"], "language": "ko", "vocab_size": 300, "seed": 4}
    form |= {"steps": 2, "learning_rate": 1e-3, "batch_tokens": 64, "method": "metaxlm-dict"}
    form |= {"kept": ["k"], "lexicons": ["d"], "baselines": ["scratch"], "preset": "xpt2021"}
    with pytest.raises(RecipeError, match="caught"):
        lingraft.adapt(out="runs/x", **form)
    budgets = {"minutes", "hours", "tokens"}  # beside steps, of which there can be one
    assert set(form) | budgets | {"tokenizer"} == set(ShortForm.__annotations__)
    on_the_command_line, from_python = asked
    assert from_python == on_the_command_line
    assert command("adapt", *given, "--budget", "2steps", "--tokenizer", "t").status == 1
    form = {"source": "s", "text": ["a.txt", "b"], "language": "ko", "steps": 2, "tokenizer": "t"}
    with pytest.raises(RecipeError, match="caught"):
        lingraft.adapt(out="runs/x", **form)
    assert asked[2] == asked[3]
    assert (asked[3].tokenizer.action, asked[3].tokenizer.model) == ("use", "t")


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ({"minutes": 5}, (5, "minutes")),
        ({"hours": 0.5}, (0.5, "hours")),
        ({"tokens": "5M"}, (5e6, "tokens")),
        ({"tokens": 300_000}, (3e5, "tokens")),
        ({"steps": 7}, (7, "steps")),
    ],
)
def test_a_budget_chooses_what_is_left_open(given, budget) -> None:
    recipe = recipe_of(NEEDED | given, "runs/x")
    assert recipe.training.budget is not None
    assert (recipe.training.budget.value, recipe.training.budget.unit) == budget
    assert recipe.training.preset == "auto"


def test_without_a_budget_it_asks_for_one(tiny_source, korean_text) -> None:
    form = NEEDED | {"source": tiny_source("bert"), "text": korean_text}
    with pytest.raises(RecipeError, match=r"budget: is not given.*preset 'xpt2021' has"):
        lingraft.adapt(out="runs/x", **form)
    assert recipe_of(form | {"preset": "xpt2021"}, "runs/x").phases


def test_one_name_by_itself_is_a_list_of_one(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(
        "lingraft.pipeline.adapt.adapt", lambda recipe, *_, **__: asked.append(recipe)
    )
    names = {"kept": "en.txt", "lexicons": "d.txt", "baselines": "scratch"}
    form = NEEDED | {"steps": 7, "preset": "xpt2021"}
    lingraft.adapt(out="runs/x", settings="seed=4", **form, **names)
    lists = {key: [name] for key, name in names.items()}
    lingraft.adapt(out="runs/x", settings=["seed=4"], **form, **lists)
    assert asked[0] == asked[1]


def test_numbers_of_numpy_are_numbers() -> None:
    """They are what a sweep over np.logspace or np.arange gives."""
    plain = {"learning_rate": 1e-3, "vocab_size": 300, "batch_tokens": 64, "seed": 4, "steps": 7}
    numpys = {
        name: np.float64(value) if isinstance(value, float) else np.int64(value)
        for name, value in plain.items()
    }
    assert recipe_of(NEEDED | numpys, "runs/x") == recipe_of(NEEDED | plain, "runs/x")


def test_files_of_a_language_may_come_from_a_generator() -> None:
    """Such as Path.glob gives, which is read once."""
    form = {"source": "s", "method": "metaxlm", "steps": 9}
    text = {"en": "en.txt", "de": ["a.txt", "b.txt"]}
    given = recipe_of(form | {"text": text | {"de": iter(text["de"])}}, "runs/x")
    assert given == recipe_of(form | {"text": text}, "runs/x")


def test_several_languages_are_a_dict_of_texts() -> None:
    text = {"en": "en.txt", "de": ["de/", "more.txt"]}
    form = {"source": "s", "text": text, "method": "metaxlm", "steps": 9}
    recipe = recipe_of(form, "runs/many")
    assert [(s.language, s.corpus.text) for s in recipe.streams] == [
        ("en", ("en.txt",)),
        ("de", ("de/", "more.txt")),
    ]
    assert recipe.name == "many"


@pytest.mark.parametrize(
    ("form", "out", "told"),
    [
        ({"source": "s"}, "o", "missing: text=, language="),
        (NEEDED, None, "name the run's folder, for example out='runs/ko'"),
        (NEEDED | {"languages": "ko"}, "o", "no argument languages=; did you mean language="),
        (NEEDED | {"joy": 1}, "o", r"no argument joy=; see help\(lingraft.adapt\)"),
        (NEEDED | {"text": {"en": "en.txt"}}, "o", "leave language= out"),
        ({"source": "s", "text": {"pt_BR": "a"}}, "o", "text= has 'pt_BR' in the place of a lang"),
        ({"source": "s", "text": {"en": "a", "de": []}}, "o", "text= names no file for 'de'"),
        (NEEDED | {"method": "magic"}, "o", "method 'magic' is not known"),
    ],
)
def test_what_is_wrong_with_the_short_form_is_one_line(form, out, told) -> None:
    with pytest.raises(RecipeError, match=told):
        recipe_of(form, out)


def test_a_recipe_and_the_short_form_do_not_mix() -> None:
    with pytest.raises(RecipeError, match="steps= belongs to the form without a recipe"):
        lingraft.adapt("recipes/demo.toml", "runs/x", steps=3)
