import ast
import json
import re
import tomllib
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard
from snapshots import check

from lingraft.recipe import decoding
from lingraft.recipe.phase import Distil
from lingraft.report import card
from lingraft.report.variants import variants


def parts(text):
    """The front matter as data, and the body."""
    empty, front, body = text.split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(front), body


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/runs/ko/model", "ko/model"),
        ("runs/ko/graft/model", "ko/graft/model"),
        ("tuned/a/nli/seed-0/best", "nli/seed-0/best"),
        ("../model", "model"),
    ],
)
def test_a_folder_that_every_run_has_is_named_with_the_run_s(folder, name, build):
    _, body = parts(card.model_card(build(source={"model": folder}).run))
    assert f"made from “{name}” (a local model)" in body


def test_a_relative_folder_that_exists_is_not_taken_for_a_hub_id(build, tmp_path, monkeypatch):
    (tmp_path / "models" / "small").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    front, _ = parts(card.model_card(build(source={"model": "models/small"}).run))
    assert "base_model" not in front


def test_hub_data_sets_are_named_in_the_metadata(build, tmp_path, monkeypatch):
    (tmp_path / "data" / "local").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    names = [
        "hub:data/local",
        "hub:org/korean-text",
        "hub:wikimedia/wikipedia:20231101.ko",
        "hub:org/korean-text:b",
        "hub:org/korean-text:b@v2",
    ]
    front, _ = parts(card.model_card(build(corpus={"text": names}).run))
    assert front["datasets"] == ["org/korean-text", "wikimedia/wikipedia"]


def test_what_is_no_language_code_and_what_stands_for_none_is_no_language_on_the_hub():
    assert card.languages_in_metadata(["und", "Korean"]) == {}
    both = {"language": ["zh", "ko"], "language_bcp47": ["zh-Hant", "zh-CN", "ko"]}
    assert card.languages_in_metadata(["zh-Hant", "zh-CN", "kor"]) == both


@pytest.mark.parametrize(
    ("graft", "taken"),
    [
        ({}, True),
        ({"source_weights": "random"}, False),
        ({"source_weights": "random", "init": "match"}, True),
    ],
)
def test_a_model_that_takes_nothing_from_the_source_is_not_said_to_be_made_from_it(
    build, graft, taken
):
    graft = dict(graft)
    init = {"init": graft.pop("init", "random")}
    run = build(source={"model": "org/some-model"}, graft=graft, embeddings=init).whole().run
    front, body = parts(card.model_card(run))
    assert front.get("base_model") == ("org/some-model" if taken else None)
    assert ("made from org/some-model with" in body) == taken
    assert ("org/some-model (architecture only, random weights)" in body) != taken
    assert ("inherit those of the source model" in body) == taken
    drawn = graft.get("source_weights") == "random"
    assert ("4 source layers with weights drawn anew" in body) == drawn


@pytest.mark.parametrize(
    ("teacher", "taken"), [(None, True), ("org/some-model", True), ("org/other-model", False)]
)
def test_a_drawn_model_that_another_than_the_source_teaches_is_not_made_from_it(
    build, teacher, taken
):
    graft = {"source_weights": "random"}
    (main, *_) = variants(
        build(source={"model": "org/some-model"}, graft=graft, embeddings={"init": "random"}).run
    )
    distil = Distil(stream="ko", teacher=teacher)
    phases = tuple(p.model_copy(update={"distil": distil}) for p in main.recipe.phases)
    recipe = main.recipe.model_copy(update={"phases": phases})
    assert card.metadata(replace(main, recipe=recipe)).get("base_model") == (
        "org/some-model" if taken else None
    )


def test_no_folder_of_the_machine_is_in_the_card(build, tmp_path):
    builder = build().whole()
    builder.corpus(sources=[{"name": "/home/someone/text/ko.txt", "bytes": 1, "documents": 1}])
    text = card.model_card(builder.run)
    assert "/home" not in text
    assert str(tmp_path) not in text
    assert "ko.txt" in text


def test_the_recipe_in_the_card_decodes_and_names_files_only(build):
    _, body = parts(card.model_card(build().whole().run))
    block = re.search(r"```toml\n(.*?)```", body, re.DOTALL)[1]
    found = decoding.decode(tomllib.loads(block))
    assert found.corpus.text == ("libreoffice-help.ko.txt.xz",)
    assert found.source.model == "english-small"


def test_the_example_is_python_and_hides_a_word_of_the_test_text_with_the_right_token(build):
    builder = build().whole()
    specials = {"unk": ["[UNK]", 0], "mask": ["[MASK]", 4]}
    _, body = parts(card.model_card(builder.tokenizer(specials=specials).run))
    code = re.search(r"```python\n(.*?)```", body, re.DOTALL)[1]
    strings = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    assert "문서를 저장하려면 파일 [MASK] 저장을 선택합니다." in strings
    assert "<mask>" not in body


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "a|b\nc", "[x](y)", "# heading", "&lt;b&gt;"]
)
def test_names_of_sources_mean_nothing_to_markdown(build, name):
    builder = build().whole()
    builder.corpus(sources=[{"name": f"hub:{name}", "bytes": 1, "documents": 1}])
    _, body = parts(card.model_card(builder.run))
    row = next(line for line in body.splitlines() if line.startswith("| hub:"))
    assert not re.search(r"(?<!\\)[<>\[\]#]|&lt;", row)
    assert len(re.findall(r"(?<!\\)\|", row)) == 4


def adapted(build):
    """A whole run whose model has adapters."""
    builder = build(graft={"adapters": 4}).whole()
    path = builder.run.path / "graft" / "done.json"
    done = json.loads(path.read_text())
    done["result"]["adapters"] = 4
    path.write_text(json.dumps(done))
    return builder.run


def test_a_model_with_adapters_says_that_it_loads_with_lingraft_alone(build):
    front, body = parts(card.model_card(adapted(build)))
    assert front["library_name"] == "lingraft"
    assert "adapters of width 4" in body
    assert "it loads with lingraft" in " ".join(body.split())
    assert "needs neither lingraft" not in body
    example = re.search(r"```python\n(.*?)```", body, re.DOTALL)[1]
    assert "lingraft.load(path)" in ast.unparse(ast.parse(example))


def causal(run):
    """The run, its model judged as a causal one is."""
    stage = run.stage("evaluation")
    done = json.loads(stage.done_path.read_text(encoding="utf-8"))
    result = done["result"]
    result["metrics"] = {"next-token": result["metrics"]["mask-only"]}
    result["likelihood"] = {
        "bits_per_byte": 0.91, "bits_per_character": 2.5, "bytes": 900, "characters": 300,
        "tokens": 100, "documents": 3, "unknown": 0,
    }  # fmt: skip
    result["text"] = "aaaa"
    del result["words"]
    stage.done_path.write_text(json.dumps(done), encoding="utf-8")
    return run


def test_a_causal_model_is_used_by_generate_and_measured_on_every_token(build):
    front, body = parts(card.model_card(causal(build().whole().run)))
    assert front["pipeline_tag"] == "text-generation"
    (index,) = front["model-index"][0]["results"]
    measured = {metric["type"]: metric["value"] for metric in index["metrics"]}
    assert (measured["bits_per_byte"], measured["bits_per_character"]) == (0.91, 2.5)
    assert "A causal language model for the language" in body
    assert "AutoModelForCausalLM.from_pretrained(path)" in body
    assert "model.generate(" in body
    assert not re.search(
        "mask(ed|s)?\\b", body.replace("attention_mask", "")[: body.find("## Env")]
    )


def test_the_card_of_a_run_which_the_hubs_own_classes_read(build):
    text = card.model_card(build(export={"license": "apache-2.0"}).whole().run)
    check("card", text.partition("## How to reproduce it")[0])
    read = ModelCard(text)
    front, _ = parts(text)
    assert read.data.model_name == front["model-index"][0]["name"]
    measured = {one.metric_type: one.metric_value for one in read.data.eval_results}
    stated = front["model-index"][0]["results"][0]["metrics"]
    assert measured == {metric["type"]: metric["value"] for metric in stated}
    assert {one.task_type for one in read.data.eval_results} == {"fill-mask"}
    assert {one.dataset_split for one in read.data.eval_results} == {"test"}
    assert yaml.safe_load(read.data.to_yaml()) == front  # nothing is lost on the way back
