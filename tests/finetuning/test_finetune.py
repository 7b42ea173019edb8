"""Whole fine-tunings of tiny models through the command, one a kind of task."""

import json
import shutil
import signal
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from stopping import terminated_at
from transformers import AutoModelForSequenceClassification

from lingraft.errors import DataError, RecipeError, TrainingError
from lingraft.finetuning import outcomes as finetuned
from lingraft.finetuning.coders import parsing
from lingraft.finetuning.data import from_hub, hub_rows, part_of, tell_shared
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
        pytest.param("klue-nli", "gpt2", "", marks=pytest.mark.slow),
        pytest.param("klue-ner", "llama", " max_length=128", marks=pytest.mark.slow),
        pytest.param(
            *("klue-mrc", "llama", " doc_stride=32 max_query=40 max_length=128"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_kind_of_task_learns_its_training_file_by_heart(
    name, family, changes, same_files, tiny_source, tmp_path, command, monkeypatch
):
    monkeypatch.setattr(parsing, "LSTM_WIDTH", 32)
    arguments = ("--data", same_files(name), "--seeds", 1, "--out", tmp_path / "out")
    ended = command(
        "finetune", tiny_source(family), "--task", name, *arguments, *f"{FAST}{changes}".split()
    )
    assert ended.status == 0, ended.err
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
        data = ("--task", "klue-nli", "--data", same_files("klue-nli"))
        return command(
            "finetune", *models, *data, "--out", out, *changes.split(), "--seeds", 1, *arguments
        )

    return run


def contents(folder):
    """What a seed's result is, without times."""
    scores = json.loads((folder / "scores.json").read_text())
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row.pop("tokens_per_second", None)
    return rows, scores["splits"], scores["best"], (folder / "predictions-dev.jsonl").read_text()


ROW = '{"model": "m", "data": "t", "metric": "f1", "value": 1.0, "masks": "a"}'
OLD_ROW = '{"model": "m", "task": "t", "seed": 0, "split_note": "official"}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("results.jsonl", ROW),
        ("results.jsonl", OLD_ROW),
        ("results.jsonl", ""),
        ("M/nsmc/seed-0/inputs", "{}"),
        ("M/nsmc/learning-rates/0.1/inputs", "{}"),
        ("M/nsmc/seed-0/.inputs.1.tmp", "{"),
        (".lock", ""),
    ],
)
def test_results_go_into_a_folder_of_results(tmp_path, name, content):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    finetuned.check_out(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("results.jsonl", '{"kind": "metric"}\n', "results.jsonl: is no results file"),
        ("results.jsonl", "[1]\n", "results.jsonl: is no results file"),
        ("results.jsonl", "mine", "results.jsonl: is no results file"),
        ("notes/a.txt", "mine", "is not empty and holds no results"),
    ],
)
def test_results_do_not_go_into_a_folder_of_other_things(nli, tmp_path, name, content, says):
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out" / name).write_text(content)
    ended = nli(tmp_path / "out")
    assert (ended.status, len(ended.err.splitlines())) == (1, 1)
    assert says in ended.err
    assert (tmp_path / "out" / name).read_text() == content


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


def test_a_seed_that_diverges_stops_no_others_and_the_call_says_which_did(
    nli, tmp_path, monkeypatch
):
    train = loop.run_phase

    def diverging(work, *arguments):
        if work.seed == 0:
            raise TrainingError("phase 'finetune': loss nan at step 3; lower the learning rate")
        return train(work, *arguments)

    monkeypatch.setattr(loop, "run_phase", diverging)
    ended = nli(tmp_path, "--label", "M", "--seeds", 3)
    assert ended.status == 1
    assert [one.seed for one in outcomes(tmp_path)] == [1, 2]
    last = ended.err.splitlines()[-1]
    assert "lower the learning rate. What others reached is in" in last
    assert last.endswith("Diverged: M on klue-nli, seed 0")
    assert {one.seed for one in read(tmp_path / "results.jsonl")} == {1, 2}
    monkeypatch.undo()
    assert nli(tmp_path, "--label", "M", "--seeds", 3).status == 0
    assert [one.seed for one in outcomes(tmp_path)] == [0, 1, 2]


def test_finished_seeds_are_kept_and_others_are_added(nli, tmp_path):
    assert nli(tmp_path, "--label", "M").status == 0
    before = (tmp_path / "M" / "klue-nli" / "seed-0" / "scores.json").stat().st_mtime_ns
    ended = nli(tmp_path, "--label", "M", "--seeds", 2)
    assert ended.status == 0, ended.err
    assert (tmp_path / "M" / "klue-nli" / "seed-0" / "scores.json").stat().st_mtime_ns == before
    found = outcomes(tmp_path)
    assert [one.seed for one in found] == [0, 1]
    assert found[0].fingerprint != found[1].fingerprint
    rows = read(tmp_path / "results.jsonl")
    assert {(one.seed, one.metric) for one in rows} >= {(0, "accuracy"), (1, "macro_f1")}
    assert "±" in ended.out

    # other settings in the same folder
    changed = SHORT_RUN.replace("epochs=2", "epochs=1")
    refused = nli(tmp_path, "--label", "M", changes=changed)
    assert refused.status == 1
    assert "differ in: settings" in refused.err
    assert nli(tmp_path, "--label", "M", "--update", changes=changed).status == 0
    assert outcomes(tmp_path)[0].data["settings"]["epochs"] == 1

    # a seed of an earlier version, which ended with scores.json
    done = tmp_path / "M/klue-nli/seed-0/done.json"
    done.unlink()
    ended = nli(tmp_path, "--label", "M", changes=changed)
    assert (ended.status, "1 done, 0 to do" in ended.err) == (0, True), ended.err
    assert done.is_file()


def test_what_is_saved_can_be_read_scored_and_loaded_by_transformers(nli, tmp_path):
    ended = nli(tmp_path, "--label", "M", "keep_models=true")
    assert ended.status == 0, ended.err
    assert f"models:  {tmp_path / 'M/klue-nli/seed-0/best'}\n" in ended.out
    (found,) = outcomes(tmp_path)
    said, examples = finetuned.predictions(found, "dev"), finetuned.examples(found, "dev")
    assert TASKS["klue-nli"].score(examples, said) == found.scores("dev")
    assert all(len(one.probabilities) == 3 for one in said)
    again, info = AutoModelForSequenceClassification.from_pretrained(
        found.folder / "best", output_loading_info=True
    )
    assert not any(info.values())
    assert set(again.config.label2id) == set(TASKS["klue-nli"].labels)
    assert not list(found.folder.glob("checkpoint-*"))
    card = ModelCard.load(found.folder / "best" / "README.md")
    measured = {(one.dataset_split, one.metric_type): one for one in card.data.eval_results}
    assert measured["dev", "accuracy"].metric_value == pytest.approx(
        found.scores("dev")["accuracy"], abs=1e-4
    )
    assert measured["dev", "accuracy"].task_type == card.data.pipeline_tag == "text-classification"
    assert card.data.language == ["ko"]
    assert str(tmp_path) not in card.content
    assert "the split that is reported also chose the best weights" in card.content
    assert r"source KLUE-baseline run\_all.sh; changed: " in card.content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "klue-nlu"), "no task 'klue-nlu'"),
        (("--task", "klue-nli", "learning_rat=1"), "Did you mean 'learning_rate'?"),
        (
            ("--task", "klue-nli", "label_smoothing=0.1"),
            "settings.label_smoothing: is for tasks of the kind translation",
        ),
        (("--task", "klue-nli", "--label", "A", "B"), "labels has 2 names for 1 model;"),
        (("--task", "klue-nli", "cut.dev=0.5"), "the shares are of train and dev"),
        (("--task", "klue-nli", "cut.train=0.5", "cut.dev=0.1"), "sum to 0.6"),
        (
            (
                "--task",
                "klue-nli",
            ),
            "--data: name the directory",
        ),
        (("--task", "klue-nli", "--data", "nowhere"), "nowhere: no such directory"),
        (("--task", "klue-nli", "paper=nobody2000"), "knows the settings 'nobody2000'"),
        ((), "--task: name a task"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(arguments, message, tiny_source, tmp_path, command):
    ended = command("finetune", tiny_source("bert"), *arguments, "--out", tmp_path / "out")
    assert ended.status == 1
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_a_task_of_one_s_own_is_saved_with_its_definition(tiny_source, tmp_path, command):
    rows = "".join(f"text {n} {word},{word}\n" for n, word in enumerate(["yes", "no"] * 3))
    (tmp_path / "mood.csv").write_text("text,label\n" + rows, encoding="utf-8")
    table = 'name = "mood"\nkind = "classification"\nmetrics = ["accuracy", "macro_f1"]\n'
    table += 'files = { train = "mood.csv", dev = "mood.csv" }\nepochs = 1\nlanguage = "kor"\n'
    (tmp_path / "mood.toml").write_text(table, encoding="utf-8")
    out = tmp_path / "out"
    ended = command(
        *("finetune", tiny_source("bert"), "--task", tmp_path / "mood.toml", "--seeds", 1),
        *("--out", out, "keep_models=true"),
    )
    assert ended.status == 0, ended.err
    (found,) = outcomes(out)
    assert found.task_definition is not None
    assert found.data["split_note"] == found.split_note == "those of its own files"
    card = ModelCard.load(found.folder / "best" / "README.md")
    assert "The splits: those of its own files." in card.content
    assert card.data.language == ["ko"]
    assert "mood: examples with the inputs of a training example: 6 of 6 in dev" in ended.err
    wanted = {"labels": ["no", "yes"], "metrics": ["accuracy", "macro_f1"], "selection": "accuracy"}
    assert wanted.items() <= found.task_definition.items()

    # what is shown of a result decides none
    (tmp_path / "mood.toml").write_text(f'{table}headline = ["macro_f1"]\n', encoding="utf-8")
    again = command(
        *("finetune", tiny_source("bert"), "--task", tmp_path / "mood.toml", "--seeds", 1),
        *("--out", out, "keep_models=true"),
    )
    assert (again.status, "0 to do" in again.err) == (0, True), again.err
    (shown,) = outcomes(out)
    assert shown.data["shown"] == shown.task_definition["headline"] == ["macro_f1"]
    assert found.data["splits"] == shown.data["splits"]
    told = {"task_definition": found.task_definition, "shown": found.data["shown"]}
    assert finetuned.tell(found.folder, told | {"evaluation": ["dev"]})
    assert not finetuned.tell(found.folder, told | {"evaluation": ["dev", "test"]})
    assert outcomes(out) == [found]

    (tmp_path / "mood.csv").unlink()  # the results are enough
    compared = command("report", out)
    assert compared.status == 0, compared.err
    assert "Splits of own files: mood (dev, 6 examples)." in " ".join(compared.out.split())
    for told in (ended.out, compared.out):
        assert "fficial" not in told
        assert "(most frequent label)" in " ".join(told.split())


def test_a_cut_says_what_its_splits_are(same_files, tiny_source, tmp_path, command):
    folder = same_files("klue-sts")
    next(folder.glob("*_train*")).unlink()
    ended = command(
        *("finetune", tiny_source("roberta"), "--task", "klue-sts", "--data", folder),
        *(
            "cut.train=0.6",
            "cut.dev=0.2",
            "cut.test=0.2",
            "--seeds",
            1,
            "--out",
            tmp_path / "o",
            "epochs=1",
        ),
    )
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "o")
    assert found.evaluation == ("test",)
    assert "test: cut of dev (20 %, seed 0)" in found.split_note
    assert "Not the official splits" in ended.out


def test_judged_examples_with_the_inputs_of_a_training_example_are_counted(caplog):
    seen, other = TextExample("1", "good", label="a"), TextExample("2", "bad", label="a")
    again, paired = TextExample("9", "good", label="b"), TextExample("3", "good", pair="bad")
    splits = {"train": [seen, other], "dev": [paired], "test": [again, paired, other]}
    tell_shared(Data(splits, {split: split for split in splits}, ("test",)), "mine")
    assert caplog.messages == [
        "mine: examples with the inputs of a training example: 2 of 3 in test"
    ]
    tell_shared(Data(splits | {"test": [paired]}, {}, ("test",)), "mine")
    assert len(caplog.messages) == 1


def test_a_smaller_training_set_is_contained_in_a_larger_one():
    task = TASKS["klue-nli"]
    examples = task.read(find(task, OFFICIAL)["train"][0])
    whole = Data({"train": examples}, {"train": "train"}, ("dev",))
    sets = [{one.id for one in part_of(whole, n, task.name).splits["train"]} for n in (2, 4)]
    assert sets[0] < sets[1]
    with pytest.raises(RecipeError, match="ask for fewer"):
        part_of(whole, 99, task.name)


def test_rows_of_the_hub_have_labels_by_name():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict(
        {"text": ["a", "b"], "label": [1, -1], "tags": [[0, 1], [1]]},
        features=datasets.Features(
            {
                "text": datasets.Value("string"),
                "label": datasets.ClassLabel(names=["no", "yes"]),
                "tags": datasets.List(datasets.ClassLabel(names=["O", "B"])),
            }
        ),
    )
    first, second = hub_rows(table, {"text": "sentence"}, "hub:x")
    assert first.values == {"sentence": "a", "label": "yes", "tags": ["O", "B"]}
    assert second.values["label"] == -1


def test_splits_come_from_the_data_set_and_revision_that_have_them(monkeypatch):
    asked = []

    def load_dataset(*place, split, revision):
        asked.append((*place, split, revision))
        answers = {"text": ["b"], "answer_start": [2]}
        rows = [{"id": "1", "context": "a b", "question": "c?", "answers": answers}]
        return datasets.Dataset.from_list(rows)

    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert from_hub(TASKS["mlqa-en"]).splits.keys() == {"train", "dev", "test"}
    assert asked == [
        ("rajpurkar/squad", None, "train", None),
        ("facebook/mlqa", "mlqa.en.en", "validation", "refs/convert/parquet"),
        ("facebook/mlqa", "mlqa.en.en", "test", "refs/convert/parquet"),
    ]
    assert TASKS["nsmc"].table.hub.revision == "refs/convert/parquet"
    asked.clear()
    from_hub(TASKS["xquad-en"])
    assert [place[0] for place in asked] == ["rajpurkar/squad"] * 2 + ["google/xquad"]
    with pytest.raises(DataError, match="google/xquad: has no train split of xquad-de; give its"):
        from_hub(TASKS["xquad-de"])
