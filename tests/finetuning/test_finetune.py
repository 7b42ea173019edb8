"""Whole fine-tunings of tiny models through the command, one a kind of task."""

import json
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from stopping import terminated_at
from transformers import AutoModelForSequenceClassification

from lingraft.errors import TrainingError
from lingraft.finetuning import outcomes as finetuned
from lingraft.finetuning.coders import parsing
from lingraft.finetuning.data import part_of
from lingraft.finetuning.outcomes import outcomes
from lingraft.report.row import read
from lingraft.tasks import TASKS, Data, find
from lingraft.tasks.examples import TextExample
from lingraft.training import loop

OFFICIAL = Path(__file__).parents[1] / "tasks" / "official"
FAST = "epochs=40 batch=2 learning_rate=0.005 warmup=0.1 max_length=64 checks_per_epoch=1"
FAST += " patience=8 classifier_dropout=0.0"


@pytest.fixture
def same_files(tmp_path_factory):
    """A folder in which the development file of a task is its training file."""

    def made(name):
        task = TASKS[name]
        files = find(task, OFFICIAL)
        folder = tmp_path_factory.mktemp("data")
        for split in ("train", "dev"):
            for part, file in zip(task.splits[split].parts, files["train"], strict=True):
                spelling = next(one for one in part if one.endswith(file.suffix))
                shutil.copy(file, folder / Path(spelling).name)
        for split in set(task.evaluation) - {"dev"}:
            for part, file in zip(task.splits[split].parts, files[split], strict=True):
                shutil.copy(file, folder / part[0])
        return folder

    return made


@pytest.mark.parametrize(
    ("name", "family", "changes"),
    [
        ("glue-sst2", "bert", ""),
        ("klue-nli", "modernbert", ""),
        pytest.param("glue-stsb", "electra", "", marks=pytest.mark.slow),
        ("klue-ner", "roberta", " max_length=128"),
        pytest.param("klue-re", "modernbert", " max_length=128", marks=pytest.mark.slow),
        pytest.param("klue-dp", "roberta", " epochs=30 max_length=128", marks=pytest.mark.slow),
        ("klue-mrc", "modernbert", " doc_stride=32 max_query=40 max_length=128 patience=16"),
    ],
)
def test_every_kind_of_task_learns_its_training_file_by_heart(
    name, family, changes, same_files, tiny_source, tmp_path, command, monkeypatch
):
    monkeypatch.setattr(parsing, "LSTM_WIDTH", 32)
    arguments = ("--data", same_files(name), "--seeds", 1, "--out", tmp_path / "out")
    arguments += ("--task", name, *f"{FAST}{changes}".split())
    command("finetune", tiny_source(family), *arguments).well()
    (found,) = outcomes(tmp_path / "out")
    task = TASKS[name]
    reached = found.scores("dev")[task.selection]
    assert reached > (99 if task.kind != "regression" else 95), found.scores("dev")


# -- what is kept, what goes on

SHORT_RUN = "epochs=2 batch=2 learning_rate=0.001 checks_per_epoch=1 patience=0 max_length=48"


@pytest.fixture
def nli(same_files, tiny_source, command):
    """Runs a short fine-tuning on five rows of KLUE-NLI: `nli(out, *arguments)`."""

    def run(out, *arguments, models=None, changes=SHORT_RUN):
        models = models or [tiny_source("roberta")]
        more = ("--task", "klue-nli", "--data", same_files("klue-nli"), "--out", out)
        return command("finetune", *models, *more, *changes.split(), "--seeds", 1, *arguments)

    return run


def contents(folder):
    """What a seed's result is, without times."""
    scores = json.loads((folder / "scores.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("tokens_per_second", None)
    return rows, scores["splits"], scores["best"], (folder / "predictions-dev.jsonl").read_text()


def test_a_killed_seed_goes_on_to_the_result_of_a_straight_run(nli, tmp_path):
    assert nli(tmp_path / "straight", "--label", "M").status == 0
    with terminated_at(4) as calls:
        ended = nli(tmp_path / "killed", "--label", "M")
    assert ended.status == 128 + signal.SIGTERM
    folder = tmp_path / "killed" / "M" / "klue-nli" / "seed-0"
    assert not (folder / "scores.json").exists()
    other = nli(tmp_path / "killed", "--label", "M", changes=f"{SHORT_RUN} weight_decay=0.1")
    assert "seed-0: was made from other inputs (they differ in: settings); --update" in other.err
    assert nli(tmp_path / "killed", "--label", "M").status == 0
    assert len(calls) == 4
    assert contents(folder) == contents(tmp_path / "straight" / "M" / "klue-nli" / "seed-0")


def test_finished_seeds_are_kept_and_one_that_diverges_stops_none(nli, tmp_path, monkeypatch):
    train, folder = loop.run_phase, tmp_path / "M" / "klue-nli"

    def diverging(work, *arguments):
        if work.seed == 0:
            raise TrainingError("phase 'finetune': loss nan at step 3; lower the learning rate")
        return train(work, *arguments)

    monkeypatch.setattr(loop, "run_phase", diverging)
    ended = nli(tmp_path, "--label", "M", "--seeds", 2)
    assert ended.status == 1
    assert ended.err.splitlines()[-1].endswith("Diverged: M on klue-nli, seed 0")
    assert [one.seed for one in outcomes(tmp_path)] == [1]
    monkeypatch.undo()
    before = (folder / "seed-1" / "scores.json").stat().st_mtime_ns
    ended = nli(tmp_path, "--label", "M", "--seeds", 2)
    assert (ended.status, "±" in ended.out) == (0, True), ended.err
    assert (folder / "seed-1" / "scores.json").stat().st_mtime_ns == before
    first, second = outcomes(tmp_path)
    assert first.fingerprint != second.fingerprint
    rows = read(tmp_path / "results.jsonl")
    assert {(one.seed, one.metric) for one in rows} >= {(0, "accuracy"), (1, "macro_f1")}

    changed = SHORT_RUN.replace("epochs=2", "epochs=1")
    assert "differ in: settings" in nli(tmp_path, "--label", "M", changes=changed).err
    assert nli(tmp_path, "--label", "M", "--update", changes=changed).status == 0
    assert outcomes(tmp_path)[0].settings["epochs"] == 1


def test_what_is_saved_can_be_read_scored_and_loaded_by_transformers(nli, tmp_path):
    nli(tmp_path, "--label", "M", "keep_models=true").well()
    (found,) = outcomes(tmp_path)
    said, examples = finetuned.predictions(found, "dev"), finetuned.examples(found, "dev")
    assert TASKS["klue-nli"].score(examples, said) == found.scores("dev")
    assert all(len(one.probabilities) == 3 for one in said)
    best, how = found.folder / "best", {"output_loading_info": True}
    again, info = AutoModelForSequenceClassification.from_pretrained(best, **how)
    assert not any(info.values())
    assert set(again.config.label2id) == set(TASKS["klue-nli"].labels)
    assert not list(found.folder.glob("checkpoint-*"))
    card = ModelCard.load(found.folder / "best" / "README.md")
    assert card.data.language == ["ko"]
    assert f"{found.scores('dev')['accuracy']:.1f}" in card.content
    assert str(tmp_path) not in card.content


def test_kept_weights_have_the_score_of_a_benchmark_as_the_hub_reads_it(nli, tmp_path):
    task = (tmp_path / "bench.toml").resolve()
    rows = "text,label\n" + "".join(f"비가 온다 {n},{'ab'[n % 2]}\n" for n in range(8))
    (tmp_path / "rows.csv").write_text(rows, "utf-8")
    task.write_text(
        'name = "bench"\nkind = "classification"\nlanguage = "ko"\nlabels = ["a", "b"]\n'
        'files = {train = "rows.csv", dev = "rows.csv"}\n'
        'hub = {dataset = "some/benchmark", task = "rain", revision = "abc"}\n',
        "utf-8",
    )
    nli(tmp_path / "out", "--task", task, "--label", "M", "keep_models=true").well()
    benchmark, official = sorted(outcomes(tmp_path / "out"), key=lambda one: one.task)
    text = (benchmark.folder / "best" / ".eval_results" / "bench.yaml").read_text("utf-8")
    (entry,) = yaml.safe_load(text)
    about = {"id": "some/benchmark", "task_id": "rain", "revision": "abc"}
    assert entry["dataset"] == about
    assert entry["value"] == round(benchmark.scores("dev")[benchmark.selection], 2)
    assert "dev" in entry["notes"]
    assert not (official.folder / "best" / ".eval_results").exists()


def test_a_smaller_training_set_is_contained_in_a_larger_one():
    examples = [TextExample(str(n), f"text {n}") for n in range(9)]
    whole = Data({"train": examples}, {"train": "train"}, ("dev",))
    first, second = ({e.id for e in part_of(whole, n, "x").splits["train"]} for n in (2, 4))
    assert first < second
