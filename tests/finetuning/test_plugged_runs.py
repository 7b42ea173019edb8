"""Whole fine-tunings plugged in, through the command: translations from everywhere, a teacher."""

import json

import numpy as np
import pytest
import tasks_of_languages as made
import torch

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import cells, heads, partners
from lingraft.finetuning.coders.common import Shape, collate
from lingraft.finetuning.outcomes import outcomes, predictions
from lingraft.finetuning.problem import Finetuning
from lingraft.finetuning.recipe import decode_finetune

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
    run, tmp_path, accelerator
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
    assert found.data["train_examples"] == 15
    assert found.data["plug_in"]["read"]["train"] == "each with its translation"
    assert found.data["plug_in"]["read"]["test-ko"] == "each with itself"
    recipe = {"models": [str(found.folder / "best")], "tasks": ["pawsx"], "data": str(data)}
    recipe |= {"train_languages": ["en", "ko"], "test_languages": ["ko"], "plug": "in"}
    (cell,) = cells.plan(decode_finetune(recipe, SETTINGS.split()), tmp_path)
    tokenizer = heads.tokenizer_for(cell.folder, cell.task)
    model = heads.build(cell.folder, cell.task, tokenizer, 3, cell.plug_in)
    shape = Shape(tokenizer, tokenizer.pad_token_id, 48, False)
    coder = heads.CODERS["pair"](cell.task, shape)
    examples = cell.data.splits["test-ko"]
    items = partners.items(coder, examples, cell.data.partners["test-ko"])
    problem = Finetuning(model, coder, shape, items, [], 4_096)
    said, _ = problem.predict(problem.module, accelerator, examples, items)
    assert said == predictions(found, "test-ko")
    rows = [json.loads(line) for line in (found.folder / "metrics.jsonl").read_text().splitlines()]
    learnt = [row for row in rows if row["kind"] == "train"]
    assert learnt
    for row in learnt:
        assert row["loss"] == pytest.approx(row["loss/task"] + row["loss/partner"])


def test_plugged_out_is_what_it_was_and_both_are_compared(run, tmp_path, command):
    data = write_pawsx(tmp_path / "data")
    task = ("--task", "pawsx", "--data", data, "--train-language", "en", "ko")
    assert run(tmp_path / "out", *task).status == 0
    assert run(tmp_path / "out", *task, plug=()).status == 0
    assert run(tmp_path / "again", *task, plug=("plug=out",)).status == 0
    out, plugged = outcomes(tmp_path / "out")
    (again,) = outcomes(tmp_path / "again")
    assert (out.model_label, plugged.model_label) == ("M", "M (plugged in)")
    assert out.fingerprint == again.fingerprint != plugged.fingerprint
    assert "plug_in" not in out.data
    assert "plug_in" not in json.loads((out.folder / "inputs").read_text())
    compared = command("report", tmp_path / "out", "reference=M")
    assert compared.status == 0, compared.err
    assert "M (plugged in)" in compared.out


def test_xtreme_s_translated_training_files_are_read(veco_source, tmp_path):
    folder = tmp_path / "data" / "PAWSX" / "translate-train"
    folder.mkdir(parents=True)
    lines = [
        "\t".join((*own[1:3], *other[1:3], own[3])) for own, other in zip(ROWS, KOREAN, strict=True)
    ]
    (folder / "en-ko-translated.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_pawsx(tmp_path / "data" / "pawsx", ("dev", "test"))
    recipe = {
        "models": [str(veco_source("xlm-roberta"))],
        "tasks": ["pawsx"],
        "data": "data",
        "plug": "in",
    }
    recipe |= {"train_languages": ["ko"], "test_languages": ["ko"]}
    (cell,) = cells.plan(decode_finetune(recipe), tmp_path)
    first = cell.data.splits["train"][0]
    partner = cell.data.partners["train"][first.id]
    assert (first.text, first.label) == (KOREAN[0][1], "0")
    assert (partner.text, partner.pair, partner.label) == (*ROWS[0][1:3], "0")


OWN = """
name = "mood"
kind = "classification"
labels = ["no", "yes"]
files = { train = "train.csv", dev = "dev.csv", test = "dev.csv" }
"""


def write_own(folder, translated=True):
    more = ",translation" if translated else ""
    rows = [f"{n},text {n},{('no', 'yes')[n % 2]}" for n in range(8)]
    train = [f"{row},말 {n}" if translated else row for n, row in enumerate(rows)]
    (folder / "train.csv").write_text("\n".join([f"id,text,label{more}", *train]), encoding="utf-8")
    (folder / "dev.csv").write_text("\n".join(["id,text,label", *rows]), encoding="utf-8")
    (folder / "mood.toml").write_text(OWN, encoding="utf-8")
    return folder / "mood.toml"


def test_a_task_of_one_s_own_has_a_column_of_translations_or_files_of_them(run, tmp_path):
    path = write_own(tmp_path)
    assert run(tmp_path / "out", "--task", path).status == 0
    (found,) = outcomes(tmp_path / "out")
    assert found.data["plug_in"]["read"]["train"] == "each with its translation"
    assert found.data["plug_in"]["read"]["test"] == "each with itself"
    write_own(tmp_path, translated=False)
    (tmp_path / "other.csv").write_text("id,text\n" + "".join(f"{n},말 {n}\n" for n in range(6)))
    path.write_text(OWN + 'translations = { train = "other.csv", test = "other.csv" }\n')
    assert run(tmp_path / "files", "--task", path).status == 0
    (found,) = outcomes(tmp_path / "files")
    assert found.data["train_examples"] == 6
    assert found.data["plug_in"]["read"]["test"].startswith("6 of 8 with the translation, ")


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


def test_a_teacher_tags_translations(run, tmp_path, monkeypatch):
    path = write_untagged(tmp_path / "data")
    refused = run(tmp_path / "out", "--task", path)
    assert "have no tags" in refused.err
    assert run(tmp_path / "english", "--task", path, "keep_models=true", plug=()).status == 0
    (taught,) = outcomes(tmp_path / "english")
    read = []
    items = partners.items

    def noted(coder, examples, there, teacher=None):
        found = items(coder, examples, there, teacher)
        read.append((teacher, coder, found))
        return found

    monkeypatch.setattr(partners, "items", noted)
    arguments = ("--task", path, f"plug_in.teacher={taught.folder / 'best'}")
    ended = run(tmp_path / "out", *arguments)
    assert ended.status == 0, ended.err
    ((teacher, coder, found),) = [one for one in read if one[0] is not None]
    with torch.no_grad():
        batch = collate(coder, teacher.shape, [found[0].partner], predict=True)
        logits = teacher.model.eval()(**batch.inputs).logits[0]
    target = np.array(found[0].partner.target)
    counted = target >= 0
    assert (logits.argmax(-1).numpy()[counted] == target[counted]).all()


def test_ids_that_do_not_belong_together_are_refused(tmp_path, veco_source):
    path = write_own(tmp_path, translated=False)
    path.write_text(OWN + 'translations = { train = "other.csv" }\n')
    recipe = decode_finetune(
        {"models": [str(veco_source("xlm-roberta"))], "tasks": [str(path)], "plug": "in"}
    )
    other = tmp_path / "other.csv"
    other.write_text("id,text,label\n" + "".join(f"x{n},말,no\n" for n in range(8)))
    with pytest.raises(DataError, match="no example of train has the id of a translation"):
        cells.plan(recipe, tmp_path)


@pytest.mark.parametrize("which", ["train.csv", "other.csv"])
def test_files_of_two_languages_need_ids(which, tmp_path, veco_source):
    path = write_own(tmp_path, translated=False)
    path.write_text(OWN + 'translations = { train = "other.csv" }\n')
    rows = [f"{n},말 {n},no\n" for n in range(8)]
    (tmp_path / "other.csv").write_text("id,text,label\n" + "".join(rows))
    bare = ["text,label", *(line.strip().split(",", 1)[1] for line in rows)]
    (tmp_path / which).write_text("\n".join(bare) + "\n", encoding="utf-8")
    recipe = {"models": [str(veco_source("xlm-roberta"))], "tasks": [str(path)], "plug": "in"}
    with pytest.raises(DataError, match=rf"{which} has no ids; give both files a column of ids"):
        cells.plan(decode_finetune(recipe), tmp_path)


def test_settings_of_what_is_plugged_in_need_it():
    with pytest.raises(RecipeError, match="say so"):
        decode_finetune({"models": ["m"], "tasks": ["t"]}, ["plug_in.stop_gradient=true"])
