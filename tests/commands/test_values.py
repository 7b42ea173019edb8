"""Options that several values may follow, and functions that take one or several."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

import lingraft
from lingraft.commands.options import labelled
from lingraft.errors import LingraftError, RecipeError
from lingraft.finetuning.recipe import decode_finetune
from lingraft.recipe.methods import recipe_from


def test_a_second_value_of_an_option_that_takes_one_is_said(command, tmp_path):
    ended = command("translate", "M", "--text", "a", "b", "--out", tmp_path / "c")
    assert ended.status == 2
    assert "unexpected extra argument(s) (b)" in ended.err


@pytest.mark.parametrize("text", ["ko.txt", ["ko.txt"]])
def test_evaluate_takes_one_path_or_several(text, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "lingraft.pipeline.standalone.evaluate", lambda model, paths, **_: asked.append(paths)
    )
    lingraft.evaluate("m", text)
    assert asked == [["ko.txt"]]


def test_evaluate_counts_the_text_that_a_vocabulary_lacks(tmp_path):
    """It is never asked for, so that an English model looks good on Korean text."""
    text = tmp_path / "ko.txt"
    text.write_text("\n\n".join(f"{i}번 파일을 열고 문서를 저장합니다." for i in range(9)))
    source = Path(__file__).parents[2] / "demo" / "source"
    result = lingraft.evaluate(str(source), str(text), max_words=0, precision="fp32")
    assert result["metrics"]["mask-only"]["positions"] < result["tokens"]
    assert 0.3 < result["unknown"] / result["tokens"] < 1


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


def test_evaluate_counts_as_cut_what_is_longer_than_the_model_reads(tmp_path, monkeypatch):
    """And not the first sentence, of exactly as many tokens."""
    monkeypatch.setattr("lingraft.pipeline.standalone.LONGEST", 8)
    text, source = tmp_path / "en.txt", Path(__file__).parents[2] / "demo" / "source"
    text.write_text("The file is open now.\n\nThe file is open now and then.\n")
    result = lingraft.evaluate(str(source), str(text), max_words=0, precision="fp32")
    assert (result["tokens"], result["cut"]) == (16, 1)


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


@pytest.mark.parametrize("recipe", [["r.toml"], 3], ids=str)
def test_what_is_no_recipe_is_one_line_in_python(recipe):
    with pytest.raises(RecipeError, match="a recipe is a file, its tables as a dict, or a Recipe"):
        lingraft.adapt(recipe)


def test_one_setting_by_itself_is_no_list_of_letters(tmp_path):
    data = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}}
    assert recipe_from(data, "seed=3").seed == 3
    assert recipe_from(data, ["seed=3"]).seed == 3


def test_models_whose_folders_are_one_where_case_does_not_count_are_two_of_one_name():
    with pytest.raises(RecipeError, match="two models would be called 'base'"):
        labelled(["a/Base", "b/base"], [])
    with pytest.raises(RecipeError, match="two models would be called 'base'"):
        decode_finetune({"tasks": ["klue-nli"], "models": ["m", "n"], "labels": ["Base", "base"]})


def test_a_study_in_the_place_of_a_recipe_is_answered_with_a_command_that_a_shell_takes(
    command, tmp_path
):
    path = tmp_path / "my study.toml"
    path.write_text('base = "recipe.toml"\n')
    assert f"`lingraft study plan '{path}'` says what it will do" in command("check", path).err
