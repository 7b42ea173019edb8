"""`lingraft sources`: the probe's recipe, the ranking, and what is left on disk."""

from __future__ import annotations

import json
import shutil
import types

import pytest
from synthetic_study import cell_rows
from tiny_study import Here, base_recipe

from lingraft.errors import DataError, RecipeError
from lingraft.pretrained import load
from lingraft.probing import sources, sources_page
from lingraft.probing.sources import Candidate, Standing, by_candidate, standings, verdict
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import settled
from lingraft.stats import Resampling
from lingraft.study import grid, processes

RESAMPLING = Resampling(1_000)


def ranked(losses, noise=0.02):
    """Standings of candidates from {name: [loss of each seed]}."""
    rows = [
        row
        for name, values in losses.items()
        for seed, loss in enumerate(values)
        for row in cell_rows("xpt", None, seed, loss, **{sources.AXIS: name})
    ]
    return standings(by_candidate(rows), RESAMPLING)


# -- the ranking


def test_intervals_that_lie_apart_give_ranks():
    found = ranked({"en": [4.0, 4.1], "ja": [3.0, 3.1], "fr": [5.0, 5.1]})
    assert [(one.candidate, one.rank) for one in found] == [("ja", 1), ("en", 2), ("fr", 3)]
    assert found[0].ahead_of == ("en", "fr")
    assert found[0].low < found[0].bits < found[0].high
    assert verdict(found).startswith("ja is best of 3: every interval")


def test_seeds_that_disagree_make_a_tie_though_the_means_differ():
    found = ranked({"en": [4.0, 3.0], "ja": [3.0, 3.9]})
    assert [one.rank for one in found] == [1, 1]
    assert [one.ahead_of for one in found] == [(), ()]
    assert found[0].bits < found[1].bits
    assert verdict(found) == "No candidate can be told from the others: ja and en tie."


def test_a_tie_at_the_top_is_said_as_one():
    found = ranked({"en": [3.0, 3.1], "ja": [3.1, 3.0], "fr": [5.0, 5.1]})
    assert {one.candidate: one.rank for one in found} == {"en": 1, "ja": 1, "fr": 3}
    assert verdict(found) == (
        "en and ja tie for the first place; fr is behind one of them or more."
    )


def test_a_candidate_between_two_may_tie_with_both():
    found = ranked({"a": [3.0, 3.2], "b": [3.05, 3.4], "c": [3.3, 3.5]})
    ranks = {one.candidate: one.rank for one in found}
    assert ranks["a"] == 1
    assert "c" in next(one.ahead_of for one in found if one.candidate == "a")


def test_a_first_place_that_is_not_ahead_of_all_is_not_called_the_best():
    places = (("a", 2.4, 1, ("b",)), ("b", 2.5, 2, ("c",)), ("c", 2.6, 2, ()))
    found = [Standing(name, 2, bits, None, None, rank, ahead) for name, bits, rank, ahead in places]
    assert verdict(found) == (
        "No candidate is ahead of a (2.400 bits per character), but its difference to c may be "
        "luck."
    )


def test_of_a_tie_the_one_with_the_fewest_bits_is_tried():
    rows = [{"model": "a", "bits": 2.5, "rank": 1}, {"model": "b", "bits": 2.4, "rank": 1}]
    step = sources_page.next_step(rows, "ko")
    assert "one of the best" in step.why
    assert "--source b " in step.command


def test_one_candidate_is_no_choice():
    assert verdict(ranked({"en": [3.0]}), 1) == "One candidate: there is nothing to choose."
    assert verdict(ranked({"en": [3.0]}), 2) == "Only en has ended: there is nothing to choose."
    assert verdict([], 2) == "No candidate's probe has ended: nothing is compared."


def test_candidates_without_a_seed_in_common_are_not_compared():
    rows = cell_rows("xpt", None, 0, 3.0, **{sources.AXIS: "en"})
    rows += cell_rows("xpt", None, 1, 9.0, **{sources.AXIS: "ja"})
    assert [one.rank for one in standings(by_candidate(rows), RESAMPLING)] == [1, 1]


# -- names and recipe


def test_candidates_are_named_as_models_are(tmp_path):
    first, second = sources.candidates(["xlm-r-base", str(tmp_path)], [f"{tmp_path}=a.txt"])
    assert (first.label, first.model) == ("xlm-r-base", "FacebookAI/xlm-roberta-base")
    assert second == Candidate(str(tmp_path), str(tmp_path), ("a.txt",))


def test_a_model_under_two_names_is_one_candidate():
    with pytest.raises(RecipeError, match="'FacebookAI/xlm-roberta-base' is named twice"):
        sources.candidates(["xlm-r-base", "FacebookAI/xlm-roberta-base"])


@pytest.fixture
def recipe(tiny_source, korean_text):
    def made(**changes):
        return base_recipe(tiny_source("roberta"), korean_text, **changes)

    return made


def test_every_cell_has_the_same_text_vocabulary_and_phase_and_its_own_source(recipe, tiny_source):
    phase = {"name": "one", "train": ["itl"], "budget": {"value": 9e9, "unit": "tokens"}}
    phase |= {"optimiser": {"learning_rate": 3e-3}, "masking": {"rate": 0.3}}
    asked = recipe(method={}, phases=[phase, phase | {"name": "two"}])
    chosen = sources.candidates([str(tiny_source("roberta")), str(tiny_source("bert"))])
    cells = grid.cells(sources.study_of(asked, chosen, 200, 50, seeds=2))
    assert [cell.recipe.source.model for cell in cells] == [
        chosen[0].model, chosen[0].model, chosen[1].model, chosen[1].model
    ]  # fmt: skip
    assert [cell.recipe.seed for cell in cells] == [0, 1, 0, 1]
    for cell in cells:
        (only,) = cell.recipe.phases
        assert only.train == ("itl",)
        assert (only.budget.value, only.budget.unit) == (200, "steps")
        assert (only.optimiser.learning_rate, only.masking.rate) == (3e-3, 0.3)
        assert only.validation.every_steps == 50
        assert cell.recipe.tokenizer.kind == "unigram"
        assert cell.recipe.evaluation.words == 50
        assert cell.recipe.corpus == asked.corpus


@pytest.fixture
def wide(tmp_path):
    """A source that is wider than those of our studies."""
    from transformers import BertConfig, BertForMaskedLM

    shape = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForMaskedLM(BertConfig(vocab_size=50, hidden_size=512, **shape))
    model.save_pretrained(tmp_path / "wide")
    return tmp_path / "wide"


def test_what_is_left_to_the_rules_they_choose_for_each_candidate(recipe, tiny_source, wide):
    asked = recipe(method={"preset": "auto", "budget": {"value": 9e6, "unit": "tokens"}})
    narrow = tiny_source("bert")
    for order in ([narrow, wide], [wide, narrow]):  # which is the same in any order
        chosen = sources.candidates([str(path) for path in order])
        cells = grid.cells(sources.study_of(asked, chosen, 200, 50, seeds=1))
        of = {cell.recipe.source.model: cell.recipe for cell in cells}
        phases = {path: of[str(path)].phases[0] for path in order}
        assert phases[narrow].train == phases[wide].train == ("all",)
        assert phases[narrow].budget == phases[wide].budget
        assert phases[narrow].batch == phases[wide].batch
        assert phases[narrow].optimiser.learning_rate == 1e-3
        assert phases[wide].optimiser.learning_rate == pytest.approx(3.8e-4)
        assert [of[str(path)].graft.layers_before for path in (narrow, wide)] == [0, 1]
        assert len({one.tokenizer for one in of.values()}) == 1


def test_rules_that_cannot_know_a_candidate_say_so(recipe):
    asked = recipe(method={"preset": "auto", "budget": {"value": 9e6, "unit": "tokens"}})
    chosen = sources.candidates(["nobody/nowhere"])
    with pytest.raises(RecipeError, match="that of 'nobody/nowhere' is not on this machine, or"):
        sources.study_of(asked, chosen, 200, 50, seeds=1)


@pytest.mark.parametrize("family", ["roberta", "bert", "modernbert"])
def test_the_rules_need_no_weights(recipe, tiny_source, tmp_path, family):
    """Those of a candidate on the Hub, or in `.bin`, are not there when the rules choose."""
    bare = tmp_path / "bare"
    shutil.copytree(tiny_source(family), bare, ignore=shutil.ignore_patterns("*.safetensors"))
    asked = recipe(method={"preset": "auto", "budget": {"value": 9e6, "unit": "tokens"}})
    whole, alone = (
        sources.as_decided(asked, *sources.candidates([str(path)]), 200)
        for path in (tiny_source(family), bare)
    )
    assert alone.phases == whole.phases
    assert alone.graft == whole.graft


def test_facts_of_a_candidate_on_the_hub_are_there_at_the_first_call(
    recipe, tiny_source, tmp_path, monkeypatch
):
    def download(name, file="config.json"):
        snapshot = tmp_path / f"models--{name.replace('/', '--')}" / "snapshots" / "0"
        snapshot.mkdir(parents=True, exist_ok=True)
        (snapshot / "../../refs").mkdir(exist_ok=True)
        (snapshot / "../../refs/main").write_text("0")
        if file == "README.md":
            (snapshot / file).write_text("---\nlicense: mit\n---\n# A model\n")
        else:
            shutil.copy(tiny_source("bert") / file, snapshot)

    headers = types.SimpleNamespace(parameter_count={"F32": 7, "I64": 2})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(load, "load_config", download)
    monkeypatch.setattr(load, "hf_hub_download", download)
    monkeypatch.setattr(load, "get_safetensors_metadata", lambda _: headers)
    (candidate,) = sources.candidates(["some/model"])
    known = sources_page.about(candidate, recipe())
    assert known == {"kind": "bert", "parameters": 9, "licence": "mit"}


def test_a_recipe_with_one_stream_is_of_one_language(recipe, tiny_source, korean_text):
    (chosen,) = sources.candidates([str(tiny_source("roberta"))])
    stream = {"name": "ko", "language": "ko", "corpus": {"text": [str(korean_text)]}}
    asked = recipe(language=None, corpus=None, streams=[stream])
    assert sources.base_of(asked, chosen, 5, 5).texts[0].language == "ko"


def test_other_parts_may_train(recipe, tiny_source):
    (chosen,) = sources.candidates([str(tiny_source("roberta"))])
    assert sources.base_of(recipe(), chosen, 5, 5, ["all"]).phases[0].train == ("all",)


# -- the command


def words_of(folder, *names):
    return ["sources", folder, "--candidates", ",".join(map(str, names)), "--out", folder / "out"]


@pytest.fixture
def candidates(tiny_source, tmp_path):
    """Two candidates, and a recipe."""
    for family in ("roberta", "bert"):
        shutil.copytree(tiny_source(family), tmp_path / family)
    (tmp_path / "roberta" / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    return tmp_path / "roberta", tmp_path / "bert"


def test_a_candidates_own_text_is_read_whole_whichever_rows_are_the_targets(
    recipe, tmp_path, tiny_source, korean_text
):
    rows = [{"lang": "ko", "text": "집에 갑니다."}, {"lang": "en", "text": "We go home."}]
    text = tmp_path / "both.jsonl"
    text.write_text("\n".join(map(json.dumps, rows)))
    section = {"text": [str(text)], "where": {"lang": "ko"}}
    source = str(tiny_source("roberta"))
    models = sources.candidates([source], [f"{source}={korean_text}"])
    ((facts,), target) = sources_page.facts_of(recipe(corpus=section), models)
    assert target["sentences"] == 1
    assert facts["characters"] > 0


def test_a_text_without_a_sentence_is_refused(recipe, tmp_path, tiny_source):
    text = tmp_path / "empty.txt"
    text.write_text("\n\n")
    models = sources.candidates([str(tiny_source("roberta"))])
    with pytest.raises(DataError, match=r"empty\.txt: holds no sentences"):
        sources_page.facts_of(recipe(corpus={"text": [str(text)]}), models)


@pytest.mark.slow
def test_the_probe_writes_rows_tables_and_page_and_a_second_call_trains_nothing(
    recipe, command, monkeypatch, tmp_path, candidates, korean_text
):
    start = Here()
    monkeypatch.setattr(processes, "start", start)
    (tmp_path / "recipe.toml").write_text(to_toml(settled(recipe())))
    words = words_of(tmp_path, *candidates)
    words += ["--steps", 2, "--words", 20, "--source-text", f"{candidates[1]}={korean_text}"]
    finished = command(*words)
    assert finished.status == 0, finished.err
    assert len(start.cells) == 4
    rows = [json.loads(line) for line in (tmp_path / "out/sources.jsonl").read_text().splitlines()]
    assert [row["candidate"] for row in rows] == [str(path) for path in candidates]
    assert [row["kind"] for row in rows] == ["roberta", "bert"]
    assert [row["licence"] for row in rows] == ["mit", None]
    assert [row["seeds"] for row in rows] == [2, 2]
    assert rows[0]["words"] is None
    assert rows[1]["words"] == pytest.approx(1.0)  # the candidate's text is the target's
    assert all(row["low"] <= row["bits"] <= row["high"] for row in rows)
    page = (tmp_path / "out/sources.html").read_text()
    assert "What is known without training" in page
    assert "After 2 steps" in page
    assert "| candidate | rank |" in (tmp_path / "out/sources.md").read_text()
    assert command(*words).out == finished.out
    assert len(start.cells) == 4
    assert not list((tmp_path / "out").rglob("*.safetensors"))


@pytest.mark.slow
def test_a_probe_that_was_stopped_goes_on_with_what_is_missing(
    recipe, command, monkeypatch, tmp_path, candidates
):
    (tmp_path / "recipe.toml").write_text(to_toml(settled(recipe())))
    words = [*words_of(tmp_path, *candidates), "--steps", 2, "--words", 20]
    monkeypatch.setattr(processes, "start", Here())
    assert command(*words, "--seeds", 1).status == 0
    more = Here()
    monkeypatch.setattr(processes, "start", more)
    finished = command(*words, "--seeds", 2)
    assert finished.status == 0, finished.err
    assert len(more.cells) == 2
    assert all("-s1-" in name for name in more.cells)


def test_facts_need_no_training_and_leave_nothing_unless_asked(
    command, monkeypatch, tmp_path, candidates, korean_text
):
    monkeypatch.chdir(tmp_path)
    start = Here()
    monkeypatch.setattr(processes, "start", start)
    words = ["sources", "--candidates", f"{candidates[0]},{candidates[1]}", "--text", korean_text]
    finished = command(*words, "--lang", "ko", "--facts-only")
    assert finished.status == 0, finished.err
    assert "tokens/word" in finished.out
    assert start.started == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bert", "roberta"]
    assert command(*words, "--lang", "ko", "--facts-only", "--out", "facts").status == 0
    found = sorted(path.name for path in (tmp_path / "facts").iterdir())
    assert found == ["sources.html", "sources.jsonl", "sources.md"]


def test_a_folder_with_other_files_is_left_alone(command, tmp_path, candidates, korean_text):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sources.md").write_text("my notes")
    words = ["sources", "--candidates", candidates[0], "--text", korean_text, "--lang", "ko"]
    finished = command(*words, "--facts-only", "--out", tmp_path / "mine")
    assert finished.status == 1
    assert "holds files but nothing of lingraft sources (sources.md …)" in finished.err
    assert (tmp_path / "mine" / "sources.md").read_text() == "my notes"
