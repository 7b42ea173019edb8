"""The page and the card of runs: a snapshot of each, and what must hold of every one.

The page of a corpus.
"""

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
import yaml
from huggingface_hub import ModelCard
from outlines import outline
from snapshots import check, check_page

from lingraft.cli import app as cli
from lingraft.files import write_json
from lingraft.recipe import decoding
from lingraft.recipe.methods import recipe_from
from lingraft.report import card
from lingraft.report.page import Folded, PageText, after_run, page
from lingraft.report.pages import corpus as corpus_page, run as run_page
from lingraft.report.table import Column, TableCell, row, table
from lingraft.report.tables import compare
from lingraft.report.variants import labelled

EVIL = "<script>alert(1)</script>"


def written(runs, tmp_path):
    out = run_page.write(labelled(runs), tmp_path / "report.html")
    return out.read_text("utf-8").replace(str(tmp_path), "TMP")


def parts(run):
    """The front matter of its card as data, and the body."""
    empty, front, body = card.model_card(run).split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(front), body


def test_the_page_of_a_run_with_a_baseline(build, tmp_path):
    text = written([build().whole().run], tmp_path)
    check_page("run", text)
    assert written([build().run], tmp_path) == text
    assert len(text.encode()) < 150_000
    cells = re.findall(r'<span class="guess right"><bdi>(.*?)</bdi>', text)
    assert cells[:2] == ["▁저장", "▁저장"]  # of both models
    assert "문서를 <mark>저장<sup>1</sup></mark>하려면" in text


@pytest.mark.parametrize("stages", [(), ("corpus", "tokenizer")])
def test_a_run_in_progress_gives_a_page_that_says_what_is_missing(build, tmp_path, stages):
    builder = build()
    for stage in stages:
        getattr(builder, stage)()
    (builder.run.path / "environment.json").unlink()
    text = written([builder.run], tmp_path)
    outline(text)
    for stage in ("corpus", "tokenizer", "graft"):
        assert (f"Not there yet: the {stage} stage has not ended." in text) == (stage not in stages)


def test_what_comes_from_files_is_escaped_everywhere(build, tmp_path):
    builder = build().whole().corpus(
        sources=[{"name": f"{EVIL}.txt", "bytes": 1, "documents": 1}], dropped={EVIL: 3},
        language=EVIL, notices=[EVIL], subset={EVIL: 2},
    )  # fmt: skip
    graft = builder.run.stage("graft")
    graft.finish("0", {**graft.result(), "notes": [EVIL]}, 1.0)
    write_json(builder.run.path / "environment.json", {"command": EVIL, "cpu": EVIL})
    text = written([builder.run], tmp_path)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 5


def test_a_table_says_its_marks_to_those_who_do_not_see_them_and_the_language_of_its_text():
    columns = ("model", Column("nsmc", under="accuracy"), Column("", "bar"))
    cells = (EVIL, TableCell("90.1", "± 0.1", 1, "*"), TableCell("", width=40.0))
    made = table(EVIL, (*columns, Column("b", "long", lang="ko")), [row(*cells, "가")], ["p < 1."])
    text = page("t", "v", [made, Folded("more", [PageText(EVIL, "code")])], made_from="files")
    assert '<span class="best">90.1<span class="hidden"> (best)</span></span>*' in text
    assert '<td class="bar"><span style="width:40.0%"></span></td>' in text
    assert '<td class="long" lang="ko">가</td>' in text
    assert "<script>" not in text


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("/home/someone/text/ko.txt", "ko.txt"),
        ("hub:wikimedia/wikipedia:20231101.ko", "hub:wikimedia/wikipedia:20231101.ko"),
        ("model:HuggingFaceTB/SmolLM2-135M#2000", "model:HuggingFaceTB/SmolLM2-135M#2000"),
        ("model:/home/someone/models/small#2000", "model:small#2000"),
    ],
)
def test_a_card_names_text_without_the_folders_of_a_machine(asked, shown):
    recipe = recipe_from({"source": {"model": "m"}, "language": "ko", "corpus": {"text": [asked]}})
    made = tomllib.loads(card.shareable(SimpleNamespace(recipe=recipe)))
    assert made["corpus"]["text"] == [shown]


def test_the_card_of_a_run_which_the_hubs_own_classes_read(build):
    run = build(export={"license": "apache-2.0"}).whole().run
    text = card.model_card(run)
    check("card", text.partition("## How to reproduce it")[0])
    read, (front, _) = ModelCard(text), parts(run)
    stated = front["model-index"][0]["results"][0]["metrics"]
    measured = {one.metric_type: one.metric_value for one in read.data.eval_results}
    assert measured == {metric["type"]: metric["value"] for metric in stated}
    assert yaml.safe_load(read.data.to_yaml()) == front  # nothing is lost on the way back


def test_hub_data_sets_are_named_and_folders_of_the_machine_are_not(build, tmp_path, monkeypatch):
    (tmp_path / "data" / "local").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    names = ["hub:data/local", "hub:org/korean-text:b@v2", "hub:wikimedia/wikipedia:20231101.ko"]
    builder = build(corpus={"text": [*names, str(tmp_path / "ko.txt")]}).whole()
    builder.corpus(sources=[{"name": "/home/someone/ko.txt", "bytes": 1, "documents": 1}])
    front, body = parts(builder.run)
    assert front["datasets"] == ["org/korean-text", "wikimedia/wikipedia"]
    assert "base_model" not in front
    assert "/home" not in body
    assert str(tmp_path) not in body
    found = decoding.decode(tomllib.loads(re.search(r"```toml\n(.*?)```", body, re.DOTALL)[1]))
    assert found.corpus.text == (*names, "ko.txt")
    assert found.source.model == "english-small"


def test_what_is_no_language_code_is_no_language_on_the_hub():
    assert card.languages_in_metadata(["und", "Korean"]) == {}
    both = {"language": ["zh", "ko"], "language_bcp47": ["zh-Hant", "zh-CN", "ko"]}
    assert card.languages_in_metadata(["zh-Hant", "zh-CN", "kor"]) == both


@pytest.mark.parametrize(("weights", "init"), [("pretrained", "random"), ("random", "match")])
def test_a_model_that_takes_something_from_the_source_is_made_from_it(build, weights, init):
    keys = {"source": {"model": "org/some-model"}, "embeddings": {"init": init}}
    front, body = parts(build(graft={"source_weights": weights}, **keys).whole().run)
    assert front["base_model"] == "org/some-model"
    assert "inherit those of the source model" in body


def test_a_drawn_model_is_made_from_the_source_that_teaches(build):
    distil = {"stream": "ko"}
    phase = {"name": "phase-1", "train": ["all"], "budget": {"value": 4}, "distil": distil}
    keys = {"graft": {"source_weights": "random"}, "embeddings": {"init": "random"}}
    texts = {"language": None, "corpus": None, "phases": [phase]}
    texts["streams"] = [{"name": "ko", "language": "ko", "corpus": {"text": ["ko.txt"]}}]
    front, body = parts(build(source={"model": "org/some-model"}, **keys, **texts).run)
    assert front.get("base_model") == "org/some-model"
    assert "(architecture only, random weights)" not in body


def test_the_example_is_python_and_hides_a_word_of_the_test_text_with_the_right_token(build):
    specials = {"unk": ["[UNK]", 0], "mask": ["[MASK]", 4]}
    _, body = parts(build().whole().tokenizer(specials=specials).run)
    code = re.search(r"```python\n(.*?)```", body, re.DOTALL)[1]
    strings = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    assert "문서를 저장하려면 파일 [MASK] 저장을 선택합니다." in strings


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a|b\nc", "[x](y)", "# heading"])
def test_names_of_sources_mean_nothing_to_markdown(build, name):
    builder = build().whole()
    builder.corpus(sources=[{"name": f"hub:{name}", "bytes": 1, "documents": 1}])
    line = next(one for one in parts(builder.run)[1].splitlines() if one.startswith("| hub:"))
    assert not re.search(r"(?<!\\)[<>\[\]#]", line)
    assert len(re.findall(r"(?<!\\)\|", line)) == 4


def test_the_next_step_fits_the_result_and_the_command_line_takes_it(build):
    def taken(run):
        models = labelled([run])
        _, name, *arguments = shlex.split(after_run(models[0], compare(models).lines[0]).command)
        known = typer.main.get_command(cli.app).commands[name]
        with known.make_context(name, arguments) as context:
            return context.params

    assert taken(build("begun").corpus().run)["update"] is True
    run = build().whole().run
    assert taken(run)["models"] == [str(run.path / "model")]
    budgets = taken(build("little").whole(perplexity=500.0).run)["settings"]
    assert budgets == ["phases.0.budget=1400000 tokens", "phases.1.budget=2120000 tokens"]
    stage = run.stage("evaluation")
    done = json.loads(stage.done_path.read_text())
    done["result"]["masks"]["positions"] = 9
    write_json(stage.done_path, done)
    assert taken(run)["settings"] == ["corpus.test=0.2"]


def made(**changes):
    """What corpus.json holds, with something in every table."""
    result = {
        "language": "ko", "scripts": ["Hang"], "documents": 100, "sentences_in": 1000,
        "sources": [{"name": f"{EVIL[:-9]}.xml", "bytes": 5_000_000, "documents": 100}],
        "dropped": {"duplicate": 30, "redirect": 40, "near duplicate": 5, "wrong script": 70},
        "changed": {"e-mail address": 3}, "subset": {"not in the subset": 400},
        "widened": ["valid"], "notices": ["77% of the lines begin with a number"],
        "splits": {
            "train": {"documents": 40, "sentences": 450, "characters": 9000},
            "valid": {"documents": 5, "sentences": 30, "characters": 700},
            "test": {"documents": 4, "sentences": 20, "characters": 400},
        },
        # few letters: of a near-duplicate, which went as a whole
        "samples": {"duplicate": ["가나다"], "wrong script": [EVIL], "few letters": ["123"]},
        "languages": {"ko": 900, "en": 90} | {f"y{n}": 1 for n in range(30)},
        "letters_by_script": {"Hang": 8000, "Latn": 90}, "parts": 3,
    }  # fmt: skip
    settings = {"near_duplicates": True, "scripts": None, "decontaminate": ["a", "b"]}
    return {"corpus": settings, "result": result | changes}


def test_the_page_of_a_corpus():
    text = corpus_page.render(made(), Path("my corpus"))
    check_page("corpus", re.sub(r"[\u00a0\u202f]", " ", text))
    assert "<script>" not in text
