"""Options that several values may follow, and functions that take one or several."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

import lingraft
from lingraft.errors import LingraftError, RecipeError


@pytest.mark.parametrize("text", ["ko.txt", ["ko.txt"]])
def test_evaluate_takes_one_path_or_several(text, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "lingraft.pipeline.standalone.evaluate", lambda model, paths, **_: asked.append(paths)
    )
    lingraft.evaluate("m", text)
    assert asked == [["ko.txt"]]


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_evaluate_reads_a_special_token_that_a_text_spells_as_text(
    family, tiny_source, tmp_path, monkeypatch
):
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


@pytest.mark.parametrize(
    "options",
    [
        {"masking_rate": 2.0},
        {"max_sentences": -3},
        {"max_words": -1},
        {"precision": "fp16"},
        {"text": []},
    ],
    ids=str,
)
def test_a_wrong_option_of_evaluate_is_one_line_in_python_too(options):
    with pytest.raises(LingraftError, match=r"evaluate: \w+ (must|names)") as error:
        lingraft.evaluate("no-model", **{"text": "ko.txt"} | options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("option", [{"masking_rate": 0.3}, {"seed": 1}, {"max_words": 0}], ids=str)
def test_what_is_for_masked_models_is_refused_of_a_causal_one_in_python_too(option):
    source = Path(__file__).parents[2] / "demo" / "causal-source"
    with pytest.raises(RecipeError, match=f"{next(iter(option))} is for masked models"):
        lingraft.evaluate(source, "ko.txt", **option)


def test_a_study_in_the_place_of_a_recipe_is_answered_with_a_command_that_a_shell_takes(
    command, tmp_path
):
    path = tmp_path / "my study.toml"
    path.write_text('base = "recipe.toml"\n')
    assert f"`lingraft study plan '{path}'` says what it will do" in command("check", path).err
