"""A user's own files: a table of a recipe makes a task of them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from right_answers import gold

from lingraft.errors import DataError, RecipeError
from lingraft.tasks import load
from lingraft.tasks.decoding import decode, task_of
from lingraft.tasks.examples import TaggedExample, TextExample

if TYPE_CHECKING:
    from lingraft.tasks import Task


def _task(folder: Path, toml: str, **files: str) -> Task:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return task_of(decode(tomllib.loads(toml)), folder)


def _perfect(task: Task, folder: Path) -> dict[str, float]:
    data = load(task, folder)
    examples = data.splits[data.evaluation[0]]
    return task.score(examples, [gold(example, task.labels) for example in examples])


def test_classification_from_csv_learns_its_labels_from_train(tmp_path: Path) -> None:
    task = _task(
        tmp_path,
        'name = "mood"\nkind = "classification"\ncolumns.label = "mood"\n'
        'files = {train = "a.csv", dev = "b.csv"}',
        a__csv='text,mood\n"good, very",up\nbad,down\nso so,flat\n',
        b__csv="text,mood\nfine,up\nawful,down\n",
    )
    assert task.labels == ("down", "flat", "up")
    assert task.metrics == ("accuracy", "macro_f1", "matthews")
    data = load(task, tmp_path)
    assert data.splits["train"][0] == TextExample("0", "good, very", None, "up")
    assert _perfect(task, tmp_path)["accuracy"] == 100


def test_labels_are_those_of_the_rows_that_are_wanted_without_their_aliases(tmp_path: Path) -> None:
    rows = '[{"text": "a", "label": "pos", "lang": "en"}, {"text": "b", "label": "positive"},'
    rows += '{"text": "c", "label": "neg"}, {"text": "d", "label": "schlecht", "lang": "de"}]'
    task = _task(
        tmp_path,
        'name = "t"\nkind = "classification"\nfiles = {train = "a.json", dev = "a.json"}\n'
        'aliases = {positive = "pos"}\nonly = {lang = "en"}',
        a__json=rows,
    )
    assert task.labels == ("neg", "pos")


GOOD = 'name = "t"\nkind = "classification"\nfiles = {train = "a.csv", dev = "a.csv"}\n'


@pytest.mark.parametrize("kind", ["conll", "jsonl"])
def test_tagging_from_conll_and_jsonl(kind: str, tmp_path: Path) -> None:
    texts = {
        "conll": "-DOCSTART- -X- O\n\nAnn NNP B-PER\nsleeps VBZ O\n\n# SYM O\nBob NNP B-PER\n",
        "jsonl": '{"words": ["Ann", "sleeps"], "tags": ["B-PER", "O"]}\n'
        '{"words": ["#", "Bob"], "tags": ["O", "B-PER"]}\n',
    }
    (tmp_path / f"a.{kind}").write_text(texts[kind], encoding="utf-8")
    toml = f'name = "names"\nkind = "tagging"\nfiles = {{train = "a.{kind}", dev = "a.{kind}"}}\n'
    task = _task(tmp_path, toml)
    assert (task.labels, task.metrics) == (("B-PER", "O"), ("chunks", "tokens"))
    assert load(task, tmp_path).splits["dev"] == [
        TaggedExample("0", ("Ann", "sleeps"), ("B-PER", "O")),
        TaggedExample("1", ("#", "Bob"), ("O", "B-PER")),
    ]
    assert _perfect(task, tmp_path)["chunk_f1"] == 100
    assert _task(tmp_path, toml + 'metrics = ["entities"]').selection == "entity_f1"
    with pytest.raises(RecipeError, match="'entities' is none of tokens, chunks"):
        _task(tmp_path, toml + 'labels = ["I-PER", "O"]\nmetrics = ["entities"]')


@pytest.mark.parametrize("labels", ["", 'labels = ["a", "b"]'])
def test_no_label_is_none_of_the_labels(labels: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no answer"):
        load(_task(tmp_path, GOOD + labels, a__csv="text,label\nx,a\ny,\nz,b\n"), tmp_path)


def test_a_saved_definition_is_the_task_again_without_its_files(tmp_path: Path) -> None:
    toml = GOOD + 'columns.label = ["mood", "label"]\nbetas = [0.9, 0.98]\nclip = 0\n'
    task = _task(tmp_path, toml + 'only = {text = "."}\n', a__csv="text,mood\na,x\nb,y\n")
    again = task_of(decode(json.loads(json.dumps(task.saved))), Path("elsewhere"))
    assert again.decisive() == task.decisive()
    assert again.shown == task.shown == ("accuracy", "macro_f1", "f1", "matthews")
    assert (task.settings.betas, task.settings.clip) == ((0.9, 0.98), None)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        (GOOD + "epoch = 3\n", "epoch: no such key. Did you mean 'epochs'?"),
        (GOOD + 'metrics = ["bleu"]\n', "'bleu' is none of accuracy"),
        (GOOD + 'labels = ["x", "y", "z"]\nmetrics = ["f1"]\n', "'f1' is none of accuracy"),
        (GOOD + 'evaluation = ["tset"]\n', "has no 'tset'"),
        (GOOD.replace('"classification"', '"parsing"'), "your own can be classification"),
        (GOOD.replace('"t"', '"../t"'), "name"),
        (GOOD + 'only = {text = "["}', "only"),
    ],
)
def test_a_table_that_makes_no_task_is_one_line(toml: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=says) as caught:
        _task(tmp_path, toml, a__csv="text,label\na,x\nb,y\n")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("text,label\na,x\nb,z\n", "line 3: unknown label 'z'; allowed: x, y"),
        ("text,mood\na,x\n", "line 2: no column 'label'; it has 'text', 'mood'"),
        ("text,label,text\na,x,b\n", "column 'text' is there twice"),
        ('text,label\n"a,x\n', "broken CSV"),
    ],
)
def test_a_broken_file_of_a_user_is_one_line(rows: str, says: str, tmp_path: Path) -> None:
    task = _task(tmp_path, GOOD + 'labels = ["x", "y"]\n', a__csv=rows)
    with pytest.raises(DataError, match=says) as caught:
        load(task, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_test_set_without_answers_is_said_in_the_task(tmp_path: Path) -> None:
    toml = GOOD.replace('dev = "a.csv"', 'dev = "a.csv", test = "b.csv"')
    task = _task(tmp_path, toml, a__csv="text,label\nx,no\ny,yes\n", b__csv="text,label\nx,\n")
    with pytest.raises(DataError, match=r'has no answer.*says hidden = \["test"\]'):
        load(task, tmp_path)
    assert load(_task(tmp_path, toml + 'hidden = ["test"]\n'), tmp_path).evaluation == ("dev",)


def test_two_files_where_one_would_be_read_are_refused(tmp_path: Path) -> None:
    files = dict.fromkeys(("a__csv", "b__csv"), "text,label\nx,up\ny,down\n")
    task = _task(tmp_path, GOOD.replace('"a.csv",', '["a.csv", "b.csv"],'), **files)
    with pytest.raises(RecipeError, match=r"files\.train.*write \[\['a\.csv'\], \['b\.csv'\]\]"):
        load(task, tmp_path)
    task = _task(tmp_path, GOOD.replace('"a.csv",', '[["a.csv"], ["b.csv"]],'))
    assert len(load(task, tmp_path).splits["train"]) == 4


def test_a_cell_of_a_csv_file_may_hold_a_long_document(tmp_path: Path) -> None:
    rows = f"text,label\n{'a' * 200_000},x\nb,y\n"
    task = _task(tmp_path, GOOD + 'labels = ["x", "y"]\n', a__csv=rows)
    assert len(load(task, tmp_path).splits["train"][0].text) == 200_000
