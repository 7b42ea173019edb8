"""Whole fine-tunings plugged in, through the command: translations from everywhere, a teacher."""

import json

import numpy as np
import pytest
import tasks_of_languages as made
import torch

from lingraft.finetuning import heads, partners, task_runs
from lingraft.finetuning.coders.common import collate
from lingraft.finetuning.outcomes import outcomes, predictions
from lingraft.finetuning.recipe import decode_finetune
from lingraft.tasks.decoding import task_in
from lingraft.tasks.examples import TaggedExample

SETTINGS = "epochs=1 batch=4 learning_rate=0.002 max_length=48 warmup=0 checks_per_epoch=1"
ROWS = [
    (f"{n}", f"word {n % 5} here", f"word {(n + n % 2) % 5} there", str(n % 2)) for n in range(16)
]
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
            path = folder / f"{split}-{language}.jsonl"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def run(veco_source, command):
    """Fine-tunes a tiny model plugged in: `run(out, *arguments)`."""

    def called(out, *arguments, plug=("plug=in",), settings=SETTINGS):
        start = ("finetune", veco_source("xlm-roberta"), "--label", "M", "--seeds", 1, "--out", out)
        return command(*start, *settings.split(), *plug, *arguments)

    return called


def test_pairs_are_read_with_their_translation_and_a_kept_model_says_the_same(
    run, tmp_path, accelerator, finetuning
):
    data = write_pawsx(tmp_path / "data")
    task = ("--task", "pawsx", "--data", data, "--train-language", "en", "ko")
    more = ("--test-language", "ko", "keep_models=true", "precision=fp32")
    ended = run(tmp_path / "out", *task, *more)
    assert ended.status == 0, ended.err
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
    items = problem.items
    said, _ = problem.predict(problem.module, accelerator, examples, items)
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
        lines = (folder / f"{source}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [{"id": n, **json.loads(line)} for n, line in enumerate(lines)]
        kept = [json.dumps({key: row[key] for key in keys}) + "\n" for row in rows]
        (folder / f"{target}.jsonl").write_text("".join(kept), encoding="utf-8")
    own = made.TAGGING.replace('languages = ["en", "de", "ko"]\n', "").replace("{lang}", "en")
    alone = path.with_name("alone.toml")
    more = 'labels = ["D", "N", "V"]\ntranslations = { train = "untagged.jsonl" }\n'
    alone.write_text(own + more, encoding="utf-8")
    return alone


def test_a_teacher_tags_translations(run, tmp_path, accelerator):
    path = write_untagged(tmp_path / "data")
    refused = run(tmp_path / "out", "--task", path)
    assert "have no tags" in refused.err
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
    arguments = ("--task", path, f"teacher={best}")
    assert run(tmp_path / "out", *arguments).status == 0
