"""The short form: the same recipe from the command line and from Python."""

from __future__ import annotations

import pytest

import lingraft
from lingraft.errors import RecipeError
from lingraft.recipe.shorthand import ShortForm, recipe_of

NEEDED = {"source": "s", "text": "ko.txt", "language": "ko"}


def test_python_and_the_command_line_make_one_recipe(command, monkeypatch) -> None:
    asked = []

    def caught(recipe, out, **_):
        asked.append(recipe)
        raise RecipeError("caught")

    monkeypatch.setattr("lingraft.pipeline.adapt.adapt", caught)
    given = ("--source", "s", "--text", "a.txt", "b", "--lang", "ko", "--out", "runs/x")
    words = ("--vocab-size", 300, "--steps", 2, "--learning-rate", 1e-3, "--batch-tokens", 64)
    more = ("--method", "metaxlm-dict", "--lexicons", "d", "--baseline", "scratch", "--seed", 4)
    assert command("adapt", *given, *words, *more, "--preset", "xpt2021").status == 1
    form = {"source": "s", "text": ["a.txt", "b"], "language": "ko", "vocab_size": 300, "seed": 4}
    form |= {"steps": 2, "learning_rate": 1e-3, "batch_tokens": 64, "method": "metaxlm-dict"}
    form |= {"lexicons": ["d"], "baselines": ["scratch"], "preset": "xpt2021"}
    with pytest.raises(RecipeError, match="caught"):
        lingraft.adapt(out="runs/x", **form)
    assert set(form) == set(ShortForm.__annotations__)
    on_the_command_line, from_python = asked
    assert from_python == on_the_command_line


def test_several_languages_are_a_dict_of_texts() -> None:
    text = {"en": "en.txt", "de": ["de/", "more.txt"]}
    recipe = recipe_of({"source": "s", "text": text, "method": "metaxlm"}, "runs/many")
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
        (NEEDED | {"method": "magic"}, "o", "method 'magic' is not known"),
    ],
)
def test_what_is_wrong_with_the_short_form_is_one_line(form, out, told) -> None:
    with pytest.raises(RecipeError, match=told):
        recipe_of(form, out)


def test_a_recipe_and_the_short_form_do_not_mix() -> None:
    with pytest.raises(RecipeError, match="steps= belongs to the form without a recipe"):
        lingraft.adapt("recipes/demo.toml", "runs/x", steps=3)
