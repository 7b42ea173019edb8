"""What a recipe leaves open is decided once, before its run, in the same way for every command.

What of a budget in time is left for a phase.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from plain_recipes import plain

from lingraft.config import AdaptConfig
from lingraft.errors import RecipeError
from lingraft.pipeline import completing, folder, phases, stages
from lingraft.pipeline.completing import complete
from lingraft.pipeline.stages import Context
from lingraft.recipe import Budget, Phase
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.rundir import Run, read_json

TOKENS = {"value": 20_000, "unit": "tokens"}


@pytest.fixture
def tables(tiny_source, tmp_path, korean_text):
    """Plain data of a recipe that leaves nearly all open, on a text of its own."""
    text = tmp_path / "ko.txt"
    text.write_bytes(korean_text.read_bytes())
    return plain(tiny_source("bert"), text, training={"budget": TOKENS})


def asked(tables, *settings):
    return recipe_from(tables, settings)


def values(completed):
    return {one["key"]: (one["value"], one["source"]) for one in completed.choices}


def test_a_file_python_and_the_command_line_ask_for_one_thing(tables, command, tmp_path):
    form = {"source": tables["source"]["model"], "text": tables["corpus"]["text"]}
    config = AdaptConfig(**form, language="ko", budget="20000tok", out=tmp_path / "run")
    first, again = complete(asked(tables)), complete(config.recipe())
    assert first.choices == again.choices
    assert first.recipe.model_copy(update={"name": "run"}) == again.recipe
    assert first.recipe.training.method == "xpt-sp"
    (tmp_path / "asked.toml").write_text(to_toml(asked(tables)).replace("phases = []\n", ""))
    (tmp_path / "done.toml").write_text(to_toml(first.recipe))
    assert complete(read_recipe(tmp_path / "done.toml")).recipe == first.recipe
    assert not complete(read_recipe(tmp_path / "done.toml")).choices


def test_what_is_given_is_kept(tables):
    given = ("training.learning_rate=0.5", "embeddings.init=random", "tokenizer.vocab_size=99")
    completed = complete(asked(tables, *given))
    (phase,) = completed.recipe.phases
    assert phase.optimizer.learning_rate == 0.5
    assert completed.recipe.embeddings.init == "random"
    assert completed.recipe.tokenizer.vocab_size == 99
    named = {key for key, (_, source) in values(completed).items() if source == "given"}
    assert named == {"training.learning_rate", "embeddings.init", "tokenizer.vocab_size"}


def test_only_text_that_is_trained_on_counts(tables, tmp_path):
    assert complete(asked(tables, "corpus.max_train_sentences=3")).facts["characters"] == 270
    path, own, other = tmp_path / "rows.jsonl", "우리 글" * 9, {"lang": "en", "ko": "text" * 20}
    rows = [{"lang": "ko", "en": "Our text" * 9, "ko": own}, other] * 50
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    asks = [f"corpus.text=['{path}']", "corpus.text_column=ko", "corpus.where={lang = 'ko'}"]
    found = complete(asked(tables, *asks)).facts["characters"]
    assert found == pytest.approx(50 * len(own))
    (tmp_path / "a.jsonl").write_text(json.dumps(rows[0]) + "\n")  # of few bytes in many, escaped
    both = [f"corpus.text=['{tmp_path}/a.jsonl', '{path}', '{tables['corpus']['text'][0]}']"]
    mixed = complete(asked(tables, *both, *asks[1:])).facts["characters"]
    plain = complete(asked(tables)).facts["characters"]
    assert mixed == pytest.approx(found + plain, rel=0.05)


def test_a_method_that_is_named_keeps_its_layers(tables):
    whole = complete(asked(tables, "training.method=xpt")).recipe
    assert (whole.graft.inserted_before, len(whole.phases)) == (1, 2)
    papers = complete(asked(tables, "training.preset=xpt2021"))
    assert (papers.recipe.training.method, papers.choices) == ("xpt", ())


def begin(completed, run):
    run.path.mkdir()
    folder.prepare(completed, run, update=False, force=False)


def test_a_budget_in_time_stays_one_and_a_run_decides_once(tables, tmp_path, monkeypatch):
    """However fast the machine is when the run goes on."""
    monkeypatch.setattr(completing, "tokens_a_second", lambda *_: 1_000.0)
    recipe = asked(tables, "training.budget={value = 5, unit = 'minutes'}")
    run = Run(tmp_path / "r")
    first = folder.complete(recipe, run)
    assert first.facts["tokens"] == 300_000
    (phase,) = first.recipe.phases
    assert (phase.budget.value, phase.budget.unit) == (5, "minutes")
    assert phase.validation.max_sentences < 2_000
    assert first.recipe.evaluation.max_sentences < 10_000
    begin(first, run)
    assert read_json(run.choices_path) == first.plain()
    assert read_recipe(run.recipe_path) == first.recipe
    monkeypatch.setattr(completing, "tokens_a_second", lambda *_: 1e9)
    assert folder.complete(recipe, run).recipe == first.recipe
    same = asked(tables, "training.budget={value = 5, unit = 'minutes'}", "name=x")
    assert folder.complete(same, run).recipe.phases == first.recipe.phases
    assert folder.complete(recipe, run, force=True).recipe != first.recipe
    other = asked(tables, "training.budget={value = 5, unit = 'minutes'}", "training.warmup=0.2")
    assert folder.complete(other, run).facts["tokens"] == 3e11


def test_text_that_has_grown_is_refused_and_with_resume_decided_by(tables, tmp_path, accelerator):
    recipe, run = asked(tables), Run(tmp_path / "run")
    first = folder.complete(recipe, run)
    begin(first, run)
    stages.corpus(Context(first.recipe, run, accelerator))
    text = tmp_path / "ko.txt"
    text.write_bytes(text.read_bytes() * 3)
    with pytest.raises(RecipeError, match=r"\(corpus differs in: contents of files.*--update"):
        folder.prepare(folder.complete(recipe, run), run, update=False, force=False)
    grown = folder.complete(recipe, run, update=True)
    assert grown.facts["characters"] == pytest.approx(3 * first.facts["characters"])


@pytest.fixture
def run_of(monkeypatch):
    """A run of so many minutes, 20 s after it began; evaluating takes 30 s, exporting 10 s."""
    monkeypatch.setattr(phases, "evaluated_tokens", lambda _: 30_000)
    monkeypatch.setattr(phases, "exporting", lambda _: 10.0)

    def made(*minutes, baselines=(), processes=1):
        phases = [Phase(name=f"p{n}", budget=Budget(value=one, unit="minutes"), train=["all"])
                  for n, one in enumerate(minutes)]  # fmt: skip
        return SimpleNamespace(
            recipe=SimpleNamespace(phases=phases, baselines=baselines),
            clock=SimpleNamespace(seconds=60.0 * sum(minutes), passed=lambda: 20.0),
            accelerator=SimpleNamespace(num_processes=processes),
            run=SimpleNamespace(
                stage=lambda _: SimpleNamespace(done=lambda: {"seconds": 30.0})  # a phase before
            ),
        )

    return made


LOOK = (5.0, 5_000)  # a millisecond a token


@pytest.mark.parametrize(
    ("minutes", "index", "options", "expected"),
    [
        ((5,), 0, {}, 300 - 20 - 30 - 10 - 5),
        ((2, 3), 0, {}, (300 - 20 - 30 - 10 - 5) * 2 / 5),
        ((2, 3), 1, {}, 300 - 20 - 30 - 10 - 5),
        ((5,), 0, {"baselines": ("a", "b")}, (300 - 20 - 3 * 30 - 10 - 5) / 3),
        ((2, 3), 1, {"baselines": ("a",)}, (300 - 20 + 30 - 2 * 30 - 10 - 5) / 2 - 30),
        ((5,), 0, {"processes": 2}, 300 - 20 - 60 - 10 - 5),  # one of them evaluates
    ],
)
def test_phases_and_baselines_share_what_evaluating_leaves(
    minutes, index, options, expected, run_of
):
    found = phases.allowance(run_of(*minutes, **options), index, 0.0)(*LOOK)
    assert found == pytest.approx(expected)


def test_a_budget_that_leaves_no_time_says_the_least_that_would_do(run_of):
    with pytest.raises(RecipeError, match=r"1 minutes are too few here: .* at least 2 minutes"):
        phases.allowance(run_of(1), 0, 0.0)(*LOOK)
    assert phases.allowance(run_of(1), 0, 30.0)(*LOOK) == 0.6  # its schedule still ends


def test_a_phase_by_itself_has_its_own_budget():
    phase = Phase(name="p", budget=Budget(value=2, unit="minutes"), train=["all"])
    context = SimpleNamespace(recipe=SimpleNamespace(phases=[phase]), clock=None)
    assert phases.allowance(context, 0, 0.0)(*LOOK) == 120
