from __future__ import annotations

import hashlib
import json
import shutil

import pytest
from tiny_shapes import ENCODERS

import lingraft
from lingraft.errors import DataError
from lingraft.pipeline.phase_data import check_shares, initializer_sentences
from lingraft.recipe.methods import read_recipe
from lingraft.report import variants
from lingraft.rundir import Run, Step

STAGES = {"corpus", "tokenizer", "graft", "phase-1", "phase-2", "evaluation", "model"}


@pytest.fixture
def finished(adapted, tmp_path):
    """A copy of a finished RoBERTa run."""
    return shutil.copytree(adapted("roberta"), tmp_path / "run")


def digest(run):
    return hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest()


def made(run):
    """When each stage was finished."""
    return {path.parent.name: path.stat().st_mtime_ns for path in run.glob("*/done.json")}


@pytest.fixture
def redone(command, finished):
    """Runs the finished run's recipe again with changes; gives the stages that were redone."""

    def again(*more):
        before = made(finished)
        command("adapt", finished / "recipe.toml", "--out", finished, *more).well()
        after = made(finished)
        return {name for name in after if after[name] != before.get(name)}

    return again


@pytest.mark.parametrize("family", ENCODERS)
def test_the_model_of_a_run_loads_with_stock_transformers(family, adapted):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    run = adapted(family)
    model, info = AutoModelForMaskedLM.from_pretrained(run / "model", output_loading_info=True)
    assert not any(info.values())
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    assert model.config.model_type == family
    assert model.config.num_hidden_layers == 4
    assert model.config.vocab_size == len(tokenizer) <= 300
    text = "나는 책을 읽었다."
    assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text
    assert (run / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_the_same_command_again_keeps_every_stage(redone):
    assert redone() == set()


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ("export.license=mit", {"model"}),
        ("evaluation.seed=1", {"evaluation", "model"}),
        ("phases.1.optimizer.learning_rate=1e-3", {"phase-2", "evaluation", "model"}),
        ("phases.0.masking.rate=0.2", STAGES - {"corpus", "tokenizer", "graft"}),
        ("tokenizer.vocab_size=290", STAGES - {"corpus"}),
        ("seed=1", STAGES - {"corpus", "tokenizer"}),
        ("hardware.micro_batch_tokens=128", set()),
    ],
)
def test_a_change_redoes_what_depends_on_it_and_nothing_else(change, stages, redone):
    assert redone("--update", change) == stages


def test_another_precision_is_refused_and_auto_takes_the_same(redone, finished, command, processor):
    redone("--update", "hardware.precision=fp32")
    before = made(finished)
    processor("fp32")
    assert redone("hardware.precision=auto") == set()
    processor("bf16")
    refused = command("adapt", finished / "recipe.toml", "--out", finished)
    assert "(phase-1 differs in: contents of files, or the precision); --update" in refused.err
    assert made(finished) == before
    assert redone("hardware.precision=fp32") == set()


def test_a_resource_that_lies_elsewhere_now_redoes_nothing(redone, finished, command, tmp_path):
    paths = [tmp_path / place / "ko-en.tsv" for place in ("here", "there")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("나\tI\n", "utf-8")
    changes = [f'embeddings.lexicons=["{path}"]' for path in paths]
    assert "graft" in redone("--update", changes[0])
    paths[0].unlink()
    assert redone("--update", changes[1]) == set()
    assert redone(changes[1]) == set()
    paths[1].write_text("너\tyou\n", "utf-8")
    refused = command("adapt", finished / "recipe.toml", "--out", finished)
    assert "(graft differs in: contents of files" in refused.err


def _shares(recipe, embeddings, *shares):
    """The recipe with another initializer, and phases that take so many sentences."""
    pairs = zip(recipe.phases, shares, strict=True)
    phases = tuple(one.model_copy(update={"max_train_sentences": share}) for one, share in pairs)
    section = recipe.embeddings.model_copy(update={"init": embeddings})
    return recipe.model_copy(update={"phases": phases, "embeddings": section})


def test_an_initializer_learns_from_what_the_phases_train_on_and_no_more(adapted):
    run = Run(adapted("roberta"))
    recipe = read_recipe(run.recipe_path)

    def lines_of(*shares):
        return list(initializer_sentences(_shares(recipe, "focus", *shares), run))

    lines = (run.path / "corpus" / "train.txt").read_text("utf-8").splitlines()
    assert lines_of(None, 20) == lines
    few, more = lines_of(20, 10), lines_of(20, 30)
    assert (len(few), len(more)) == (20, 30)
    assert set(few) < set(more)
    text = "\n".join(lines)
    assert all(row.strip("�") in text for row in more)  # long sentences are cut, between bytes too


def test_more_sentences_than_the_text_has_are_refused_before_a_phase_trains(adapted):
    run = Run(adapted("roberta"))
    recipe = _shares(read_recipe(run.recipe_path), "focus", None, 10**6)
    with pytest.raises(DataError, match="1,000,000 sentences or pairs were asked for"):
        check_shares(run.stage("tokenizer").path, recipe)


def test_more_pairs_than_the_text_has_are_refused_before_a_phase_trains(adapted):
    run = Run(adapted("roberta"))
    sentences = len((run.path / "corpus" / "train.txt").read_text("utf-8").splitlines())
    recipe = _shares(read_recipe(run.recipe_path), "focus", None, sentences)
    check_shares(run.stage("tokenizer").path, recipe)
    first, last = recipe.phases
    on_pairs = (first, last.model_copy(update={"objective": "ca_mlm"}))  # two sentences a pair
    with pytest.raises(DataError, match="pairs were asked for, but the training text has"):
        check_shares(run.stage("tokenizer").path, recipe.model_copy(update={"phases": on_pairs}))


def test_changed_text_is_read_again(adapted, command, korean_text, tmp_path):
    text = shutil.copy(korean_text, tmp_path / "ko.txt")
    run = shutil.copytree(adapted("roberta"), tmp_path / "run")
    change = (f'corpus.text=["{text}"]',)
    assert command("adapt", run / "recipe.toml", "--out", run, *change).status == 0
    before = made(run)
    with (tmp_path / "ko.txt").open("a", encoding="utf-8") as file:
        file.write("새로운 문장을 하나 더한다.\n")
    refused = command("adapt", run / "recipe.toml", "--out", run)
    assert "holds another run (corpus differs in: contents of files" in refused.err
    other = tmp_path / "other.txt"
    other.write_text("다른 문장이다.\n", "utf-8")
    refused = command("adapt", run / "recipe.toml", "--out", run, f'corpus.text=["{other}"]')
    assert "holds another run (corpus differs in: corpus); --update" in refused.err
    assert made(run) == before
    assert command("adapt", run / "recipe.toml", "--out", run, "--update").status == 0
    assert all(made(run)[name] > time for name, time in before.items())


@pytest.mark.slow
def test_baselines_train_as_long_and_leave_the_model_alone(command, shorthand, adapted, tmp_path):
    run = tmp_path / "run"
    assert command(*shorthand(run), "--baseline", "scratch").status == 0
    scratch = run / "baselines" / "scratch"
    assert digest(run) == digest(adapted("roberta"))
    assert not (scratch / "corpus").exists()
    assert json.loads((scratch / "phase-1" / "done.json").read_text())["result"]["steps"] == 6
    files = [folder / "evaluation" / "done.json" for folder in (run, scratch)]
    results = [json.loads(file.read_text())["result"] for file in files]
    assert results[0]["masks"] == results[1]["masks"]
    assert results[0]["metrics"] != results[1]["metrics"]
    account = json.loads((scratch / "graft" / "account.json").read_text())
    assert not [row for row in account if row["kind"] == "copied"]


def test_a_run_from_an_architecture_needs_no_source(korean_text, tmp_path):
    shape = {"model_type": "modernbert", "hidden_size": 16, "intermediate_size": 16}
    shape |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    recipe = {
        "language": "ko",
        "source": {"architecture": shape},
        "corpus": {"text": [str(korean_text)]},
        "tokenizer": {"algorithm": "unigram", "vocab_size": 200},
        "training": {"method": "scratch", "preset": "xpt2021", "budget": "2 steps"},
        "graft": {"inserted_before": 0, "inserted_after": 0},
    }
    run = lingraft.adapt(recipe, tmp_path / "run")
    assert run.stage("graft").result()["layers"] == {"source": 2, "before": 0, "after": 0}
    assert run.stage("evaluation").result()["metrics"]["mask-only"]["perplexity"] > 1


def test_overwriting_deletes_the_run_and_leaves_other_files(finished, command, shorthand):
    before = made(finished)
    (finished / "notes.txt").write_text("mine")
    (finished / "figures").mkdir()
    other = Step(finished / "retrieval")
    other.begin({"fingerprint": "f", "command": "retrieve"})
    other.finish("f", {}, 1.0)
    phases = variants.models_of(Run(finished))[0].phases
    assert [phase.name for phase in phases] == ["phase-1", "phase-2"]
    assert command(*shorthand(finished, "bert"), "--force").status == 0
    after = made(finished)
    assert all(after[name] > time for name, time in before.items())
    assert (finished / "notes.txt").read_text() == "mine"
    assert (finished / "figures").is_dir()
    assert other.is_done("f")


def test_a_run_of_what_lies_in_it_is_refused_and_deletes_nothing(finished, command, shorthand):
    before, given = made(finished), shorthand(finished, "bert")
    for name in ("model", "phase-1/best"):
        ended = command(*given, "--source", finished / name, "--force")
        assert ended.err.endswith("choose another --out\n")
    ended = command(*given, "--text", finished / "corpus" / "train.txt", "--force")
    assert f"{finished}/corpus/train.txt: was made by the run in {finished}" in ended.err
    assert made(finished) == before
