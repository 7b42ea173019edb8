"""Every task reads its official format; gold scored against itself is 100; broken files say so."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from official_files import HERE
from right_answers import gold

from lingraft.errors import DataError
from lingraft.tasks import TASKS, find, load
from lingraft.tasks.examples import labelled
from lingraft.tasks.splits import read_split

OFFICIAL = Path(__file__).parent / "official"
PARTS = [bytes([one]) for one in b'\t\n"{],[:\xff\0\r'] + [b"", b"9" * 5_000, b"[" * 3_000]
PARTS += [b"null", b"-1", b"NaN", b'"\\ud83d"', b"true", b"1-2", b"1.1", b"##", b"\xef\xbb\xbf"]
COUNTS = {"auprc_skipped_labels"}


@pytest.mark.parametrize("name", HERE)
def test_the_official_format_gives_five_examples_a_split_and_their_gold_scores_100(
    name: str,
) -> None:
    task = TASKS[name]
    for split, files in find(task, OFFICIAL, [*task.splits][:2]).items():
        examples = read_split(task, split, files)
        assert len(examples) == 5 * len(files)
        assert all(map(labelled, examples)) is task.splits[split].labelled
        if split not in task.evaluation:
            continue
        scores = task.score(examples, [gold(example, task.labels) for example in examples])
        off = {
            key: value
            for key, value in scores.items()
            if key not in COUNTS and key != "reference/auprc" and value != pytest.approx(100)
        }
        assert not off
        assert {task.selection, *task.shown} <= set(scores)


def test_every_task_is_fully_described() -> None:
    assert len(TASKS) == 28 + 15 + 33 + 40 + 11 + 7 + 9
    for name, task in TASKS.items():
        assert task.name == name
        assert all((task.title, task.table.citation)), name
        for text in (task.table.version, task.table.licence, task.files_from, task.settings.source):
            assert not re.search("user's own|recipe names|the recipe|[{}]", text), name
        assert set(task.evaluation) <= set(task.labelled_splits)
        if task.table.hub is None:
            # no copy on the Hub is known to have the fused words, or all rows
            assert name.startswith("udpos-") or name in ("korsts", "kornli")
        else:
            assert {*task.table.hub.splits, *task.table.hub.elsewhere} <= set(task.splits)
            needed = {"train", *task.evaluation} & set(task.splits)
            assert all(task.table.hub.of(split) is not None for split in needed)
        assert (task.kind == "regression") == (not task.labels and task.kind != "span")


def test_a_character_number_sign_is_not_a_comment_in_ner() -> None:
    examples = load(TASKS["klue-ner"], OFFICIAL).splits["dev"]
    assert examples[3].text == "C# 책을 샀다."
    assert examples[3].id == "klue-ner-v1_dev_00003-made"


def test_no_task_loads_torch() -> None:
    code = "import json, sys, lingraft.tasks.held_out;"
    code += "print([one for one in ('torch', 'transformers', 'datasets') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


KINDS = {name: task for name, task in TASKS.items() if name in HERE}


def test_a_mutated_file_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    rng = random.Random(11)
    files = [
        (task, path, path.read_bytes())
        for task in KINDS.values()
        for paths in find(task, OFFICIAL).values()
        for path in paths
    ]
    said = []
    for _ in range(2_000):
        task, path, data = rng.choice(files)
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 20))):
            at = rng.randrange(len(changed) + 1)
            changed[at : at + rng.choice((0, 1, 1, 40))] = rng.choice(PARTS)
        copy = tmp_path / path.name
        copy.write_bytes(bytes(changed))
        try:
            task.read(copy, hidden=rng.random() < 0.5)
        except DataError as error:
            said.append(str(error))
    assert len(said) > 1_000
    assert not [line for line in said if "\n" in line]


def test_rows_keep_quotation_marks_and_ragged_ones_are_left_out_where_a_task_says_so(
    tmp_path: Path,
) -> None:
    assert load(TASKS["korsts"], OFFICIAL).splits["train"][0].text == '남자가 "기타를 친다.'
    path = tmp_path / "train.tsv"
    whole = (OFFICIAL / "glue_data/QQP/train.tsv").read_text(encoding="utf-8")
    path.write_text(whole + "9\t18\t19\tcut in the\n", encoding="utf-8")
    assert len(TASKS["glue-qqp"].read(path)) == 5
    with pytest.raises(DataError, match="line 7: rows with another number of columns"):
        TASKS["glue-mrpc"].read(path)


@pytest.mark.parametrize(
    ("name", "file", "change", "says"),
    [
        ("klue-nli", "klue-nli-v1.1_dev.json", ('"gold_label": "neutral"', '"gold_label": "x"'),
         "element 3: unknown label 'x'; allowed: entailment, contradiction, neutral"),
        ("klue-sts", "klue-sts-v1.1_dev.json", ("4.857142857142857", "48.5"),
         "element 1: score '48.5' is not a number from 0 to 5"),
        ("klue-re", "klue-re-v1.1_dev.json", ('"start_idx": 0', '"start_idx": 40'),
         "element 1: subject_entity 40–2 is not in the sentence"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("NNG+JKS\t2", "NNG+JKS\t1"),
         "head '1' of word 1 is not another word"),
        ("klue-mrc", "klue-mrc-v1.1_dev.json", ('"answer_start": 8', '"answer_start": 9'),
         "data 1, paragraph 1, question 1: answer '2015년' is not at 9"),
    ],
)  # fmt: skip
def test_what_would_give_a_wrong_number_is_one_line_with_the_place(
    name: str, file: str, change: tuple[str, str], says: str, tmp_path: Path
) -> None:
    text = next(OFFICIAL.rglob(file)).read_text(encoding="utf-8")
    path = tmp_path / file
    path.write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(says)) as caught:
        TASKS[name].read(path)
    assert str(caught.value).startswith(f"{path}: ")
