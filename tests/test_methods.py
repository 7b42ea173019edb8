from __future__ import annotations

import pytest

from lingraft.decoding import decode, to_toml
from lingraft.errors import RecipeError
from lingraft.methods import METHODS, PRESETS, baseline, expand, read_recipe, recipe_from, settled

SMALL = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}}
PHASE = {"name": "one", "train": ["itl"], "budget": {"value": 3}}


def recipe(*assignments, **tables):
    return recipe_from(SMALL | tables, assignments)


def test_xpt_freezes_the_source_first_and_then_trains_everything():
    first, second = recipe().phases
    assert (first.name, first.train) == ("phase-1", ("embeddings", "output_bias", "itl"))
    assert (second.name, second.train) == ("phase-2", ("all",))
    assert first.budget.value == second.budget.value == 30_000


def test_the_papers_disagree_on_what_the_first_phase_freezes():
    first = recipe(method={"preset": "chameleon2022"}).phases[0]
    assert set(first.train) - set(recipe().phases[0].train) == {"positions", "head"}
    assert (first.optimiser.learning_rate, first.batch.size) == (3e-4, 512)


def test_xpt_sp_is_xpt_in_one_phase():
    one, two = recipe(method={"name": "xpt-sp"}), recipe()
    assert one.graft == two.graft
    assert [phase.train for phase in one.phases] == [("all",)]
    assert one.phases[0].budget.value == sum(phase.budget.value for phase in two.phases)


def test_scratch_takes_nothing_from_the_source():
    graft = recipe(method={"name": "scratch"}).graft
    assert (graft.source_weights, graft.embeddings) == ("random", "random")
    assert (graft.layers_before, graft.layers_after) == (1, 1)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_expands_under_every_preset_and_survives_toml(method, preset, tmp_path):
    whole = recipe(method={"name": method, "preset": preset})
    assert whole.phases
    assert expand(whole) == whole
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(settled(whole)), encoding="utf-8")
    again = read_recipe(path)
    assert again.phases == whole.phases
    assert again.graft.model_dump() == whole.graft.model_dump()
    assert settled(again) == settled(whole)


def test_what_the_recipe_says_of_the_graft_wins_over_the_method():
    graft = recipe(method={"name": "scratch"}, graft={"embeddings": "match"}).graft
    assert (graft.embeddings, graft.source_weights) == ("match", "random")


@pytest.mark.parametrize(
    ("steps", "share", "split"),
    [(10, 0.5, (5, 5)), (10, 0.33, (3, 7)), (2, 0.01, (1, 1)), (7, 0.99, (6, 1)), (3, 0.5, (2, 1))],
)
def test_steps_are_split_in_whole_numbers_and_none_is_lost(steps, share, split):
    method = {"budget": {"value": steps}, "first_phase_share": share}
    assert tuple(phase.budget.value for phase in recipe(method=method).phases) == split


def test_tokens_are_split_by_share():
    method = {"budget": {"value": 1e6, "unit": "tokens"}, "first_phase_share": 0.25}
    phases = recipe(method=method).phases
    assert [phase.budget.value for phase in phases] == [250_000, 750_000]


def test_fewer_steps_than_phases_are_refused():
    with pytest.raises(RecipeError, match="1 steps are too few for 2 phases; give at least 2"):
        recipe(method={"budget": {"value": 1}})


@pytest.mark.parametrize(("steps", "warmup"), [(60_000, 1_000), (1_000, 0.06)])
def test_a_short_run_warms_up_for_a_share_of_it(steps, warmup):
    assert recipe(method={"budget": {"value": steps}}).phases[0].schedule.warmup == warmup


def test_the_papers_budget_ends_by_patience_and_a_given_one_does_not():
    assert recipe().phases[0].validation.patience == 10
    assert recipe(method={"budget": {"value": 100}}).phases[0].validation.patience is None


def test_shorthand_fills_in_batch_and_learning_rate():
    method = {"batch": {"size": 7, "unit": "tokens"}, "learning_rate": 0.5}
    for phase in recipe(method=method).phases:
        assert (phase.batch.size, phase.batch.unit) == (7, "tokens")
        assert phase.optimiser.learning_rate == 0.5


def test_shorthand_beside_phases_is_refused():
    with pytest.raises(RecipeError, match=r"method\.batch: has no effect because the recipe gives"):
        recipe(phases=[PHASE], method={"batch": {"size": 7}})


def test_phases_that_the_recipe_gives_are_kept():
    assert [phase.name for phase in recipe(phases=[PHASE]).phases] == ["one"]


def test_a_phase_can_be_overridden_whether_the_recipe_or_the_method_gives_it():
    assert recipe("phases.0.budget.value=9", phases=[PHASE]).phases[0].budget.value == 9
    changed = recipe("phases.1.budget.value=9", method={"budget": {"value": 10}})
    assert [phase.budget.value for phase in changed.phases] == [5, 9]


def test_shorthand_applies_before_a_phase_is_overridden():
    changed = recipe("method.budget.value=10", "phases.0.budget.value=1", "method.name=xpt")
    assert [phase.budget.value for phase in changed.phases] == [1, 5]


@pytest.mark.parametrize(
    ("name", "hint"), [("xptt", "did you mean 'xpt'"), ("zzz", "methods: xpt, xpt-sp, scratch")]
)
def test_an_unknown_method_is_refused_with_the_nearest(name, hint):
    with pytest.raises(RecipeError, match=f"method '{name}' is not known; .*{hint}"):
        recipe(method={"name": name})


def test_a_baseline_gets_the_same_budget_and_the_last_phases_settings():
    mine = recipe("phases.1.optimiser.learning_rate=0.5", baselines=[{"method": "scratch"}])
    other = baseline(mine, 0)
    assert [phase.budget.value for phase in other.phases] == [60_000]
    assert other.phases[0].optimiser.learning_rate == 0.5
    assert other.graft.source_weights == "random"
    assert (other.seed, other.corpus, other.tokenizer, other.evaluation) == (
        mine.seed, mine.corpus, mine.tokenizer, mine.evaluation,
    )  # fmt: skip
    assert other.baselines == ()


def test_a_baseline_can_have_its_own_learning_rate():
    mine = recipe(baselines=[{"method": "xpt-sp", "learning_rate": 0.25}])
    assert baseline(mine, 0).phases[0].optimiser.learning_rate == 0.25


def test_a_baseline_of_two_phases_splits_the_budget():
    method = {"name": "scratch", "budget": {"value": 10}, "first_phase_share": 0.2}
    mine = recipe(method=method, baselines=[{"method": "xpt"}])
    for one in (mine, settled(mine)):
        assert [phase.budget.value for phase in baseline(one, 0).phases] == [2, 8]


def test_a_baseline_of_a_scratch_run_starts_from_the_source():
    mine = recipe(method={"name": "scratch"}, baselines=[{"method": "xpt"}])
    assert baseline(mine, 0).graft.source_weights == "pretrained"


def test_a_baseline_of_phases_in_two_units_is_refused():
    phases = [PHASE, PHASE | {"name": "two", "budget": {"value": 1, "unit": "epochs"}}]
    with pytest.raises(RecipeError, match=r"in different units \(epochs, steps\)"):
        baseline(recipe(phases=phases, baselines=[{}]), 0)


def test_decode_alone_does_not_expand():
    assert decode(SMALL).phases == ()
