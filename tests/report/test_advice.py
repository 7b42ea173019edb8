import json
import math

import pytest

from lingraft.report import advice, numbers
from lingraft.report.pages import run as run_page
from lingraft.report.tables import compare
from lingraft.report.variants import labelled
from lingraft.rundir import write_json
from tests.support.vocabulary_kinds import keys_of

UNIGRAMS = 411.6


def said(run):
    """The advice on a run, with ordinary spaces."""
    found = labelled([run])
    changes = advice.advice(found[0], compare(found).lines[0])
    return [change.replace(numbers.NO_BREAK, " ") for change in changes]


def about(word, changes):
    """The one piece of advice that starts so."""
    (found,) = [change for change in changes if change.startswith(word)]
    return found


def phase(name, steps, *, rate=2e-3, batch=2_048, warmup=0.1):
    return {
        "name": name, "train": ["all"], "budget": {"value": float(steps), "unit": "steps"},
        "batch": {"size": batch, "unit": "tokens"}, "optimizer": {"learning_rate": rate},
        "schedule": {"warmup": warmup},
    }  # fmt: skip


@pytest.fixture
def trained(build):
    """A finished run of two phases, without training: `trained(perplexity, steps=60, …)`."""

    def make(
        perplexity,
        *,
        steps=400,
        rate=2e-3,
        batch=2_048,
        warmup=0.1,
        losses=(5.0, 5.0),
        vocabulary=4_000,
    ):
        half = steps // 2
        plans = [phase(f"phase-{n}", half, rate=rate, batch=batch, warmup=warmup) for n in (1, 2)]
        builder = build(baselines=[], phases=plans).corpus().tokenizer(vocab_size=vocabulary)
        builder.model(perplexity=perplexity)
        for plan in plans:
            path = builder.run.path / plan["name"] / "done.json"
            done = json.loads(path.read_text())
            done["result"] |= {"steps": half, "tokens": half * batch}
            path.write_text(json.dumps(done))
        looks = [
            {
                "kind": "valid",
                "phase": "phase-2",
                "step": step,
                "tokens": step * batch,
                "loss": loss,
            }
            for step, loss in ((half // 2, losses[0]), (half, losses[1]))
        ]
        text = "".join(json.dumps(row) + "\n" for row in looks)
        builder.run.metrics_path.write_text(text)
        return builder.run

    return make


def test_a_model_that_has_learnt_and_settled_gets_no_advice(trained):
    assert said(trained(46.4)) == []


def test_a_model_that_has_learnt_but_still_falls_is_told_to_train_longer(trained):
    assert said(trained(46.4, losses=(4.0, 3.9))) == [
        "More steps (budget): the validation loss still fell over the last fifth of the last "
        "phase, from 4.00 to 3.90."
    ]


@pytest.mark.parametrize("unit", ["minutes", "hours", "tokens"])
def test_longer_training_is_advised_in_the_unit_that_the_run_was_asked_for(trained, unit):
    run = trained(46.4, losses=(4.0, 3.9))
    # the phases of a run that was asked for minutes end in tokens, and its [training] has no budget
    write_json(
        run.choices_path,
        {"asked": {"training": {"preset": "xpt2021", "budget": {"value": 5, "unit": unit}}}},
    )
    write_json(run.path / "environment.json", {"command": "lingraft adapt --source a --budget 5h"})
    (found,) = said(run)
    assert found.startswith(f"More {unit} (--budget): the validation loss")


def test_longer_training_is_advised_by_the_option_that_was_given_to_a_join(trained):
    run = trained(46.4, losses=(4.0, 3.9))
    command = "lingraft adapt --join runs/a --budget=9steps"
    write_json(run.path / "environment.json", {"command": command})
    assert said(run)[0].startswith("More steps (--budget): ")


def test_a_loss_that_rises_at_the_end_is_not_called_falling(trained):
    assert said(trained(46.4, losses=(3.9, 4.0))) == []


def test_a_run_worse_than_unigrams_gets_the_learning_rate_first_with_its_own_figures(trained):
    changes = said(trained(1_722.0, steps=60, rate=1e-4, batch=4_040))
    assert changes[0] == (
        "A larger learning rate (learning_rate): it was 0.0001. Over 60 steps the rates add up "
        "to 0.003, which is about as far as a weight can move; new weights start with a spread of "
        "0.02. recipes/demo-xpt.toml takes 2e-3; this model's width is 256."
    )
    assert "a step took 4,040 tokens" in about("A smaller batch", changes)
    assert "gives 118 steps in place of 60" in about("A smaller batch", changes)
    assert "0.24 M tokens are few. With fewer than 300,000" in about("More steps", changes)


def test_options_are_named_where_the_run_was_started_by_options_and_keys_elsewhere(trained):
    run = trained(1_722.0, steps=60, rate=1e-4, batch=4_040, vocabulary=900_000)
    start = ("learning rate", "batch", "vocabulary")
    keys = ("learning_rate", "batch", "tokenizer.vocab_size")
    options = ("training.learning_rate", "training.batch", "tokenizer.vocab_size")
    for command, names in {"adapt r.toml": keys, "adapt --source=a": options}.items():
        write_json(run.path / "environment.json", {"command": f"lingraft {command}"})
        changes = "\n".join(said(run))
        assert all(f"{a} ({b})" in changes for a, b in zip(start, names, strict=True)), changes
    assert "0.24 M tokens, fewer than 1 for each piece" in changes


def test_a_run_hardly_better_than_unigrams_is_advised_too(trained):
    assert said(trained(0.9 * UNIGRAMS, steps=60, rate=1e-4)) != []
    assert said(trained(0.7 * UNIGRAMS, steps=60, rate=1e-4)) == []


def test_few_steps_with_tokens_enough_are_called_few(trained):
    changes = said(trained(1_722.0, steps=200))
    assert "200 steps are few, with 0.41 M tokens" in about("More steps", changes)


def test_a_wide_model_of_a_few_steps_is_told_to_train_longer_not_faster(trained):
    run = trained(1_722.0, steps=4, rate=1e-3, losses=(7.9, 7.8))
    done = json.loads(run.stage("graft").done_path.read_text())
    write_json(run.stage("graft").done_path, done | {"result": done["result"] | {"width": 768}})
    changes = said(run)
    assert changes[0].startswith("More steps (budget): 8,192 tokens are few.")
    assert len(changes) == 2, changes
    assert changes[1].startswith("A smaller vocabulary")


def test_a_large_enough_learning_rate_is_not_blamed(trained):
    for steps in (400, 40):
        changes = said(trained(1_722.0, steps=steps, rate=2e-3))
        assert "A larger learning rate" not in [change.split(" (")[0] for change in changes]
        assert "More steps" in [change.split(" (")[0] for change in changes]


def test_a_phase_that_its_patience_ended_is_not_told_to_take_a_larger_budget(build):
    patient = phase("phase-1", 60) | {"validation": {"patience": 3}}
    builder = build(baselines=[], phases=[patient]).corpus().tokenizer()
    run = builder.model(perplexity=1_722.0, scratch=True).run
    done = run.stage("phase-1").done()
    write_json(run.stage("phase-1").done_path, done | {"result": done["result"] | {"steps": 8}})
    assert about("More steps", said(run))
    ended = done["result"] | {"steps": 8, "stopped": "patience"}
    write_json(run.stage("phase-1").done_path, done | {"result": ended})
    changes = said(run)
    assert "after 3 looks at the validation text" in about("More patience", changes)
    assert not any(change.startswith("More steps") for change in changes)
    found = labelled([run])
    step = advice.after_run(found[0], compare(found).lines[0])
    assert "phases.0.validation.patience=12" in step.command
    assert "budget" not in step.command
    assert "4 times the patience" in step.why


def test_a_warmup_of_half_a_phase_in_steps_is_called_long(trained):
    changes = said(trained(500.0, steps=400, warmup=100))
    assert "it took 50 % of a phase" in about("A shorter warm-up", changes)


def test_a_vocabulary_too_large_for_the_tokens_is_named_with_the_tokens_for_each_piece(trained):
    change = about("A smaller vocabulary", said(trained(500.0, steps=400, vocabulary=50_000)))
    assert "50,000 pieces were trained on 0.82 M tokens, 16 for each piece" in change


@pytest.mark.parametrize(
    ("kind", "counts", "said_so"),
    [
        ("keep", {"added": 0}, None),
        ("trim", {"removed": 9}, None),
        ("extend", {"added": 20_000}, "(tokenizer.new_pieces)"),
        ("append", {"added": 20_000}, "(tokenizer.vocab_size)"),
    ],
)
def test_pieces_of_the_source_are_not_counted_as_new(kind, counts, said_so, build):
    builder = build(baselines=[], phases=[phase("phase-1", 400)], tokenizer=keys_of(kind))
    builder.corpus().tokenizer(vocab_size=150_000, extension={"source": 130_000} | counts)
    changes = said(builder.model(perplexity=1_722.0, scratch=True).run)
    about_pieces = [change for change in changes if change.startswith("A smaller vocabulary")]
    assert len(about_pieces) == (said_so is not None)
    assert all(said_so in change and "20,000 pieces" in change for change in about_pieces)


def test_a_wide_model_is_not_sent_to_the_learning_rate_of_the_demo(trained):
    changes = said(trained(500.0, steps=60, rate=1e-4, vocabulary=1_000))
    assert "width 768 take 1e-4 to 3e-4; this one's width is 1024" in changes[0]


def test_the_width_is_that_of_the_states_where_embeddings_are_narrower(trained):
    run = trained(500.0, steps=60, rate=1e-4)
    done = run.stage("graft").done()
    write_json(run.stage("graft").done_path, done | {"result": done["result"] | {"width": 1_024}})
    assert "this one's width is 1024" in said(run)[0]


def test_where_no_rule_fits_the_advice_says_so(trained):
    (change,) = said(trained(500.0, steps=4_000))
    assert change.startswith("No simple cause fits: 4,000 steps")


def test_a_run_that_has_not_ended_or_failed_gets_no_advice(build, trained):
    assert said(build().corpus().tokenizer().run) == []
    assert said(trained(math.inf, steps=60)) == []


def test_the_page_shows_the_advice_under_the_verdict(trained, tmp_path):
    out = run_page.write([trained(1_722.0, steps=60, rate=1e-4)], tmp_path / "report.html")
    text = out.read_text(encoding="utf-8")
    assert text.index('class="verdict"') < text.index("What to change:") < text.index("<dl")
    assert "<li>A larger learning rate (learning_rate)" in text


def test_the_terminal_gets_verdict_and_advice(trained):
    lines = advice.summary([trained(1_722.0, steps=60, rate=1e-4)]).splitlines()
    assert "is worse than guessing by token frequency alone" in lines[0]
    assert lines[1] == "What to change:"
    assert all(line.startswith("- ") for line in lines[2:])


def test_what_a_good_run_could_still_gain_is_not_called_a_fault(trained):
    lines = advice.summary([trained(46.4, losses=(4.0, 3.9))]).splitlines()
    assert lines[1] == "What could still be gained:"


def test_a_vocabulary_that_lacks_characters_is_told_even_where_the_model_has_learnt(trained):
    run = trained(40)
    assert not any(change.startswith("Another vocabulary") for change in said(run))
    path = run.path / "tokenizer" / "done.json"
    done = json.loads(path.read_text())
    done["result"]["statistics"]["train"]["character_coverage"] = 0.2
    path.write_text(json.dumps(done))
    assert "80.0 % of the text's characters are unknown to it" in said(run)[0]
