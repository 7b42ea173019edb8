"""What pages and commands propose next: it fits the result, and the command line takes it."""

import json
import shlex
from pathlib import Path

import pytest
import typer

from lingraft import cli
from lingraft.report import after_run
from lingraft.report.pages import corpus as corpus_page
from lingraft.report.tables import compare
from lingraft.report.variants import labelled
from lingraft.rundir import write_json


def taken(command):
    """What the command line reads in a command; fails where it reads nothing."""
    program, name, *arguments = shlex.split(command)
    assert program == "lingraft"
    known = typer.main.get_command(cli.app).commands[name]
    with known.make_context(name, arguments) as context:
        return context.params


def after(run):
    found = labelled([run])
    return after_run.after_run(found[0], compare(found).lines[0])


def test_a_model_that_has_learnt_is_fine_tuned_on_a_task_of_its_language(build):
    run = build().whole().run
    step = after(run)
    assert taken(step.command)["models"] == [str(run.path / "model")]
    assert taken(step.command)["task"] == ["klue-ynat"]
    assert "lingraft show tasks" in step.why


@pytest.mark.parametrize(
    ("language", "task"), [("de", "panx-de"), ("sw-KE", "panx-sw"), ("gsw", "my-task.toml")]
)
def test_the_task_is_one_with_training_text_of_the_language(build, language, task):
    assert taken(after(build(language=language).whole().run).command)["task"] == [task]


def test_a_model_that_has_learnt_little_gets_four_times_its_budget(build):
    run = build().whole(perplexity=500.0).run
    phases = labelled([run])[0].recipe.phases
    step = after(run)
    given = taken(step.command)
    assert given["settings"] == [
        f"phases.{at}.budget={4 * phase.budget.value:.15g} {phase.budget.unit}"
        for at, phase in enumerate(phases)
    ]
    assert given["out_dir"] == Path(f"{run.path}-longer")
    assert "learnt little" in step.why


@pytest.mark.parametrize(("unit", "value", "more"), [("steps", 3, 600), ("tokens", 1_000, 200_000)])
def test_one_of_next_to_no_training_gets_the_fewest_tokens_that_help(unit, value, more, build):
    phase = {"name": "phase-1", "train": ["all"], "budget": {"value": float(value), "unit": unit}}
    run = build(phases=[phase]).whole(perplexity=500.0).run
    path = run.path / "phase-1" / "done.json"
    done = json.loads(path.read_text())
    write_json(path, done | {"result": done["result"] | {"tokens": 1_500}})
    step = after(run)
    assert taken(step.command)["settings"] == [f"phases.0.budget={more} {unit}"]
    assert f"Train it {more // value} times as long" in step.why


def test_a_run_that_nothing_is_known_of_gets_more_test_text(build):
    run = build().whole().run
    path = run.path / "evaluation/done.json"
    done = json.loads(path.read_text())
    done["result"]["masks"]["positions"] = 9
    write_json(path, done)
    assert taken(after(run).command)["settings"] == ["corpus.test=0.2"]


def test_a_run_under_way_goes_on_by_the_command_that_began_it(build):
    run = build().corpus().run
    assert after(run).command.startswith("lingraft adapt demo/recipe.toml")
    overwriting = {"command": "lingraft adapt demo/recipe.toml --force --out runs/a"}
    write_json(run.path / "environment.json", overwriting)
    assert after(run).command == "lingraft adapt demo/recipe.toml --out runs/a"
    (run.path / "environment.json").unlink()
    assert taken(after(run).command)["update"] is True


def test_a_corpus_becomes_a_model(tmp_path):
    result = {"language": "ko", "dropped": {"too short": 3, "duplicate": 1_200, "x": 0}}
    result["splits"] = {"train": {"sentences": 900, "characters": 40_000}}
    result["sentences_in"] = 2_103
    given = taken(corpus_page.after(result, tmp_path / "my corpus").command)
    assert (given["text"], given["lang"]) == ([str(tmp_path / "my corpus")], "ko")
    said = corpus_page.verdict(result)
    assert said.endswith("Dropped most often: duplicate (1,200) and too short (3).")
    pages = {"redirect": 7, "too short": 3}
    said = corpus_page.verdict(result | {"dropped": pages})
    assert said.endswith("Dropped most often: redirect (7 documents) and too short (3).")
    nothing = corpus_page.verdict(result | {"dropped": {"x": 0}})
    assert nothing.endswith("Nothing was dropped.")
