"""Training in one language and scoring in others: runs of tiny models through the command."""

from pathlib import Path

import pytest
import tasks_of_languages as made

from lingraft.errors import DataError
from lingraft.finetuning import outcomes as finetuned
from lingraft.finetuning import task_runs, transfer
from lingraft.finetuning.outcomes import outcomes
from lingraft.finetuning.recipe import decode_finetune
from lingraft.report.row import read


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


def scored_alone(best, task, accelerator, finetuning):
    """What a saved model scores on the test set of a task in one language."""
    recipe = decode_finetune({"models": [str(best)], "tasks": [str(task)], "seeds": 1})
    (cell,) = task_runs.plan(recipe, Path())
    examples = cell.data.splits["test"]
    problem = finetuning(best, cell.task, examples)
    said, _ = problem.predict(problem.module, accelerator, examples, problem.items)
    return said, cell.task.score(examples, said)


@pytest.mark.parametrize("kind", ["tagging", "span"])
def test_each_language_scores_what_the_saved_model_scores_on_it_alone(
    kind, tmp_path, run, accelerator, finetuning
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
    assert tuple(found.splits) == ("dev-en", "test-en", "test-de", "test-ko")
    assert found.evaluation == ("test-en", "test-de", "test-ko")
    for language in made.LANGUAGES:
        table = text.replace('languages = ["en", "de", "ko"]', "").replace("{lang}", language)
        labels = 'labels = ["D", "N", "V"]\n' if kind == "tagging" else ""
        alone = path.with_name(f"{language}.toml")
        alone.write_text(table.replace("\nkind", f"\n{labels}kind", 1), encoding="utf-8")
        said, scores = scored_alone(found.folder / "best", alone, accelerator, finetuning)
        assert found.scores(f"test-{language}") == pytest.approx(scores)
        assert finetuned.predictions(found, f"test-{language}") == said
    rows = read(tmp_path / "out" / "results.jsonl")
    korean = next(one for one in rows if one.axes["language"] == "ko")
    assert (korean.axes["task"], korean.split, korean.axes["train"]) == (name, "test", "en")


# -- data


def planned(*, data=None, tasks, **more):
    table = {"models": ["m"], "tasks": tasks, "train_languages": ["en"]} | more
    recipe = decode_finetune(table | ({"data": str(data)} if data else {}))
    return list(transfer.plan(recipe, Path()))


def test_all_languages_are_learnt_that_have_a_training_file(tagging):
    (tagging.parent / "train-ko.jsonl").unlink()
    ((transferred, _),) = planned(tasks=[str(tagging)], train_languages=["all"])
    assert (transferred.languages.train, transferred.languages.test) == (
        ("en", "de"),
        ("en", "de", "ko"),
    )
    assert transferred.tasks["ko"].labels == ("D", "N", "V")


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


def test_no_translation_of_what_is_trained_on_chooses(tmp_path):
    asked = moods(tmp_path, "train", "test")
    asked |= {"train_languages": ["en", "de"]}
    with pytest.raises(DataError, match="would hold translations of what is learnt"):
        list(transfer.plan(decode_finetune(asked), tmp_path))
