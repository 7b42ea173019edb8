from __future__ import annotations

import gc
import hashlib
import json
import resource
import shutil

import pytest
from safetensors.torch import load_file, save_file
from tiny_shapes import ENCODERS

import lingraft
from lingraft.pipeline import folder, phases
from lingraft.pipeline.reading import initializer_sentences
from lingraft.recipe.methods import read_recipe
from lingraft.report import variants
from lingraft.rundir import Run, Step, read_json, write_record

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
        ended = command("adapt", finished / "recipe.toml", "--out", finished, *more)
        assert ended.status == 0, ended.err
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
    assert (run / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_same_command_again_keeps_every_stage(redone):
    assert redone() == set()


def test_a_phase_that_the_recipe_has_no_more_is_no_part_of_the_model(finished, command, shorthand):
    ended = command(*shorthand(finished), "--method", "xpt-sp", "--update")
    assert ended.status == 0, ended.err
    (model,) = variants.variants(Run(finished))
    assert [phase.name for phase in model.phases] == ["phase-1"]
    assert model.tokens == model.result("phase-1")["tokens"]


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ("export.license=mit", {"model"}),
        ("evaluation.seed=1", {"evaluation", "model"}),
        ("phases.1.optimizer.learning_rate=1e-3", {"phase-2", "evaluation", "model"}),
        ("phases.0.masking.rate=0.2", STAGES - {"corpus", "tokenizer", "graft"}),
        ("tokenizer.vocab_size=290", STAGES - {"corpus"}),
        ("seed=1", STAGES - {"corpus", "tokenizer"}),
        ("corpus.split_seed=1", STAGES),
        ("phases.1.max_train_sentences=50", {"phase-2", "evaluation", "model"}),
        ("embeddings.max_sentences=5", STAGES - {"corpus", "tokenizer"}),
        ("hardware.micro_batch_tokens=128", set()),
    ],
)
def test_a_change_redoes_what_depends_on_it_and_nothing_else(change, stages, redone):
    assert redone("--update", change) == stages


@pytest.mark.parametrize(("there", "here"), [("fp32", "bf16")])
def test_another_precision_is_refused_and_auto_is_what_it_takes(
    there, here, redone, finished, command, processor
):
    redone("--update", f"hardware.precision={there}")
    before = made(finished)
    processor(there)
    assert redone("hardware.precision=auto") == set()
    processor(here)
    refused = command("adapt", finished / "recipe.toml", "--out", finished)
    assert "(phase-1 differs in: contents of files, or the precision); --update" in refused.err
    assert made(finished) == before
    assert redone(f"hardware.precision={there}") == set()


def test_a_resource_that_lies_elsewhere_now_redoes_nothing(redone, finished, command, tmp_path):
    paths = [tmp_path / place / "ko-en.tsv" for place in ("here", "there")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("나\tI\n", encoding="utf-8")
    changes = [f'embeddings.lexicons=["{path}"]' for path in paths]
    assert "graft" in redone("--update", changes[0])
    paths[0].unlink()
    assert redone("--update", changes[1]) == set()
    assert redone(changes[1]) == set()
    paths[1].write_text("너\tyou\n", encoding="utf-8")
    refused = command("adapt", finished / "recipe.toml", "--out", finished)
    assert "(graft differs in: contents of files" in refused.err


def test_a_teacher_that_changes_is_not_trained_with_in_silence(redone, finished, command, tmp_path):
    source = read_recipe(finished / "recipe.toml").source.model
    teacher = shutil.copytree(source, tmp_path / "teacher")
    change = (f"phases.1.distil={{stream='', teacher='{teacher}'}}",)
    assert "phase-2" in redone("--update", *change)
    assert redone(*change) == set()
    weights = load_file(teacher / "model.safetensors")
    name = next(name for name in weights if name.endswith("layer.0.output.dense.weight"))
    save_file(weights | {name: weights[name] + 1}, teacher / "model.safetensors", {"format": "pt"})
    before = made(finished)
    refused = command("adapt", finished / "recipe.toml", "--out", finished)
    assert "(phase-2 differs in: contents of files" in refused.err
    assert made(finished) == before
    assert "phase-2" in redone("--update", *change)


def test_an_epoch_of_a_phase_is_over_its_own_sentences(redone, finished):
    budget = "phases.1.budget={value=2, unit='epochs'}"
    redone("--update", "phases.1.max_train_sentences=50", budget)
    assert Run(finished).stage("phase-2").result()["sentences"] == 100


def test_a_later_phase_that_wants_too_many_sentences_is_refused_before_the_first_trains(
    tmp_path, command, shorthand
):
    out = tmp_path / "run"
    ended = command(*shorthand(out), "phases.1.max_train_sentences=100000")
    assert "100,000 sentences were asked for" in ended.err
    assert {path.parent.name for path in out.glob("*/done.json")} == {"corpus", "tokenizer"}


def _shares(recipe, embeddings, *shares):
    """The recipe with another initializer, and phases that take so many sentences."""
    phases = tuple(
        phase.model_copy(update={"max_train_sentences": share})
        for phase, share in zip(recipe.phases, shares, strict=True)
    )
    section = recipe.embeddings.model_copy(update={"init": embeddings})
    return recipe.model_copy(update={"phases": phases, "embeddings": section})


def test_an_initializer_learns_from_what_the_phases_train_on_and_no_more(adapted):
    run = Run(adapted("roberta"))
    recipe = read_recipe(run.recipe_path)

    def lines_of(*shares):
        return list(initializer_sentences(_shares(recipe, "focus", *shares), run))

    lines = (run.path / "corpus" / "train.txt").read_text(encoding="utf-8").splitlines()
    assert lines_of(None, 20) == lines
    few, more = lines_of(20, 10), lines_of(20, 30)
    assert (len(few), len(more)) == (20, 30)
    assert set(few) < set(more)
    text = "\n".join(lines)
    assert all(row.strip("�") in text for row in more)  # long sentences are cut, between bytes too


def test_a_source_that_lies_elsewhere_now_redoes_nothing(redone, finished, command, tmp_path):
    source = read_recipe(finished / "recipe.toml").source.model
    there = shutil.copytree(source, tmp_path / "there")
    moved = (f"source.model='{there}'",)
    assert redone(*moved) == set()
    assert read_recipe(finished / "recipe.toml").source.model == str(there)
    another = shutil.copytree(source, tmp_path / "another")
    (another / "bpe.codes").write_text("e s\n", encoding="utf-8")
    change = (f"source.model='{another}'",)
    refused = command("adapt", finished / "recipe.toml", "--out", finished, *change)
    assert "(tokenizer differs in: source); --update" in refused.err


def test_text_that_lies_elsewhere_now_is_the_same_text(adapted, command, korean_text, tmp_path):
    run = shutil.copytree(adapted("roberta"), tmp_path / "run")
    before = made(run)
    text = tmp_path / "there" / f"other{korean_text.suffix}"
    text.parent.mkdir()
    shutil.copy(korean_text, text)
    moved = (f'corpus.text=["{text}"]',)
    ended = command("adapt", run / "recipe.toml", "--out", run, *moved)
    assert ended.status == 0, ended.err
    assert {name: time for name, time in made(run).items() if time != before[name]} == {}
    assert read_recipe(run / "recipe.toml").corpus.text == (str(text),)


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
    other.write_text("다른 문장이다.\n", encoding="utf-8")
    another = (f'corpus.text=["{other}"]',)
    refused = command("adapt", run / "recipe.toml", "--out", run, *another)
    assert "holds another run (corpus differs in: corpus); --update" in refused.err
    assert made(run) == before
    assert command("adapt", run / "recipe.toml", "--out", run, "--update").status == 0
    assert all(made(run)[name] > time for name, time in before.items())


def test_metrics_of_a_phase_that_is_done_again_replace_the_old_ones(redone, finished):
    with (finished / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "phase": "phase-1", "st')
    redone("--update", "phases.1.budget='2 steps'")
    rows = Run(finished).metrics()
    assert {row["step"] for row in rows if row["phase"] == "phase-1"} == {1, 2, 3}
    assert {row["step"] for row in rows if row["phase"] == "phase-2"} == {1, 2}


@pytest.mark.slow
def test_a_baseline_trains_as_long_on_the_same_text_and_leaves_the_model_alone(
    command, shorthand, adapted, tmp_path
):
    run = tmp_path / "run"
    assert command(*shorthand(run), "--baseline", "scratch").status == 0
    scratch = run / "baselines" / "scratch"
    assert digest(run) == digest(adapted("roberta"))
    assert not (scratch / "corpus").exists()
    assert json.loads((scratch / "phase-1" / "done.json").read_text())["result"]["steps"] == 6
    results = [
        json.loads((folder / "evaluation" / "done.json").read_text())["result"]
        for folder in (run, scratch)
    ]
    assert results[0]["masks"] == results[1]["masks"]
    assert results[0]["metrics"] != results[1]["metrics"]
    account = json.loads((scratch / "graft" / "account.json").read_text())
    assert not [row for row in account if row["kind"] == "copied"]


def test_a_run_from_an_architecture_needs_no_source(korean_text, tmp_path):
    recipe = {
        "language": "ko",
        "source": {
            "architecture": {
                "model_type": "modernbert",
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
            }
        },
        "corpus": {"text": [str(korean_text)]},
        "tokenizer": {"algorithm": "unigram", "vocab_size": 200},
        "training": {
            "method": "scratch",
            "preset": "xpt2021",
            "budget": {"value": 2},
            "batch": {"size": 8},
        },
        "graft": {"inserted_before": 0, "inserted_after": 0},
    }
    run = lingraft.adapt(recipe, tmp_path / "run")
    result = run.stage("graft").result()
    assert result["layers"] == {"source": 2, "before": 0, "after": 0}
    assert run.stage("evaluation").result()["metrics"]["mask-only"]["perplexity"] > 1


def test_the_model_of_a_run_without_phases_is_made_again(tmp_path, shorthand, command):
    start = shorthand(tmp_path / "run", "bert")
    arguments = [part for part in start if part not in ("--budget", "6steps")]
    ended = command(*arguments, "--method", "untrained")
    assert ended.status == 0, ended.err
    assert "untrained, nothing trained\n" in ended.out
    before = digest(tmp_path / "run")
    (tmp_path / "run/model/done.json").unlink()
    ended = command(*arguments, "--method", "untrained")
    assert ended.status == 0, ended.err
    assert digest(tmp_path / "run") == before


def two_steps(source, text, method):
    return {
        "language": "ko",
        "source": {"model": str(source)},
        "corpus": {"text": [str(text)]},
        "tokenizer": {"vocab_size": 300},
        "training": {
            "method": method,
            "preset": "xpt2021",
            "budget": {"value": 2},
            "batch": {"size": 8},
        },
    }


def test_overwriting_deletes_the_run_and_leaves_other_files(finished, command, shorthand):
    before = made(finished)
    (finished / "notes.txt").write_text("mine")
    (finished / "figures").mkdir()
    other = Step(finished / "retrieval")
    other.begin({"fingerprint": "f", "command": "retrieve"})
    other.finish("f", {}, 1.0)
    assert [phase.name for phase in variants.variants(Run(finished))[0].phases] == [
        "phase-1",
        "phase-2",
    ]
    assert command(*shorthand(finished, "bert"), "--force").status == 0
    after = made(finished)
    assert all(after[name] > time for name, time in before.items())
    assert (finished / "notes.txt").read_text() == "mine"
    assert (finished / "figures").is_dir()
    assert other.is_done("f")


@pytest.mark.parametrize("option", ["--force"])
def test_a_run_of_what_lies_in_it_is_refused_and_deletes_nothing(
    option, finished, command, shorthand
):
    before, given = made(finished), shorthand(finished, "bert")
    for name in ("model", "phase-1/best"):
        ended = command(*given, "--source", finished / name, option)
        assert ended.err.endswith("has made, and would be replaced; choose another --out\n")
    ended = command(*given, "--text", finished / "corpus" / "train.txt", option)
    assert f"{finished}/corpus/train.txt: is what the run in {finished} has made" in ended.err
    assert made(finished) == before


def test_a_run_that_made_nothing_yet_takes_another_recipe_without_asking(
    command, shorthand, tmp_path
):
    empty = tmp_path / "ko.txt"
    empty.write_text("\n")
    arguments = shorthand(tmp_path / "run")
    assert command(*arguments, f'corpus.text=["{empty}"]').status == 1
    assert command(*arguments).status == 0


def test_bad_input_leaves_no_run_behind(command, shorthand, tmp_path):
    for name, value in (("corpus.text", '["missing.txt"]'), ("source.model", "./missing")):
        arguments = (*shorthand(tmp_path / "run"), f"{name}={value}")
        assert command(*arguments).status == 1
        assert not (tmp_path / "run").exists()


def test_runs_of_one_process_may_differ_in_precision(korean_text, tiny_source, tmp_path):
    recipe = two_steps(tiny_source("bert"), korean_text, "xpt-sp")
    for precision in ("bf16", "fp32"):
        settings = [f"hardware.precision={precision}"]
        run = lingraft.adapt(recipe, tmp_path / precision, settings=settings)
        written = json.loads((run.path / "environment.json").read_text())
        assert written["precision"] == precision
    assert digest(tmp_path / "bf16") != digest(tmp_path / "fp32")


def test_the_environment_is_that_of_the_last_training_and_the_command_the_newest(redone, finished):
    path = finished / "environment.json"
    trained = read_json(path) | {"cpu": "of the training", "started": "2026-01-01"}
    write_record(path, trained)
    redone("--update", 'export.license="mit"')
    now = read_json(path)
    assert "export.license" in now["command"]
    assert now == trained | {"command": now["command"]}
    assert "of the training" in (finished / "model/README.md").read_text()
    redone("--update", "phases.1.budget='2 steps'")
    assert json.loads(path.read_text())["cpu"] != "of the training"


def test_the_model_is_uploaded_when_asked_for_and_a_failed_upload_is_tried_again(
    redone, finished, command, monkeypatch
):
    calls = []

    class Hub:
        def create_repo(self, name, **options):
            calls.append(("create", name, options))

        def upload_folder(self, **options):
            calls.append(("upload", options))
            if len(calls) == 2:
                raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    assert redone() == set()
    assert calls == []
    wanted = ("adapt", finished / "recipe.toml", "--out", finished, "--update")
    wanted = (*wanted, "export.push_to_hub=me/ko")
    ended = command("--quiet", *wanted)
    assert ended.status == 1
    last = ended.err.splitlines()[-1]
    assert f"{finished / 'model'}: is whole, but was not uploaded to me/ko: no network; " in last
    assert (finished / "report.html").is_file()
    for _ in range(2):
        assert command(*wanted).status == 0
    assert calls[2:] == [
        ("create", "me/ko", {"private": True, "exist_ok": True}),
        ("upload", {"repo_id": "me/ko", "folder_path": finished / "model",
                    "ignore_patterns": ["done.json", "uploaded", "checksums.json"]}),
    ]  # fmt: skip


SIZES = {
    "corpus": 4_000,
    "tokenizer": 20_000,
    "graft": 100_000,
    "phase-1": 200_000,
}


@pytest.mark.parametrize("stage", SIZES)
def test_a_full_disk_is_one_line_and_what_was_done_is_kept(
    stage, command, shorthand, adapted, tmp_path
):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    arguments = (*shorthand(tmp_path / "run"), "hardware.checkpoint_steps=2")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SIZES[stage], hard))
        ended = command("--quiet", *arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ended.status == 1
    *warnings, error = ended.err.splitlines()
    assert error.startswith("lingraft: ")
    assert all("too small to learn from" in line for line in warnings)
    assert not list((tmp_path / "run").glob("*.partial"))
    assert not (tmp_path / "run" / stage / "done.json").exists()
    ended = command(*arguments)
    assert ended.status == 0, ended.err
    assert digest(tmp_path / "run") == digest(adapted("roberta"))


def test_emptying_a_cell_of_a_study_leaves_what_it_shares(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "train.txt").write_text("text")
    cell = tmp_path / "cell"
    cell.mkdir()
    (cell / "corpus").symlink_to(shared)
    folder.empty(Run(cell))
    assert not (cell / "corpus").exists()
    assert (shared / "train.txt").read_text() == "text"


def test_continued_is_scored_beside_the_source_as_it_is(
    tiny_source, korean_text, tmp_path, command
):
    run = tmp_path / "run"
    start = ("adapt", "--source", tiny_source("roberta"), "--text", korean_text, "--lang", "ko")
    more = (
        "--method",
        "continued",
        "training.preset=xpt2021",
        "--budget",
        "1steps",
        "training.learning_rate=1e-30",
    )
    small = ("evaluation.max_sentences=9", "evaluation.max_words=2")
    ended = command(*start, *more, *small, "--out", run)
    assert ended.status == 0, ended.err
    result = Run(run).stage("evaluation").result()
    assert result["source"]["metrics"] == result["metrics"]  # of a rate that moves nothing
    assert "source as it is" in ended.out


@pytest.mark.slow
def test_a_resource_that_changes_is_read_again(redone, finished, command, tmp_path):
    lexicon = tmp_path / "ko-en.tsv"
    lexicon.write_text("나\tI\n", encoding="utf-8")
    change = ("--update", f'embeddings.lexicons=["{lexicon}"]')
    assert "graft" in redone(*change)
    assert redone(*change) == set()
    lexicon.write_text("나\tI\n너\tyou\n", encoding="utf-8")
    before = made(finished)
    refused = command("adapt", finished / "recipe.toml", "--out", finished)
    assert "holds another run (graft differs in" in refused.err
    assert made(finished) == before
    assert redone(*change) == STAGES - {"corpus", "tokenizer"}


def test_a_phase_leaves_neither_its_model_nor_its_moments_in_memory(
    tiny_source, korean_text, tmp_path, monkeypatch
):
    from torch.optim import Optimizer

    alive, train_phase = [], phases.train_phase

    def counted(*arguments):
        gc.collect()
        kinds = [type(one) for one in gc.get_objects()]
        alive.append(sum(issubclass(kind, (Optimizer, type(arguments[1]))) for kind in kinds))
        return train_phase(*arguments)

    monkeypatch.setattr(phases, "train_phase", counted)
    scored = {"max_sentences": 10, "max_words": 0, "samples": 0}
    recipe = two_steps(tiny_source("bert"), korean_text, "xpt") | {"evaluation": scored}
    lingraft.adapt(recipe, tmp_path / "run")
    assert alive == alive[:1] * 2


def test_tensorboard_gets_the_metrics_where_it_is_asked_for(redone, finished):
    pytest.importorskip("tensorboard")
    changes = ("hardware.trackers=['tensorboard']", "phases.1.masking.rate=0.2")
    redone("--update", changes[0], changes[1])
    assert list((finished / "lingraft").rglob("events.out.tfevents.*"))
