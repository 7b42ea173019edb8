from __future__ import annotations

import pytest

from lingraft.errors import RecipeError
from lingraft.models.families import FAMILIES
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.recipe import PARTS
from lingraft.recipe.baselines import baseline
from lingraft.recipe.decoding import assignments, to_toml
from lingraft.recipe.methods import (
    as_written,
    expand,
    read_recipe,
    recipe_from,
    with_phases,
    with_tied_head,
)
from lingraft.recipe.records import AUTO, METHODS, PRESETS

SMALL = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}}
PHASE = {"name": "one", "train": ["inserted"], "budget": {"value": 3}}


def recipe(*assignments, **tables):
    """With a paper's settings where the method has no paper's own."""
    training = tables.get("training", {})
    record = METHODS.get(training.get("method", "xpt"))
    if "phases" not in tables and record is not None and record.preset == AUTO:
        tables["training"] = {"preset": "xpt2021"} | training
    return recipe_from(SMALL | tables, assignments)


def test_xpt_freezes_the_source_first_and_then_trains_everything():
    first, second = recipe().phases
    assert (first.name, first.train) == ("phase-1", ("embeddings", "output_bias", "inserted"))
    assert (second.name, second.train) == ("phase-2", ("all",))
    assert first.budget.value == second.budget.value == 30_000


METAXLM = {
    "metaxlm": ("pretrained", "match"),
    "metaxlm-dict": ("pretrained", "dictionary"),
    "metaxlm-freeze": ("pretrained", "match"),
    "xlm": ("random", "random"),
    "xlm-kd": ("random", "random"),
    "xlm-init-body": ("pretrained", "random"),
    "xlm-init-emb": ("random", "match"),
}


@pytest.mark.parametrize("method", METAXLM)
def test_metaxlm_and_its_ablations_have_the_source_s_depth_and_one_phase(method):
    whole = recipe(training={"method": method})
    assert (whole.graft.source_weights, whole.embeddings.init) == METAXLM[method]
    assert (*whole.graft.places, whole.graft.adapters) == (0, 0, 0, 0)
    (phase,) = whole.phases
    frozen = {"body", "cross_attention"} if method == "metaxlm-freeze" else set()
    assert phase.trained == set(PARTS) - frozen


def test_metaxlm_takes_table_7_of_its_paper_unless_another_preset_is_named():
    (phase,) = recipe(training={"method": "metaxlm"}).phases
    optimizer = phase.optimizer
    assert (phase.budget.value, phase.budget.unit) == (200_000, "steps")
    assert (phase.batch.size, phase.batch.unit) == (64, "sentences")
    assert (optimizer.learning_rate, optimizer.betas) == (1e-4, (0.9, 0.98))
    assert (optimizer.epsilon, optimizer.weight_decay) == (1e-6, 0.01)
    assert (optimizer.max_gradient_norm, phase.dropout) == (1.0, 0.1)
    assert phase.packing
    assert (phase.schedule.shape, phase.schedule.warmup) == ("linear", 10_000)
    (phase,) = recipe(training={"method": "metaxlm", "preset": "xpt2021"}).phases
    assert (phase.batch.size, phase.optimizer.max_gradient_norm, phase.dropout) == (256, None, None)
    assert not phase.packing


FIXED = [name for name in PRESETS if name != "auto"]
CASES = [(method, FIXED[place % len(FIXED)]) for place, method in enumerate(METHODS)]
"""Every method, and every preset under several methods."""


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_every_method_expands_under_every_preset_and_survives_toml(method, preset, tmp_path):
    whole = recipe(training={"method": method, "preset": preset})
    assert [phase.name for phase in whole.phases] == [s.name for s in METHODS[method].phases]
    assert expand(whole) == whole
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(as_written(whole)), "utf-8")
    again = read_recipe(path)
    assert again.phases == whole.phases
    assert again.graft.model_dump() == whole.graft.model_dump()
    assert again.tokenizer.model_dump() == whole.tokenizer.model_dump()
    assert as_written(again) == as_written(whole)


def test_shorthand_beside_phases_is_refused():
    with pytest.raises(RecipeError, match=r"training\.batch: has no effect because the recipe"):
        recipe(phases=[PHASE], training={"batch": {"size": 7}})


def test_a_phase_can_be_overridden_whether_the_recipe_or_the_method_gives_it():
    assert recipe("phases.0.budget='9 steps'", phases=[PHASE]).phases[0].budget.value == 9
    changed = recipe("phases.1.budget='9 steps'", training={"budget": {"value": 10}})
    assert [phase.budget.value for phase in changed.phases] == [5, 9]


@pytest.mark.parametrize("given", [{}, {"split_sentences": True}])
@pytest.mark.parametrize("change", [[], ["phases.0.dropout=0.1"]])
def test_defaults_are_not_taken_for_what_was_given(given, change):
    """Documents of causal models stay whole: overridden, and written out."""
    mine = recipe(*change, corpus={"text": ["ko.txt"]} | given)
    for form in (mine, as_written(mine)):
        assert not form.evaluation.model_fields_set
        assert for_model_kind(form, FAMILIES["llama"]).corpus.split_sentences == bool(given)


def test_a_baseline_gets_the_same_budget_and_the_last_phases_settings():
    mine = recipe("phases.1.optimizer.learning_rate=0.5", baselines=[{"method": "scratch"}])
    other = baseline(mine, 0)
    assert [phase.budget.value for phase in other.phases] == [60_000]
    assert other.phases[0].optimizer.learning_rate == 0.5
    assert other.graft.source_weights == "random"
    assert (other.seed, other.corpus, other.tokenizer, other.evaluation) == (
        mine.seed, mine.corpus, mine.tokenizer, mine.evaluation,
    )  # fmt: skip
    assert other.baselines == ()


def test_a_baseline_of_random_weights_has_no_source_to_learn_replayed_text_from():
    texts = [{"name": n, "language": n, "corpus": {"text": [f"{n}.txt"]}} for n in ("en", "ko")]
    table = {"source": {"model": "m"}, "streams": texts, "tokenizer": {"action": "append"}}
    table |= {"training": {"replay": {"en": 0.2}, "budget": "9 steps"}}
    mine = with_phases(expand(recipe_from(table | {"baselines": [{"method": "scratch"}]})))
    assert [entry.soft_labels for entry in mine.phases[0].data] == [True, False]
    other = baseline(mine, 0)
    assert [entry.soft_labels for entry in other.phases[0].data] == [False, False]
    assert [entry.share for entry in other.phases[0].data] == [0.2, None]


def test_settings_of_python_may_hold_lists_of_tables():
    baselines = [{"method": "scratch", "learning_rate": 1e-3}, {"method": "xpt-sp"}]
    mine = recipe(*assignments({"baselines": baselines, "training": {"packing": True}}))
    assert [one.learning_rate for one in mine.baselines] == [1e-3, None]
    assert mine.training.packing is True


def test_a_baseline_that_needs_another_tokenizer_is_refused():
    mine = recipe(training={"method": "lapt"}, baselines=[{"method": "continued"}])
    for one in (mine, as_written(mine)):
        with pytest.raises(RecipeError, match=r"method 'continued' needs tokenizer\.action"):
            baseline(one, 0)


PAIRED = {
    "source": {"model": "m"},
    "streams": [
        {"name": "en", "language": "en", "corpus": {"text": ["en.txt"]}},
        {"name": "en-ko", "language": "en/ko", "corpus": {"text": ["en-ko.tsv"]}},
    ],
}


def test_veco_takes_table_8_of_its_paper():
    first, second = recipe_from(PAIRED | {"training": {"method": "veco"}}).phases
    assert (first.train, second.train) == (("cross_attention",), ("all",))
    assert (first.budget.value, second.budget.value) == (24_000, 216_000)  # 0.1 and 0.9
    for phase in (first, second):
        assert (phase.batch.size, phase.mixture.bilingual_batch) == (1_024, 4_096)
        assert (phase.mixture.draw, phase.mixture.alpha) == ("alternate", 0.5)
        assert [entry.masking.rate for entry in phase.data] == [0.15, 0.25]
        assert [entry.max_tokens for entry in phase.data] == [512, 128]
        assert phase.dropout == 0.1
        use = phase.optimizer
        assert (use.learning_rate, use.betas, use.epsilon) == (2e-4, (0.9, 0.98), 1e-6)
        warmup = 12_000 if phase is second else 0.06
        assert (use.weight_decay, phase.schedule.warmup) == (0.01, warmup)
    assert [entry.also for entry in second.data] == [(), ("tlm",)]


@pytest.mark.parametrize("steps", [7, 8, 100, 1_001])
def test_steps_are_divided_over_any_number_of_phases(steps):
    phases = recipe(training={"method": "eeve", "budget": {"value": steps}}).phases
    budgets = [phase.budget.value for phase in phases]
    assert sum(budgets) == steps
    assert min(budgets) >= 1
    tied = with_tied_head(recipe(training={"method": "eeve", "budget": {"value": steps}}))
    assert [phase.name[-1] for phase in tied.phases] == ["3", "4", "6", "7"]
    assert sum(phase.budget.value for phase in tied.phases) == steps
    assert with_tied_head(tied) == tied
