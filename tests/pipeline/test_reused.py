"""`lingraft check` refuses a tokenizer that exists already before any text is read."""

from __future__ import annotations

import pytest

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.pipeline import preflight
from lingraft.recipe.methods import recipe_from
from lingraft.tokenizer import files as tokenizer_files


def asked(source, text, **tokenizer):
    return recipe_from(
        {
            "language": "ko",
            "source": {"model": str(source)},
            "corpus": {"text": [str(text)]},
            "tokenizer": tokenizer,
        }
    )


def refusal(do):
    try:
        do()
    except UnsupportedModelError as error:
        return str(error)
    return ""


def by_check(recipe):
    return refusal(lambda: preflight.check(recipe))


def general(folder, tiny_tokenizer, tmp_path):
    """A tokenizer as lingraft writes it, whose files name every role."""
    tokenizer = tiny_tokenizer(folder)
    state = tokenizer_files.state_of(tokenizer)
    tokenizer_files.save(tokenizer_files.wrapped(state, tokenizer), tmp_path / folder)
    return tmp_path / folder


@pytest.mark.parametrize(
    ("given", "source", "words"),
    [
        ("bert", "roberta", "padding token at id 0, and the source counts positions from 1"),
        ("bert", "t5", "lacks <extra_id_0>"),
        ("gpt2", "bert", "has no pad_token, mask_token"),
    ],
)
def test_what_does_not_suit(
    given, source, words, tiny_source, tiny_tokenizer, korean_text, tmp_path
):
    folder = general(given, tiny_tokenizer, tmp_path)
    recipe = asked(tiny_source(source), korean_text, action="use", model=str(folder))
    assert words in by_check(recipe)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tokenizer_that_the_run_keeps_is_refused(family, tiny_source, korean_text):
    recipe = asked(tiny_source(family), korean_text, action="keep")
    assert by_check(recipe) == ""
