"""Training in one language and scoring in others: runs of tiny models through the command."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tasks_of_languages as made

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import cells, heads, transfer
from lingraft.finetuning import outcomes as finetuned
from lingraft.finetuning.coders.common import Shape
from lingraft.finetuning.families import families, named
from lingraft.finetuning.outcomes import outcomes
from lingraft.finetuning.problem import Finetuning, Judged
from lingraft.finetuning.recipe import decode_finetune
from lingraft.pretrained.load import load_config
from lingraft.recipe import Batch
from lingraft.report.row import read
from lingraft.tasks import TASKS
from lingraft.training.data import BatchPlan, Position


@pytest.fixture
def tagging(tmp_path):
    return made.write_tagging(tmp_path / "data")


@pytest.fixture
def run(tiny_source, command):
    """Fine-tunes a tiny model: `run(out, task, *arguments)`."""

    def called(out, task, *arguments, seeds=1):
        source = tiny_source("xlm-roberta")
        start = ("finetune", source, "--label", "M", "--task", task, "--seeds", seeds, "--out", out)
        return command(*start, *arguments)

    return called


def scored_alone(best, task, accelerator):
    """What a saved model scores on the test set of a task in one language."""
    recipe = decode_finetune({"models": [str(best)], "tasks": [str(task)], "seeds": 1})
    (cell,) = cells.plan(recipe, Path())
    tokenizer = heads.tokenizer_for(cell.folder, cell.task)
    config, coder_class = load_config(str(best)), heads.CODERS[cell.task.kind]
    forward = heads.forward_of(config, coder_class.head)
    shape = Shape.of(tokenizer, config, forward, cell.task.settings.max_length)
    coder = coder_class(cell.task, shape)
    model = heads.build(best, cell.task, tokenizer, seed=0)
    heads.restore(model, best)
    examples = cell.data.splits["test"]
    items = coder.encode(examples)
    problem = Finetuning(
        model, coder, shape, items, [Judged("test", cell.task, examples, items)], 4_096
    )
    said, _ = problem.predict(problem.module, accelerator, examples, items)
    return said, cell.task.score(examples, said)


@pytest.mark.parametrize("kind", ["tagging", "span"])
def test_each_language_scores_what_the_saved_model_scores_on_it_alone(
    kind, tmp_path, run, accelerator
):
    writer, name, text = {
        "tagging": (made.write_tagging, "words", made.TAGGING),
        "span": (made.write_spans, "answers", made.SPANS),
    }[kind]
    path = writer(tmp_path / "data")
    ended = run(tmp_path / "out", path, "--train-language", "en", "keep_models=true")
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "out")
    assert found.task == f"{name}-from-en"
    assert found.splits == ("dev-en", "test-en", "test-de", "test-ko")
    assert found.evaluation == ("test-en", "test-de", "test-ko")
    for language in made.LANGUAGES:
        table = text.replace('languages = ["en", "de", "ko"]', "").replace("{lang}", language)
        labels = 'labels = ["D", "N", "V"]\n' if kind == "tagging" else ""
        alone = path.with_name(f"{language}.toml")
        alone.write_text(table.replace("\nkind", f"\n{labels}kind", 1), encoding="utf-8")
        said, scores = scored_alone(found.folder / "best", alone, accelerator)
        assert found.scores(f"test-{language}") == pytest.approx(scores)
        assert finetuned.predictions(found, f"test-{language}") == said
    rows = read(tmp_path / "out" / "results.jsonl")
    korean = next(one for one in rows if one.axes["language"] == "ko")
    assert (korean.axes["task"], korean.split, korean.axes["train"]) == (name, "test", "en")


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_the_mean_over_languages_can_choose_other_weights_than_english(tmp_path, run):
    """German and Korean development sets have contrary tags: they fall as English rises."""
    path = made.write_tagging(tmp_path / "data", (48, 20, 4), flipped=("de", "ko"))
    same = ("--train-language", "en", "epochs=8", "learning_rate=0.003")
    assert run(tmp_path / "en", path, *same).status == 0
    assert run(tmp_path / "mean", path, *same, "selection_languages=mean").status == 0
    (english,), (mean,) = outcomes(tmp_path / "en"), outcomes(tmp_path / "mean")
    checks = {}
    for name, found in (("en", english), ("mean", mean)):
        rows = rows_of(found.folder / "metrics.jsonl")
        checks[name] = [row for row in rows if row["kind"] == "valid"]
    assert mean.languages.selection == ("en", "de", "ko")
    for row in checks["mean"]:
        parts = [row[f"dev-{language}/token_accuracy"] for language in made.LANGUAGES]
        assert row["token_accuracy"] == pytest.approx(sum(parts) / 3)
    best = {
        name: max(rows, key=lambda row: (row["token_accuracy"], -row["step"]))["step"]
        for name, rows in checks.items()
    }
    assert english.data["best"]["step"] == best["en"]
    assert mean.data["best"]["step"] == best["mean"]
    assert best["en"] > best["mean"]
    reached = [mean.scores(f"dev-{one}")["token_accuracy"] for one in made.LANGUAGES]
    assert mean.data["best"]["score"] == pytest.approx(sum(reached) / 3)
    assert (english.languages.select_on, mean.languages.select_on) == ("en", "mean")


def test_languages_together_are_one_shuffled_training_set(tagging, tmp_path, run):
    ended = run(tmp_path / "out", tagging, "--train-language", "all")
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "out")
    assert found.data["train_examples"] == 3 * 24
    assert found.languages.train == made.LANGUAGES
    assert found.languages.selection == made.LANGUAGES
    assert "gap: " not in ended.out  # nothing is left to transfer to
    recipe = decode_finetune(
        {"models": ["m"], "tasks": [str(tagging)], "train_languages": ["en", "de", "ko"]}
    )
    ((_, data),) = transfer.plan(recipe, Path())
    languages = [one.id.split("/")[0] for one in data.splits["train"]]
    assert [languages.count(one) for one in made.LANGUAGES] == [24, 24, 24]
    plan = BatchPlan(np.ones(72), Batch(size=12), 0, "finetune")
    _, indices = next(iter(plan.after(Position(0, 0))))
    assert {languages[place] for place in indices.tolist()} == set(made.LANGUAGES)


# -- data


def planned(*, data=None, tasks, **more):
    table = {"models": ["m"], "tasks": tasks, "train_languages": ["en"]} | more
    recipe = decode_finetune(table | ({"data": str(data)} if data else {}))
    return list(transfer.plan(recipe, Path()))


def test_a_part_of_the_training_set_is_of_all_languages_together(tagging):
    ((_, data),) = planned(tasks=[str(tagging)], train_languages=["en", "de"], train_examples=10)
    languages = {one.id.split("/")[0] for one in data.splits["train"]}
    assert (len(data.splits["train"]), languages) == (10, {"en", "de"})


def test_all_languages_are_learnt_that_have_a_training_file(tagging, monkeypatch):
    (tagging.parent / "train-ko.jsonl").unlink()
    ((transferred, _),) = planned(tasks=[str(tagging)], train_languages=["all"])
    assert (transferred.train, transferred.test) == (("en", "de"), ("en", "de", "ko"))
    assert transferred.tasks["ko"].labels == ("D", "N", "V")
    monkeypatch.setenv("HOME", str(tagging.parent))
    assert named("~/words.toml", tagging.parent, ("en",)).name == "words"


@pytest.mark.parametrize(
    ("names", "metrics"), [("BBI", ("entities", "tokens", "chunks")), ("IIB", ("chunks", "tokens"))]
)
def test_names_in_a_language_without_a_training_file_are_scored_as_in_the_others(
    tagging, names, metrics
):
    tagging.write_text(re.sub(r"\nmetrics = .*", "", tagging.read_text()))
    for path in tagging.parent.glob("*.jsonl"):
        tags = ["O", *(f"{name}-LOC" for name in names)]
        path.write_text(json.dumps({"words": list("abcd"), "tags": tags}) + "\n")
    (tagging.parent / "train-ko.jsonl").unlink()
    ((transferred, _),) = planned(tasks=[str(tagging)])
    assert {task.metrics for task in transferred.tasks.values()} == {metrics}


def test_benchmarks_of_several_languages_are_found_by_name(tmp_path):
    known = families()
    assert set(known["pawsx"].tasks) == {"de", "en", "es", "fr", "ja", "ko", "zh"}
    assert known["pawsx"].tasks["ko"] is TASKS["pawsx-ko"]
    with pytest.raises(RecipeError, match="pawsx-ko is in one language"):
        named("pawsx-ko", tmp_path, ("en",))
    with pytest.raises(RecipeError, match="klue-nli is in one language"):
        named("klue-nli", tmp_path, ("en",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--train-language", "xx"), "words has no language 'xx'; it has en, de, ko"),
        (
            ("--train-language", "en", "--test-language", "de", "xx"),
            "none of the tasks (words) has the language 'xx'; they have en, de, ko",
        ),
        (("--train-language", "en", "en"), "train_languages has 'en' twice"),
        (("--train-language", "en", "all"), "'all' stands for several"),
        (("--test-language", "de"), "name them with train_languages (--train-language en)"),
        (
            ("--train-language", "en", "cut.train=0.8", "cut.dev=0.1", "cut.test=0.1"),
            "cut: is for tasks in one language",
        ),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(arguments, message, tagging, tmp_path, run):
    ended = run(tmp_path / "out", tagging, *arguments)
    assert ended.status == 1
    assert message in ended.err
    assert ended.err.count("\n") == 1


def moods(folder, *splits):
    """An aligned task in English and German, 40 examples a split."""
    for split in splits:
        for language in ("en", "de"):
            lines = [f"{language} {split} {number},{number % 2}" for number in range(40)]
            (folder / f"{split}-{language}.csv").write_text(
                "\n".join(["text,label", *lines]) + "\n"
            )
    files = ", ".join(f'{split} = "{split}-{{lang}}.csv"' for split in splits)
    (folder / "mood.toml").write_text(
        'name = "mood"\nkind = "classification"\nlanguages = ["en", "de"]\naligned = true\n'
        f'labels = ["0", "1"]\nfiles = {{{files}}}\n'
    )
    return {"models": ["x"], "tasks": ["mood.toml"]}


@pytest.mark.parametrize("selection", [("en", "de"), ("de",)])
def test_no_translation_of_what_is_trained_on_chooses(selection, tmp_path):
    asked = moods(tmp_path, "train", "test")
    asked |= {"train_languages": ["en", "de"], "selection_languages": list(selection)}
    with pytest.raises(DataError, match="would hold translations of what is learnt"):
        list(transfer.plan(decode_finetune(asked), tmp_path))
