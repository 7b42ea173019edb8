"""Cells of method 'auto': what the rules choose, beside settings that are said."""

from __future__ import annotations

import pytest
from tiny_study import run_here

from lingraft.errors import RecipeError
from lingraft.recipe.methods import read_recipe
from lingraft.rundir import Run, read_json
from lingraft.study import grid, identity, planning
from lingraft.study.estimate import cost_of
from lingraft.study.recipe import read_study
from lingraft.study.rows import CurveRow, EndRow
from lingraft.study.steps import TrainStep

BASE = """
name = "base"
language = "ko"
[source]
model = "{source}"
[corpus]
text = ["{text}"]
valid = 0.05
test = 0.1
[tokenizer]
vocab_size = 300
max_tokens = 64
[method]
name = "xpt"
learning_rate = 1e-3
budget = {{ value = 2000, unit = "tokens" }}
batch = {{ size = 512, unit = "tokens" }}
[training]
row_tokens = 64
precision = "fp32"
[evaluation]
sentences = 20
words = 20
"""
STUDY = 'name = "tiny"\nbase = "base.toml"\n[[grids]]\nmethod = ["auto", "xpt-sp"]\nseed = [0]\n'


@pytest.fixture
def study(tmp_path, tiny_source, korean_text):
    def written(base=BASE, text=STUDY):
        filled = base.format(source=tiny_source("roberta"), text=korean_text)
        (tmp_path / "base.toml").write_text(filled, encoding="utf-8")
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        return read_study(tmp_path / "study.toml")

    return written


def test_rules_decide_everything_of_the_method_but_its_budget(study):
    automatic, said = grid.cells(study())
    assert (automatic.id, said.id) == ("auto-s0", "xpt-sp-s0")
    assert automatic.axes["method"] == "auto"
    assert not {"learning_rate", "batch"} & automatic.recipe.method.model_fields_set
    assert automatic.recipe.method.preset == "auto"
    assert automatic.recipe.method.budget == said.recipe.method.budget


def test_what_rules_decide_is_left_out_of_the_base_recipe(study):
    said_in_base = BASE + '[graft]\nlayers_before = 2\nsource_weights = "random"\n'
    automatic, said = grid.cells(study(said_in_base))
    assert automatic.recipe.graft.model_fields_set == {"source_weights"}
    assert said.recipe.graft.layers_before == 2


def test_settings_of_all_cells_hold_for_it_too(study):
    set_in_all = STUDY.replace("[[grids]]", '[set]\n"method.warmup" = 0.25\n[[grids]]')
    automatic, _ = grid.cells(study(text=set_in_all))
    assert automatic.recipe.method.warmup == 0.25


@pytest.mark.parametrize(
    "axis",
    [
        '"graft.embeddings" = ["random"]',
        '"graft.layers_before" = [1]',
        '"method.learning_rate" = [2e-3]',
        '"method.probe" = [false]',
        '"resources.vector_width" = [300]',
        '"resources.sentences" = [50]',
    ],
)
def test_what_a_cell_is_given_is_its_own_even_where_it_is_a_default(study, axis):
    beside = f'{STUDY}[[grids]]\nmethod = ["auto"]\n{axis}\nseed = [0]\n'
    chosen, _, given = grid.cells(study(text=beside))
    assert given.id.startswith("auto-s0-")
    assert identity.cell(given.recipe) != identity.cell(chosen.recipe)


def test_its_progress_is_known_while_it_trains(study, tmp_path):
    automatic, _ = grid.cells(study())
    step = TrainStep(automatic.recipe, cost_of(automatic.recipe))
    run = Run(tmp_path / "cell")
    run.path.mkdir()
    assert step.progress(run) == 0
    run.metrics_path.write_text('{"phase": "phase-1", "tokens": 500}\n', encoding="utf-8")
    assert step.progress(run) == pytest.approx(0.25)


@pytest.mark.slow
def test_it_trains_and_its_recipe_is_complete_in_the_end(study, tmp_path):
    tiny, out = study(), tmp_path / "out"
    tally, _ = run_here(tiny, out)
    assert (tally.done, tally.failed) == (2, [])
    folder = out / "cells" / "auto-s0"
    choices = {one["key"]: one for one in read_json(folder / "plan.json")["choices"]}
    complete = read_recipe(folder / "recipe.toml")
    assert complete.method.name == choices["method.name"]["value"] == "xpt-sp"
    assert complete.training.micro_batch_tokens == 4_096  # cells may share a GPU
    assert choices["tokenizer.vocab_size"]["rule"] == "given"
    assert complete.phases[0].optimiser.learning_rate == choices["method.learning_rate"]["value"]
    own = [row for row in planning.current_rows(tiny, out) if row.cell == "auto-s0"]
    assert {row.phase for row in own if isinstance(row, CurveRow)} == {"phase-1"}
    (end,) = (row for row in own if isinstance(row, EndRow))
    assert 2_000 <= end.tokens < 4_000
    again, here = run_here(tiny, out)
    assert (again.done, here.started) == (0, [])


@pytest.mark.slow
def test_a_cell_whose_rows_were_lost_keeps_what_was_decided(study, tmp_path):
    tiny, out = study(), tmp_path / "out"
    run_here(tiny, out, only=["auto"])
    rows = (out / "results.jsonl").read_text(encoding="utf-8")
    before = read_recipe(out / "cells" / "auto-s0" / "recipe.toml")
    (out / "results.jsonl").unlink()
    run_here(tiny, out, only=["auto"])
    assert read_recipe(out / "cells" / "auto-s0" / "recipe.toml") == before
    assert len((out / "results.jsonl").read_text(encoding="utf-8").splitlines()) == len(
        rows.splitlines()
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("vocab_size = 300", "kind = 'unigram'", "give tokenizer.vocab_size"),
        ('2000, unit = "tokens"', '5, unit = "minutes"', "give budgets in tokens, steps or epochs"),
    ],
)
def test_cells_stay_comparable(study, old, new, message):
    with pytest.raises(RecipeError, match=message):
        grid.cells(study(BASE.replace(old, new)))
