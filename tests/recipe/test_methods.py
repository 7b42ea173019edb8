from __future__ import annotations

import tomllib

import pytest

from lingraft.errors import RecipeError
from lingraft.models.families import FAMILIES
from lingraft.pipeline.suiting import suited
from lingraft.recipe import PARTS
from lingraft.recipe.baselines import baseline
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import (
    as_written,
    expand,
    read_recipe,
    recipe_from,
    with_phases,
    with_tied_head,
)
from lingraft.recipe.record import AUTO
from lingraft.recipe.records import METHODS, PRESETS
from lingraft.recipe.streams import distilled

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


def test_the_papers_disagree_on_what_the_first_phase_freezes():
    first = recipe(training={"preset": "chameleon2022"}).phases[0]
    assert set(first.train) - set(recipe().phases[0].train) == {"positions", "head"}
    assert (first.optimizer.learning_rate, first.batch.size) == (3e-4, 512)


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


def test_sentences_are_joined_as_the_recipe_says_and_pairs_never():
    (phase,) = recipe(training={"method": "metaxlm", "packing": False}).phases
    assert not phase.packing
    assert all(p.packing for p in recipe(training={"packing": True}).phases)
    pairs = recipe(
        training={"method": "veco", "preset": "metaxlm2021"}, baselines=[{"method": "xlm"}]
    )
    assert not any(phase.packing for phase in pairs.phases)


def test_only_xlm_kd_has_a_teacher_as_a_method_and_as_a_baseline():
    with_teacher = [
        name
        for name in METHODS
        if any(phase.distil for phase in recipe(training={"method": name}).phases)
    ]
    assert with_teacher == ["xlm-kd"]
    mine = recipe(training={"method": "xlm-kd"}, baselines=[{"method": "metaxlm"}])
    assert baseline(mine, 0).phases[0].distil is None
    mine = recipe(training={"method": "metaxlm"}, baselines=[{"method": "xlm-kd"}])
    assert baseline(mine, 0).phases[0].distil is not None


def test_what_the_recipe_says_of_the_tokenizer_wins_over_the_method():
    tables = {
        "training": {"method": "lapt"},
        "tokenizer": {"algorithm": "unigram", "vocab_size": 99},
    }
    ours = recipe(**tables).tokenizer
    assert (ours.action, ours.algorithm, ours.vocab_size) == ("new", "unigram", 99)
    assert recipe("tokenizer.vocab_size=99", training={"method": "lapt"}).tokenizer.action == "add"


FIXED = [name for name in PRESETS if name != "auto"]
THREE = [
    (method, FIXED[(place + step) % len(FIXED)])
    for place, method in enumerate(METHODS)
    for step in range(3)
]
"""Every method under three presets, and every preset under several methods."""


@pytest.mark.parametrize(("method", "preset"), THREE)
def test_every_method_expands_under_every_preset_and_survives_toml(method, preset, tmp_path):
    whole = recipe(training={"method": method, "preset": preset})
    assert [phase.name for phase in whole.phases] == [s.name for s in METHODS[method].stretches]
    assert expand(whole) == whole
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(as_written(whole)), encoding="utf-8")
    again = read_recipe(path)
    assert again.phases == whole.phases
    assert again.graft.model_dump() == whole.graft.model_dump()
    assert again.tokenizer.model_dump() == whole.tokenizer.model_dump()
    assert as_written(again) == as_written(whole)


@pytest.mark.parametrize(
    ("steps", "share", "split"),
    [(10, 0.5, (5, 5)), (10, 0.33, (3, 7)), (2, 0.01, (1, 1)), (7, 0.99, (6, 1)), (3, 0.5, (2, 1))],
)
def test_steps_are_split_in_whole_numbers_and_none_is_lost(steps, share, split):
    method = {"budget": {"value": steps}, "first_phase_share": share}
    assert tuple(phase.budget.value for phase in recipe(training=method).phases) == split


@pytest.mark.parametrize(("steps", "warmup"), [(60_000, 1_000), (1_000, 0.06)])
def test_a_short_run_warms_up_for_a_share_of_it(steps, warmup):
    assert recipe(training={"budget": {"value": steps}}).phases[0].schedule.warmup == warmup


def test_the_papers_budget_ends_by_patience_and_a_given_one_does_not():
    assert recipe().phases[0].validation.patience == 10
    assert recipe(training={"budget": {"value": 100}}).phases[0].validation.patience is None


def test_shorthand_sets_sentences_clipping_and_warm_up_of_every_phase():
    method = {"max_train_sentences": 6_000, "max_gradient_norm": 1.0, "warmup": 0.25}
    for phase in recipe(training=method).phases:
        assert phase.max_train_sentences == 6_000
        assert phase.optimizer.max_gradient_norm == 1.0
        assert phase.schedule.warmup == 0.25


@pytest.mark.parametrize("name", ["xpt", "xpt-sp", "scratch"])
def test_how_many_tokens_are_predicted_holds_for_every_phase(name):
    for rate, wanted in ((None, 0.15), (0.3, 0.3)):
        method = {"method": name} | ({"masking_rate": rate} if rate else {})
        made = recipe(training=method, baselines=[{"method": "scratch"}])
        rates = [phase.masking.rate for phase in (*made.phases, *baseline(made, 0).phases)]
        assert set(rates) == {wanted}


def test_embeddings_may_learn_faster_than_the_rest_also_in_a_baseline():
    method = {"learning_rate": 1e-3, "embedding_rate_factor": 4}
    others = [{"method": name, "learning_rate": 3e-3} for name in ("xpt-sp", "scratch")]
    made = recipe(training=method, baselines=others)
    assert [phase.optimizer.rates for phase in made.phases] == [{"embeddings": 4e-3}] * 2
    for index, rates in enumerate(({"embeddings": 0.012}, {})):  # scratch draws its layers, too
        (phase,) = baseline(made, index).phases
        assert (phase.optimizer.learning_rate, phase.optimizer.rates) == (3e-3, rates)


def test_shorthand_beside_phases_is_refused():
    with pytest.raises(
        RecipeError, match=r"training\.batch: has no effect because the recipe gives"
    ):
        recipe(phases=[PHASE], training={"batch": {"size": 7}})


@pytest.mark.parametrize("setting", ["training.preset='auto'", "training.method='xpt-sp'"])
def test_a_setting_that_would_replace_phases_beside_them_is_refused(setting):
    key = setting.partition("=")[0]
    with pytest.raises(RecipeError, match=f"{key}: .* of recipe are those of method 'xpt'"):
        recipe(setting, phases=[PHASE])


def test_preset_auto_beside_phases_is_refused_but_where_a_run_has_left_both():
    with pytest.raises(RecipeError, match=r"^training\.preset: 'auto' has no effect"):
        recipe(phases=[PHASE], training={"preset": "auto"})
    auto = {"preset": "auto", "budget": {"value": 1, "unit": "minutes"}}
    left = tomllib.loads(to_toml(as_written(with_phases(recipe(training=auto)))))
    assert left["training"]["preset"] == "auto"
    assert recipe_from(left).phases
    assert recipe_from(left, ["training.preset='auto'"]).phases


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
        assert suited(form, FAMILIES["llama"]).corpus.split_sentences == bool(given)


def test_shorthand_applies_before_a_phase_is_overridden():
    first = "phases.0.budget='1 steps'"
    changed = recipe("training.budget='10 steps'", first, "training.method=xpt")
    assert [phase.budget.value for phase in changed.phases] == [1, 5]


@pytest.mark.parametrize(
    ("name", "hint"), [("xptt", "did you mean 'xpt'"), ("zzz", "methods: xpt, xpt-sp, scratch")]
)
def test_an_unknown_method_is_refused_with_the_nearest(name, hint):
    with pytest.raises(RecipeError, match=f"method '{name}' is not known; .*{hint}"):
        recipe(training={"method": name})


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


def test_a_baseline_of_two_phases_splits_the_budget():
    method = {"method": "scratch", "budget": {"value": 10}, "first_phase_share": 0.2}
    mine = recipe(training=method, baselines=[{"method": "xpt"}])
    for one in (mine, as_written(mine)):
        assert [phase.budget.value for phase in baseline(one, 0).phases] == [2, 8]


def test_xlm_as_the_baseline_of_metaxlm_has_its_layers_and_settings():
    mine = recipe(
        training={"method": "metaxlm"}, graft={"inserted_before": 1}, baselines=[{"method": "xlm"}]
    )
    for one in (mine, as_written(mine)):
        other = baseline(one, 0)
        assert (other.graft.inserted_before, other.graft.inserted_after) == (1, 0)
        assert (other.graft.source_weights, other.embeddings.init) == ("random", "random")
        assert other.phases == mine.phases


@pytest.mark.parametrize(
    ("method", "other", "needs", "has"),
    [
        ("xpt", "lapt", "add", "new"),
        ("lapt", "continued", "keep", "add"),
    ],
)
def test_a_baseline_that_needs_another_tokenizer_is_refused(method, other, needs, has):
    mine = recipe(training={"method": method}, baselines=[{"method": other}])
    for one in (mine, as_written(mine)):
        with pytest.raises(RecipeError) as caught:
            baseline(one, 0)
        assert str(caught.value) == (
            f"baselines: method '{other}' needs tokenizer.action = \"{needs}\", but baselines "
            f"share the run's, which is \"{has}\"; run '{other}' by itself (a study does)"
        )


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
        assert (use.weight_decay, phase.schedule.warmup) == (
            0.01,
            12_000 if phase is second else 0.06,
        )
    assert [entry.also for entry in second.data] == [(), ("tlm",)]


def test_a_baseline_of_veco_reads_masked_sentences_of_the_same_text():
    mine = recipe_from(
        PAIRED | {"training": {"method": "veco"}, "baselines": [{"method": "continued"}]}
    )
    other = baseline(mine, 0)
    assert not other.graft.cross_attention
    (phase,) = other.phases
    assert (phase.objective, phase.data, phase.mixture.draw) == ("mlm", (), "sentences")
    assert phase.budget.value == 240_000


def test_a_teacher_of_states_that_nothing_learns_is_refused():
    streams = [{"name": "en", "language": "en", "corpus": {"text": ["a"]}}]
    phase = {"name": "phase-1", "budget": {"value": 1}, "distil": {}}
    lora, head = {"lora": {}, "train": []}, {"train": ["head", "output_bias.new"]}
    learnt, idle = (
        recipe_from({"streams": streams, "source": {"model": "m"}, "phases": [phase | trained]})
        for trained in (lora, head)
    )
    assert distilled(learnt.phases[0], learnt.texts).name == "en"
    with pytest.raises(RecipeError, match=r"nothing beneath it trains \(head, output_bias.new\)"):
        distilled(idle.phases[0], idle.texts)


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
