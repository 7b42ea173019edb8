"""The initialiser probe."""

from __future__ import annotations

import pytest
from tiny_study import Here, base_recipe
from transformers import AutoTokenizer

from lingraft.errors import RecipeError
from lingraft.probing import initialisers as probe
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import settled
from lingraft.study import grid, processes, rows
from lingraft.study.rows import CurveRow


@pytest.fixture
def recipe(tiny_source, korean_text):
    def made(**changes):
        return base_recipe(tiny_source("roberta"), korean_text, **changes)

    return made


def test_a_probe_trains_everything_with_the_settings_of_the_first_phase(recipe):
    phase = {"name": "one", "train": ["itl"], "budget": {"value": 9e9, "unit": "tokens"}}
    phase |= {"optimiser": {"learning_rate": 3e-3}, "schedule": {"warmup": 1000}}
    phase |= {"batch": {"size": 512, "unit": "tokens"}, "masking": {"rate": 0.3}}
    base = probe.base_of(recipe(method={}, phases=[phase, phase | {"name": "two"}]), 50, ["all"])
    cells = grid.cells(probe.study_of(base, ["match", "mean"], 2))
    assert [cell.axes["graft.embeddings"] for cell in cells] == ["match", "match", "mean", "mean"]
    assert [cell.recipe.seed for cell in cells] == [0, 1, 0, 1]
    (only,) = cells[0].recipe.phases
    assert only.train == ("all",)
    assert (only.budget.value, only.budget.unit) == (50, "steps")
    assert (only.optimiser.learning_rate, only.masking.rate, only.batch.size) == (3e-3, 0.3, 512)
    assert only.schedule.warmup == 0.1
    assert only.validation.every_steps == 10


@pytest.mark.parametrize(
    ("train", "rated"),
    [("itl", {"layers[:2]": 2e-3}), ("embeddings.new", {"embeddings": 4e-3}), ("head", {})],
)
def test_settings_of_parts_that_rest_in_a_probe_are_left_out(recipe, train, rated):
    rates = {"embeddings": 4e-3, "layers[:2]": 2e-3, "lora": 1e-3}
    phase = {"name": "one", "train": ["embeddings"], "lora": {"parts": ["body"]}}
    phase |= {"optimiser": {"rates": rates, "weight_decays": rates}}
    phase |= {"budget": {"value": 9, "unit": "steps"}}
    (own,) = recipe(method={}, phases=[phase]).phases
    other = probe.shortened(own, 50, [train])
    assert (other.lora, other.optimiser.rates, other.optimiser.weight_decays) == (
        None, rated, rated,
    )  # fmt: skip
    parts = ("embeddings", "body")
    for named in (parts, parts[::-1]):
        same = probe.shortened(own.model_copy(update={"train": parts}), 50, named)
        assert (same.lora, same.optimiser) == (own.lora, own.optimiser)


def test_initialisers_without_their_resources_are_left_out_with_the_reason(recipe, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    names, left_out = probe.usable(recipe(), [])
    assert names == ["random", "random-statistics", "match", "mean", "first-piece"]
    assert left_out["dictionary"] == "needs a bilingual dictionary: resources.lexicons"
    assert "lingraft[vectors]" in left_out["focus"]
    given = {"lexicons": ["l"], "source_vectors": "s", "target_vectors": "t"}
    names, left_out = probe.usable(recipe(resources=given), [])
    assert {*names, *left_out} == {*probe.INITIALISERS}
    assert list(left_out) == ["token-distillation"]
    assert probe.usable(recipe(), ["token-distillation"]) == (["token-distillation"], {})


def test_names_that_are_not_known_or_cannot_run_are_errors(recipe):
    with pytest.raises(RecipeError, match="--initialisers: 'matched' is not known; there are "):
        probe.usable(recipe(), ["matched"])
    with pytest.raises(RecipeError, match=r"no initialiser can run; dictionary needs a bilingual"):
        probe.usable(recipe(), ["dictionary"])


def curve(name, first, last, seed=0):
    return CurveRow(
        study="s", cell=name, fingerprint=f"{name}{seed}", phase="probe", split="valid",
        axes={"graft.embeddings": name, "seed": seed}, points=((0, first), (5, 1.0), (9, last)),
    )  # fmt: skip


def test_the_ranking_is_by_the_mean_loss_at_the_end_and_shows_the_rank_before(recipe):
    found = [curve("match", 9.0, 5.0), curve("match", 9.0, 6.0, 1), curve("random", 8.0, 7.0),
             curve("random", 8.0, 7.5, 1)]  # fmt: skip
    ranked = probe.ranking([*found, found[0].model_copy(update={"split": "train"})])
    assert [(one.initialiser, one.last, one.first_rank, one.last_rank) for one in ranked] == [
        ("match", 5.5, 2, 1),
        ("random", 7.25, 1, 2),
    ]
    assert {one.seeds for one in ranked} == {2}


def test_initialisers_with_the_same_losses_share_a_rank():
    ranked = probe.ranking([curve("match", 9.0, 5.0), curve("mean", 9.0, 5.0),
                            curve("random", 9.5, 6.0)])  # fmt: skip
    assert [(one.first_rank, one.last_rank) for one in ranked] == [(1, 1), (1, 1), (3, 3)]


def test_what_the_seeds_cannot_tell_apart_is_said():
    one = probe.ranking([curve("match", 9.0, 5.0), curve("mean", 9.0, 5.1)])
    assert probe.verdict(one).startswith("One seed cannot tell luck from merit")
    assert probe.verdict(one[:1]) == probe.verdict([]) == ""
    losses = {"match": (5.0, 5.4, 5.2), "mean": (5.1, 5.3, 5.3), "random": (6.0, 6.5, 6.2)}
    found = [curve(name, 9.0, last, s) for name, of in losses.items() for s, last in enumerate(of)]
    assert probe.verdict(probe.ranking(found)) == (
        "Not told apart from match by paired t-tests over the seeds: mean."
    )
    apart = probe.ranking([row for row in found if row.axes["graft.embeddings"] != "mean"])
    assert probe.verdict(apart).startswith("match is ahead of each other one")
    alone = [row for row in found if row.cell != "random" or row.axes["seed"] == 0]
    assert probe.verdict(probe.ranking(alone)).endswith("mean, random.")


def test_probe_ranks_initialisers_and_a_second_call_trains_nothing(
    recipe, command, monkeypatch, tmp_path
):
    start = Here()
    monkeypatch.setattr(processes, "start", start)
    (tmp_path / "recipe.toml").write_text(to_toml(settled(recipe())))
    words = ("probe", tmp_path, "--out", tmp_path / "probe", "--steps", 4)
    words += ("--initialisers", "random,match,dictionary")
    finished = command(*words)
    assert finished.status == 0, finished.err
    assert "left out: dictionary needs a bilingual" in finished.out
    assert len(start.cells) == 2
    assert "\nOne seed cannot tell luck from merit" in finished.out
    table = [line for line in finished.out.splitlines() if line.startswith("│")]
    assert {line.split()[1] for line in table} == {"random", "match"}
    assert command(*words).out == finished.out
    assert len(start.cells) == 2
    assert not list((tmp_path / "probe").rglob("*.safetensors"))


def test_the_loss_before_training_is_the_validation_loss_of_the_untrained_graft(
    recipe, command, monkeypatch, tmp_path
):
    monkeypatch.setattr(processes, "start", Here())
    (tmp_path / "recipe.toml").write_text(to_toml(settled(recipe())))
    words = ("--out", tmp_path / "probe", "--steps", 1, "--initialisers", "match")
    words += ("--set", "phases.0.optimiser.learning_rate=1e-12")
    assert command("probe", tmp_path / "recipe.toml", *words).status == 0
    found = rows.read(tmp_path / "probe" / "results.jsonl")
    (valid,) = [row for row in found if row.kind == "curve" and row.split == "valid"]
    (_, first), (_, last) = valid.points
    assert first == pytest.approx(last, rel=1e-5)


def test_a_causal_source_without_a_mask_token_is_probed_too(
    tiny_source, korean_text, command, monkeypatch, tmp_path
):
    monkeypatch.setattr(processes, "start", Here())
    source = tiny_source("llama")
    assert AutoTokenizer.from_pretrained(source).mask_token is None
    (tmp_path / "recipe.toml").write_text(to_toml(settled(base_recipe(source, korean_text))))
    words = ("--out", tmp_path / "probe", "--steps", 2, "--initialisers", "match")
    ended = command("probe", tmp_path / "recipe.toml", *words)
    assert ended.status == 0, ended.err
    found = rows.read(tmp_path / "probe" / "results.jsonl")
    assert [row.status for row in found if row.kind == "end"] == ["done"]
