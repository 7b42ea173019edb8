"""Whole fine-tunings plugged in, through the command: translations from everywhere, a teacher.

Training in one language and scoring in others: runs of tiny models through the command.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import tasks_of_languages as made
import torch

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import heads, outcomes as finetuned, partners, task_runs, transfer
from lingraft.finetuning.coders.common import collate
from lingraft.finetuning.outcomes import outcomes, predictions
from lingraft.finetuning.recipe import decode_finetune
from lingraft.report.row import read
from lingraft.tasks.decoding import task_in
from lingraft.tasks.examples import TaggedExample

SETTINGS = "epochs=1 batch=4 learning_rate=0.002 max_length=48 warmup=0 checks_per_epoch=1"
ROWS = [(f"{n}", f"word {n % 5} here", f"word {(n + n % 2) % 5} there", f"{n % 2}")
        for n in range(16)]  # fmt: skip
KOREAN = [(i, a.replace("word", "말"), b.replace("word", "말"), label) for i, a, b, label in ROWS]


def write_pawsx(folder, splits=("train", "dev", "test")):
    """PAWS-X as JSONL with the same ids in all languages; Korean lacks one, and its first split has
    columns of translations."""
    folder.mkdir()
    for split in splits:
        for language, rows in (("en", ROWS), ("ko", KOREAN[1:])):
            lines = []
            for i, a, b, label in rows:
                row = {"id": i, "sentence1": a, "sentence2": b, "label": int(label)}
                if (language, split) == ("ko", splits[0]):
                    row |= {"translation": ROWS[int(i)][1], "translation_pair": ROWS[int(i)][2]}
                lines.append(json.dumps(row))
            (folder / f"{split}-{language}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


@pytest.fixture
def run(veco_source, command):
    """Fine-tunes a tiny model plugged in: `run(out, *arguments)`."""

    def called(out, *arguments, plug=("plug=in",), settings=SETTINGS):
        start = ("finetune", veco_source("xlm-roberta"), "--label", "M", "--seeds", 1, "--out", out)
        return command(*start, *settings.split(), *plug, *arguments)

    return called


def test_a_kept_model_reads_pairs_with_their_translation(run, tmp_path, accelerator, finetuning):
    data = write_pawsx(tmp_path / "data")
    task = ("--task", "pawsx", "--data", data, "--train-language", "en", "ko")
    more = ("--test-language", "ko", "keep_models=true", "precision=fp32")
    ended = run(tmp_path / "out", *task, *more).well()
    (found,) = outcomes(tmp_path / "out")
    assert found.model_label == "M (plugged in)"
    assert found.folder.parents[1].name == "M-plugged-in"
    assert "M (plugged in)" in ended.out
    assert found.train_examples == 15
    assert found.plug_in["read"]["train"].startswith(f"{found.train_examples} of ")
    assert found.plug_in["read"]["test-ko"].startswith("0 of ")
    recipe = {"models": [str(found.folder / "best")], "tasks": ["pawsx"], "data": str(data)}
    recipe |= {"train_languages": ["en", "ko"], "test_languages": ["ko"], "plug": "in"}
    (cell,) = task_runs.plan(decode_finetune(recipe, SETTINGS.split()), tmp_path)
    examples, matches = cell.data.splits["test-ko"], cell.data.partners["test-ko"]
    problem = finetuning(
        cell.folder, cell.task, examples, is_plugged=True,
        encode=lambda coder: partners.items(coder, examples, matches)
    )  # fmt: skip
    heads.restore(problem.model, cell.folder)
    said, _ = problem.predict(problem.module, accelerator, examples, problem.items)
    assert said == predictions(found, "test-ko")
    rows = [json.loads(line) for line in (found.folder / "metrics.jsonl").read_text().splitlines()]
    learnt = [row for row in rows if row["kind"] == "train"]
    assert learnt
    for row in learnt:
        assert row["loss"] == pytest.approx(row["loss/task"] + row["loss/partner"])


def write_untagged(folder):
    """English sentences with tags, and Korean ones of the same ids without."""
    path = made.write_tagging(folder)
    for source, target, keys in (
        ("train-ko", "untagged", ("id", "words")),
        ("train-en", "train-en", ("id", "words", "tags")),
    ):
        lines = (folder / f"{source}.jsonl").read_text("utf-8").splitlines()
        rows = [{"id": n, **json.loads(line)} for n, line in enumerate(lines)]
        kept = [json.dumps({key: row[key] for key in keys}) + "\n" for row in rows]
        (folder / f"{target}.jsonl").write_text("".join(kept), "utf-8")
    own = made.TAGGING.replace('languages = ["en", "de", "ko"]\n', "").replace("{lang}", "en")
    alone = path.with_name("alone.toml")
    more = 'labels = ["D", "N", "V"]\ntranslations = { train = "untagged.jsonl" }\n'
    alone.write_text(own + more, "utf-8")
    return alone


def test_a_teacher_tags_translations(run, tmp_path, accelerator):
    path = write_untagged(tmp_path / "data")
    assert "have no tags" in run(tmp_path / "out", "--task", path).err
    assert run(tmp_path / "english", "--task", path, "keep_models=true", plug=()).status == 0
    (taught,) = outcomes(tmp_path / "english")
    best, task = taught.folder / "best", task_in(path)
    bare = {"x": TaggedExample("0", ("개", "달린다"), None)}
    tagged = partners.tag(bare, best, task, accelerator, 4_096)["x"]
    coder = heads.coder_for(best, task)
    (item,) = coder.encode([tagged])
    with torch.no_grad():
        inputs = collate(coder, [item], predict=True).inputs
        logits = heads.build(best, task, coder.shape.tokenizer, seed=0).eval()(**inputs).logits[0]
    target = np.array(item.target)
    assert (logits.argmax(-1).numpy()[target >= 0] == target[target >= 0]).all()
    assert run(tmp_path / "out", "--task", path, f"teacher={best}").status == 0


@pytest.fixture
def tagging(tmp_path):
    return made.write_tagging(tmp_path / "data")


@pytest.fixture
def tuned(tiny_source, command):
    """Fine-tunes a tiny model: `tuned(out, task, *arguments)`."""

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
def test_each_language_scores_what_it_scores_alone(kind, tmp_path, tuned, accelerator, finetuning):
    writer, name, text = made.write_tagging, "words", made.TAGGING
    if kind == "span":
        writer, name, text = made.write_spans, "answers", made.SPANS
    path = writer(tmp_path / "data")
    tuned(tmp_path / "out", path, "--train-language", "en", "keep_models=true").well()
    (found,) = outcomes(tmp_path / "out")
    assert found.task == f"{name}-from-en"
    assert tuple(found.splits) == ("dev-en", "test-en", "test-de", "test-ko")
    assert found.evaluation == ("test-en", "test-de", "test-ko")
    for language in made.LANGUAGES:
        table = text.replace('languages = ["en", "de", "ko"]', "").replace("{lang}", language)
        labels = 'labels = ["D", "N", "V"]\n' if kind == "tagging" else ""
        alone = path.with_name(f"{language}.toml")
        alone.write_text(table.replace("\nkind", f"\n{labels}kind", 1), "utf-8")
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
    languages = transferred.languages
    assert (languages.train, languages.test) == (("en", "de"), ("en", "de", "ko"))
    assert transferred.tasks["ko"].labels == ("D", "N", "V")


@pytest.mark.parametrize("key", ["test_languages", "selection_languages"])
def test_a_language_that_no_task_has_is_refused(key, tagging):
    with pytest.raises(RecipeError, match="ger is no language of these tasks, which have de, en"):
        planned(tasks=[str(tagging)], **{key: ["ko", "ger"]})


def moods(folder, *splits):
    """An aligned task in English and German, 40 examples a split."""
    for split in splits:
        for language in ("en", "de"):
            lines = [f"{language} {split} {number},{number % 2}\n" for number in range(40)]
            (folder / f"{split}-{language}.csv").write_text("".join(["text,label\n", *lines]))
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
