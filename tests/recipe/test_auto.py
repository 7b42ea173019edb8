"""The rules of preset 'auto': what they decide, and that committed results stand behind them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lingraft.errors import RecipeError
from lingraft.recipe import auto, choosing, scales
from lingraft.recipe.facts import Facts
from lingraft.recipe.methods import is_open, promised, recipe_from, settled
from lingraft.report.plan import decisions
from lingraft.rundir import fingerprint

SMALL = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}}
FACTS = Facts("masked", 256, 1_000_000, 1e6, has_vectors=True)
MASKS = "method.masking_rate"
DROPOUT, FACTOR = "method.dropout", "method.embedding_rate_factor"
OF_MASKED = {MASKS, DROPOUT, FACTOR}
CHARACTERS = (2_286_179, 4_059_839, 6_459_460)
"""Of the training texts of proof/minilm-grid-10m.jsonl: Korean, Japanese, French."""
STEPS = {"value": 40, "unit": "steps"}


def asked(method=None, **tables):
    return recipe_from(
        SMALL | {"method": {"preset": "auto", "budget": STEPS} | (method or {})} | tables
    )


def decided(recipe, facts=FACTS):
    early = choosing.choices(recipe, facts, before_speed=True)
    return {one.key: one for one in (*early, *choosing.choices(recipe, facts, before_speed=False))}


def test_the_names_of_rules_are_unique():
    names = [rule.name for rule in auto.RULES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("masked", ("2026-11-26", "e5bd06d910cbd041")),  # and LONG_EDITION
        ("causal", ("2026-11-26 causal", "64201cdf239244fd")),
        ("seq2seq", ("2026-11-26", "e1b8cbdb9c9e2f90")),
    ],
)
def test_what_the_rules_choose_changes_with_their_edition(kind, expected):
    """Results of a study's cells of method `auto` are known by it: change both together."""
    chosen = [
        {key: (one.value, one.candidates) for key, one in decided(asked(), facts).items()}
        for width in (64, 256, 384, 768, 4_096)
        for tokens in (3e5, 1e6, 5e6, 2e7, 1e9)
        for phases in (1, 2)
        for characters in (100_000, 1_000_000, 1_000_000_000)
        for facts in [Facts(kind, width, characters, tokens, phases, has_vectors=tokens > 3e5)]
    ]
    assert (auto.EDITIONS.get(kind, auto.EDITION), fingerprint(chosen)) == expected


@pytest.mark.parametrize("kind", ["masked", "causal", "seq2seq"])
@pytest.mark.parametrize("width", [64, 256, 384, 768, 4_096])
@pytest.mark.parametrize("tokens", [1e4, 1e6, 1e9])
def test_every_source_and_budget_gets_a_value_for_every_key(kind, width, tokens):
    facts = Facts(kind, width, 10_000_000, tokens, phases=2, has_vectors=True)
    keys = {rule.key for rule in auto.RULES} - (OF_MASKED if kind != "masked" else set())
    assert set(decided(asked(), facts)) == keys


def test_what_the_recipe_says_is_not_decided_for_it():
    recipe = asked(
        {"name": "xpt", "learning_rate": 0.5},
        graft={"embeddings": "random", "layers_before": 3},
        tokenizer={"vocab_size": 700},
    )
    found = decided(recipe)
    made = choosing.applied(recipe, found.values())
    given = {key for key, one in found.items() if one.rule == choosing.GIVEN}
    assert {"method.name", "method.learning_rate", "graft.embeddings"} <= given
    assert (made.method.name, made.graft.embeddings, made.graft.layers_before) == (
        "xpt",
        "random",
        3,
    )
    assert made.tokenizer.vocab_size == 700
    assert {phase.optimiser.learning_rate for phase in made.phases} == {0.5}


def test_what_a_method_prescribes_is_not_decided_either():
    found = decided(asked({"name": "scratch"}))
    assert found["graft.embeddings"].rule == choosing.GIVEN
    assert found["graft.embeddings"].value == "random"


@pytest.mark.parametrize(("name", "steps"), [("in-place", [24.0, 16.0]), ("xpt", [16.0, 24.0])])
def test_what_each_phase_gets_is_decided_where_the_method_does_not_say(name, steps):
    recipe = asked({"name": name})
    facts = FACTS.with_method(recipe)
    made = choosing.applied(recipe, decided(recipe, facts).values())
    assert [phase.budget.value for phase in made.phases] == steps


@pytest.mark.parametrize(
    ("name", "layers"), [("xpt", 1), ("xpt-sp", 1), ("scratch", 1), ("xpt-no-itl", 0)]
)
def test_a_method_that_is_named_has_the_translation_layers_that_it_is_named_for(name, layers):
    recipe = asked({"name": name})
    made = choosing.applied(recipe, decided(recipe).values())
    assert (made.graft.layers_before, made.graft.layers_after) == (layers, layers)


def test_a_vocabulary_that_is_kept_is_not_given_a_size():
    found = decided(asked(tokenizer={"kind": "keep"}))
    assert found["tokenizer.vocab_size"].rule == choosing.GIVEN


def test_without_the_extra_vectors_the_next_best_initialiser_is_taken():
    assert decided(asked(), replace(FACTS, has_vectors=False))["graft.embeddings"].value == "mean"


def test_a_run_in_a_hurry_learns_no_vectors():
    for seconds, slowdown, wanted in ((50, 1, "mean"), (300, 1, "focus"), (300, 8, "mean")):
        facts = replace(FACTS, seconds=seconds, slowdown=slowdown)
        assert decided(asked(), facts)["graft.embeddings"].value == wanted


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_no_rule_is_sure_of_fewer_tokens_than_were_measured(kind):
    least = decided(asked(), replace(FACTS, kind=kind, tokens=1e5))
    fewer = decided(asked(), replace(FACTS, kind=kind, tokens=99_999))
    sure = [key for key, choice in least.items() if choice.sure and choice.rows]
    assert {MASKS, "graft.layers_before"} & {*sure}
    assert not any(choice.sure for choice in fewer.values() if choice.rule != choosing.GIVEN)
    for key in sure:
        assert (fewer[key].value, fewer[key].candidates) == (least[key].value, ())
        assert fewer[key].why == f"{least[key].why}; not measured below 0.1 M tokens"


def test_static_vectors_are_narrow_only_where_that_was_measured():
    keys = ("resources.vector_width", "resources.vector_units")
    for tokens, wanted, sure in ((1e6, (64, 3_000_000), True), (1e8, (300, None), False)):
        found = decided(asked(), replace(FACTS, tokens=tokens))
        assert tuple(found[key].value for key in keys) == wanted
        assert {found[key].sure for key in keys} == {sure}


def test_own_vectors_of_causal_sources_are_called_sure_where_they_were_measured():
    keys = ("resources.vector_width", "resources.vector_units")
    for tokens, sure in ((3e5, True), (1e6, False)):
        found = decided(asked(), replace(FACTS, kind="causal", tokens=tokens))
        assert tuple(found[key].value for key in keys) == (300, None)
        assert {found[key].sure for key in keys} == {sure}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, True),
        ({"graft": {"embeddings": "mean"}}, False),
        ({"graft": {"embeddings": "random"}}, False),
        ({"graft": {"embeddings": "mean", "output_embeddings": "focus"}}, True),
        ({"resources": {"target_vectors": "ko.vec"}}, False),
    ],
)
def test_vectors_are_said_where_something_learns_them(tables, said):
    recipe = asked(**tables)
    found = decided(recipe).values()
    lines = decisions([one.plain() for one in found], choosing.applied(recipe, found))
    assert any("resources.vector_" in line for line in lines) == said
    assert {one.key for one in found} > {"resources.vector_width"}  # chosen as before


@pytest.mark.parametrize(
    ("method", "unread"),
    [
        ("continued", {"tokenizer.vocab_size", "graft.embeddings"}),
        ("lapt", set()),
        ("xpt-sp", set()),
    ],
)
def test_new_pieces_are_said_nothing_of_where_none_is_made(method, unread):
    recipe = asked({"name": method})
    found = decided(recipe).values()
    lines = decisions([one.plain() for one in found], choosing.applied(recipe, found))
    keys = {"tokenizer.vocab_size", "graft.embeddings"}
    assert {key for key in keys if not any(key in line for line in lines)} == unread


def test_masked_models_predict_more_tokens_than_in_papers():
    for tokens, sure in ((1e6, True), (1e8, False)):
        found = decided(asked(), replace(FACTS, tokens=tokens))
        assert (found[MASKS].value, found[MASKS].sure) == (0.4, sure)
        phases = choosing.applied(asked(), found.values()).phases
        assert {phase.masking.rate for phase in phases} == {0.4}


def test_embeddings_learn_faster_where_all_of_a_masked_model_trains_at_once():
    for tokens, sure in ((1e6, True), (1e8, False)):
        found = decided(asked(), replace(FACTS, tokens=tokens))
        assert (found[FACTOR].value, found[FACTOR].sure) == (4, sure)
        (phase,) = choosing.applied(asked(), found.values()).phases
        assert phase.optimiser.rates == {"embeddings": 4 * phase.optimiser.learning_rate}
    two = decided(asked({"name": "xpt"}), replace(FACTS, phases=2))
    assert two[FACTOR].value is None
    assert two["method.learning_rate"].value == 2e-3


@pytest.mark.parametrize("method", ["scratch", "mono-trans"])
def test_one_rate_for_all_unless_the_embeddings_train_with_all_of_the_source(method):
    open_recipe = asked({"name": method})
    facts = FACTS.with_method(choosing.applied(open_recipe, []))
    found = decided(open_recipe, facts)
    assert found[FACTOR].value is None
    assert found["method.learning_rate"].value == 2e-3
    assert FACTS.with_method(choosing.applied(asked({"name": "xpt-sp"}), [])).onto_source


@pytest.mark.parametrize("method", ["lapt", "continued"])
def test_where_old_pieces_stay_rates_are_sure_only_where_that_was_measured(method):
    open_recipe = asked({"name": method})
    for facts, factor, rate, sure in (
        (FACTS, 4, 1e-3, True),
        (replace(FACTS, width=384), None, 1e-3, False),
        (replace(FACTS, width=384, tokens=3e5), None, 1e-3, False),
        (replace(FACTS, tokens=1e7), None, 1.5e-3, False),
        (replace(FACTS, kind="causal", tokens=3e5), 4, 1e-3, True),
        (replace(FACTS, kind="causal", tokens=1e6), None, 1.5e-3, False),
        (replace(FACTS, kind="causal", tokens=3e5, width=384), None, 1e-3, False),
    ):
        known = facts.with_method(choosing.applied(open_recipe, []))
        found = decided(open_recipe, known)
        choice = found["method.learning_rate"]
        assert (choice.value, choice.sure) == (rate, sure)
        assert len(choice.candidates) == (0 if sure else 3)
        assert (found[FACTOR].value if FACTOR in found else None) == factor


def test_dropout_is_left_out_unless_the_text_is_read_many_times():
    text = 100_000_000
    for facts, wanted, sure in (
        (replace(FACTS, characters=text), 0.0, True),
        (replace(FACTS, characters=text, tokens=1e8), 0.0, False),
        (replace(FACTS, characters=text, tokens=1e9), None, False),
        (replace(FACTS, characters=100_000), 0.1, True),
        (replace(FACTS, characters=text, share=1e-3), 0.1, True),
    ):
        found = decided(asked(), facts)
        assert (found[DROPOUT].value, found[DROPOUT].sure) == (wanted, sure)
        phases = choosing.applied(asked(), found.values()).phases
        assert {phase.dropout for phase in phases} == {wanted}


def test_wider_sources_learn_more_slowly_and_a_probe_may_only_lower_their_rate():
    rates = []
    for width, sure in ((256, True), (384, True), (768, False), (2_048, False)):
        rate = decided(asked(), replace(FACTS, width=width))["method.learning_rate"]
        assert rate.sure == sure
        assert max(rate.candidates, default=rate.value) == rate.value
        rates.append(rate.value)
    assert rates == [1e-3, 5e-4, 2.5e-4, 9.4e-5]


def test_at_a_width_of_384_the_layers_learn_half_as_fast_beside_faster_embeddings():
    wide = replace(FACTS, width=384)
    for facts, rate in (
        (wide, 5e-4),
        (replace(wide, tokens=3e5), 5e-4),
        (replace(wide, onto_source=False), 1e-3),
        (replace(wide, onto_source=False, tokens=3e5), 5e-4),
    ):
        choice = decided(asked(), facts)["method.learning_rate"]
        assert (choice.value, choice.sure) == (rate, True)


def test_ten_million_tokens_with_a_source_of_384_are_trained_like_the_cell_that_won():
    """proof/minilm-grid-10m.jsonl, layers at 1e-3: the three texts' characters."""
    for characters in CHARACTERS:
        found = decided(asked(), replace(FACTS, width=384, tokens=1e7, characters=characters))
        wanted = {
            "graft.embeddings": "focus", "graft.layers_before": 0, "graft.layers_after": 0,
            "resources.vector_width": 64, "resources.vector_units": 3_000_000, DROPOUT: 0.0,
            FACTOR: 4.0, "method.learning_rate": 1e-3,
        }  # fmt: skip
        assert {key: found[key].value for key in wanted} == wanted
        assert all(found[key].sure for key in wanted)
        assert found["method.batch"].value == {"size": 4_096, "unit": "tokens"}
        assert found[MASKS].value == 0.4


def test_long_runs_that_train_otherwise_keep_the_dropout_of_the_source():
    long = replace(FACTS, width=384, tokens=1e7, characters=CHARACTERS[0])
    for facts in (replace(long, onto_source=False), replace(long, phases=2)):
        found = decided(asked(), facts)[DROPOUT]
        assert (found.value, found.sure) == (None, False)


def test_what_ten_million_tokens_say_is_not_taken_for_twenty():
    found = decided(asked(), replace(FACTS, width=384, tokens=2e7, characters=CHARACTERS[0]))
    assert found["method.learning_rate"].value == 5e-4
    assert (found[DROPOUT].value, found[DROPOUT].sure) == (None, False)
    assert (found["graft.layers_before"].value, found["graft.layers_before"].sure) == (1, False)


def test_longer_steps_of_narrow_sources_have_a_higher_rate():
    budgets, rates = (3e5, 3e6, 4e6, 1e7, 1e9), []
    for tokens in budgets:
        choice = decided(asked(), replace(FACTS, tokens=tokens))["method.learning_rate"]
        assert choice.sure
        rates.append(choice.value)
    assert rates == [1e-3, 1e-3, 1.4e-3, 2e-3, 2e-3]


def test_a_larger_budget_gets_a_larger_batch():
    budgets = [10.0**power for power in range(4, 12)]
    sizes = [
        decided(asked(), replace(FACTS, tokens=t))["method.batch"].value["size"] for t in budgets
    ]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (512, 65_536)


@pytest.mark.parametrize(
    ("steps", "size"),
    [(40, 512), (600, 512), (1_171, 512), (1_172, 1_024), (2_929, 1_024), (3_000, 2_048)],
)
def test_a_budget_in_steps_has_the_tokens_of_the_batch_that_is_chosen_by_them(steps, size):
    recipe = asked({"budget": {"value": steps, "unit": "steps"}})
    facts = choosing.at_own_step(recipe, FACTS)
    assert facts.tokens == steps * size
    assert decided(recipe, facts)["method.batch"].value["size"] == size


def test_other_budgets_and_batches_that_are_given_leave_the_tokens_as_they_are():
    given = {"batch": {"size": 64, "unit": "tokens"}}
    for method in (given, {"budget": {"value": 3e5, "unit": "tokens"}}):
        assert choosing.at_own_step(asked(method), FACTS) == FACTS


def test_initialisers_are_compared_where_no_row_was_measured():
    measured = decided(asked())["graft.embeddings"]
    assert (measured.value, measured.sure, measured.candidates) == ("focus", True, ())
    wide = replace(FACTS, width=384)
    for facts, sure in (
        (replace(FACTS, tokens=1e7), True),
        (replace(FACTS, tokens=1e8), False),
        (replace(wide, tokens=1e6), True),
        (replace(wide, tokens=3e5), False),
        (replace(FACTS, width=768, tokens=1e6), False),
    ):
        choice = decided(asked(), facts)["graft.embeddings"]
        assert (choice.value, choice.sure) == ("focus", sure)
        assert choice.candidates == (() if sure else ("focus", "mean"))


def test_more_text_gets_more_pieces():
    sizes = [scales.vocabulary_for(10**power) for power in range(4, 12)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_a_small_budget_gets_no_more_pieces_than_it_can_teach():
    sizes = [scales.vocabulary_for(10**11, tokens) for tokens in (1e4, 4e5, 1e6, 1e9)]
    assert sizes == [4_000, 8_000, 16_000, 50_000]


@pytest.mark.parametrize(
    ("kind", "rows", "size"),
    [("extend", "focus", "given"), ("append", "focus", "vocabulary"), ("keep", "random", "given")],
)
def test_new_rows_of_an_extended_vocabulary_have_the_rules_initialiser(kind, rows, size):
    recipe = asked(tokenizer={"kind": kind})
    choices = decided(recipe, replace(FACTS, kind="causal", tokens=3e5))
    assert choices["graft.embeddings"].value == rows
    assert choices["tokenizer.vocab_size"].rule == size


def test_a_language_in_latin_letters_gets_more_pieces_where_they_were_measured():
    def pieces(**facts):
        choice = decided(asked(), replace(FACTS, **facts))["tokenizer.vocab_size"]
        return choice.value, choice.sure

    assert pieces(latin=True, tokens=3e5) == (8_000, True)
    assert pieces(latin=True, tokens=2e6, characters=10**9) == (32_000, False)
    assert pieces(tokens=3e5) == (4_000, False)
    for other in ({"width": 384}, {"tokens": 1e5}, {"tokens": 1e7}, {"characters": 100_000}):
        assert pieces(**{"latin": True, "tokens": 3e5} | other) == (4_000, False)


def test_the_measured_learning_rate_is_for_sources_like_those_measured():
    narrow = decided(asked())["method.learning_rate"]
    assert (narrow.value, narrow.sure, narrow.candidates) == (1e-3, True, ())
    wide = decided(asked(), replace(FACTS, width=768))["method.learning_rate"]
    assert not wide.sure
    assert wide.value < 2e-3
    assert wide.value in wide.candidates
    causal = replace(FACTS, kind="causal")
    assert not decided(asked(), causal)["method.learning_rate"].sure
    short = decided(asked(), replace(causal, tokens=3e5))
    assert (short["method.learning_rate"].sure, short["graft.layers_before"].value) == (True, 0)


def test_the_recipe_is_complete_once_all_is_decided_and_stays_so():
    recipe = asked()
    made = choosing.applied(recipe, decided(recipe).values())
    assert is_open(recipe)
    assert not is_open(settled(made))
    assert [phase.train for phase in made.phases] == [("all",)]
    assert (made.graft.layers_before, made.graft.layers_after) == (0, 0)
    assert made.phases[0].schedule.warmup == 0.1
    assert choosing.applied(made, decided(recipe).values()) == made


def test_a_budget_in_time_is_open_and_promises_the_sum_of_its_phases():
    recipe = recipe_from(SMALL | {"method": {"budget": {"value": 1.5, "unit": "hours"}}})
    assert is_open(recipe)
    assert [phase.budget.seconds for phase in recipe.phases] == [2_700, 2_700]
    assert promised(recipe) == 5_400
    assert promised(recipe_from(SMALL)) is None


def test_auto_asks_what_a_batch_counts():
    method = {"preset": "auto", "budget": STEPS}
    with pytest.raises(RecipeError, match="4096 of what"):
        recipe_from(SMALL | {"method": method | {"batch": {"size": 4096}}})
    for unit in ("tokens", "sentences"):
        given = recipe_from(SMALL | {"method": method | {"batch": {"size": 8, "unit": unit}}})
        assert given.method.batch.unit == unit
