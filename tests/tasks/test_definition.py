"""A user's own files: a table of a recipe makes a task of them."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from right_answers import gold

from lingraft.errors import DataError, RecipeError
from lingraft.tasks import catalogue, load
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.examples import SpanExample, TaggedExample, TextExample

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


@pytest.mark.parametrize("kind", ["conll", "jsonl"])
def test_tagging_from_conll_and_jsonl(kind: str, tmp_path: Path) -> None:
    texts = {
        "conll": "-DOCSTART- -X- O\n\nAnn NNP B-PER\nsleeps VBZ O\n\n# SYM O\nBob NNP B-PER\n",
        "jsonl": '{"words": ["Ann", "sleeps"], "tags": ["B-PER", "O"]}\n'
        '{"words": ["#", "Bob"], "tags": ["O", "B-PER"]}\n',
    }
    (tmp_path / f"a.{kind}").write_text(texts[kind], encoding="utf-8")
    task = _task(
        tmp_path,
        f'name = "names"\nkind = "tagging"\nfiles = {{train = "a.{kind}", dev = "a.{kind}"}}',
    )
    assert task.labels == ("B-PER", "O")
    assert load(task, tmp_path).splits["dev"] == [
        TaggedExample("0", ("Ann", "sleeps"), ("B-PER", "O")),
        TaggedExample("1", ("#", "Bob"), ("O", "B-PER")),
    ]
    assert _perfect(task, tmp_path)["entity_f1"] == 100


@pytest.mark.parametrize(
    ("tags", "metrics"),
    [
        (("B-X", "I-X", "O"), ("entities", "tokens", "chunks")),
        (("NOUN", "VERB"), ("tokens", "chunks")),
        (("S-X", "B-X", "E-X", "O"), ("chunks", "tokens")),
        (("I-X", "O"), ("chunks", "tokens")),
    ],
)
def test_tags_that_are_not_iob2_have_no_entities(
    tags: tuple[str, ...], metrics: tuple[str, ...], tmp_path: Path
) -> None:
    text = "".join(f"word {tag}\n" for tag in tags)
    toml = 'name = "n"\nkind = "tagging"\nfiles = {train = "a.conll", dev = "a.conll"}\n'
    task = _task(tmp_path, toml, a__conll=text)
    assert task.metrics == metrics
    assert _perfect(task, tmp_path)[task.selection] == 100
    if "entities" not in metrics:
        with pytest.raises(RecipeError, match="take chunks or tokens"):
            _task(tmp_path, toml + 'metrics = ["entities"]', a__conll=text)


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


@pytest.mark.parametrize(
    ("kind", "file", "text"),
    [
        ("classification", "a.csv", "text,label\nx,a\ny,\nz,b\n"),
        ("classification", "a.jsonl", '{"text": "x", "label": NaN}\n{"text": "y", "label": "a"}\n'),
        (
            "classification",
            "a.jsonl",
            '{"text": "x", "label": null}\n{"text": "y", "label": "a"}\n',
        ),
        ("tagging", "a.conll", "x O\ny\t\n"),
    ],
)
@pytest.mark.parametrize("labels", ["", 'labels = ["a", "b", "O"]'])
def test_no_label_is_none_of_the_labels(
    kind: str, file: str, text: str, labels: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text, encoding="utf-8")
    toml = f'name = "t"\nkind = "{kind}"\nfiles = {{train = "{file}", dev = "{file}"}}\n'
    with pytest.raises(DataError, match=r"has no answer|unknown label ''"):
        load(_task(tmp_path, toml + labels), tmp_path)


def test_spans_from_a_squad_file(tmp_path: Path) -> None:
    answers = [{"text": "Rome", "answer_start": 3}]
    document = {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": "In Rome.",
                        "qas": [{"id": "1", "question": "Where?", "answers": answers}],
                    }
                ]
            }
        ]
    }
    task = _task(
        tmp_path,
        'name = "where"\nkind = "span"\nfiles = {train = "a.json", dev = "a.json"}',
        a__json=json.dumps(document),
    )
    example = load(task, tmp_path).splits["dev"][0]
    assert isinstance(example, SpanExample)
    assert example.answers is not None
    assert example.answers[0].end == 7
    assert _perfect(task, tmp_path)["f1"] == 100
    spans = task.spans
    assert spans is not None
    assert task.settings.max_length - spans.max_query - 3 >= spans.doc_stride  # by default it works


def test_a_test_file_is_what_is_reported_and_a_missing_dev_is_cut(tmp_path: Path) -> None:
    rows = "text,label\n" + "".join(f"t{i},{i % 2}\n" for i in range(60))
    task = _task(
        tmp_path,
        'name = "t"\nkind = "classification"\nfiles = {train = "a.csv", test = "b.csv"}',
        a__csv=rows,
        b__csv=rows,
    )
    data = load(task, tmp_path)
    assert data.evaluation == ("test",)
    assert data.names["dev"] == "cut of train (5 %, seed 0)"


def test_a_saved_definition_is_the_task_again_without_its_files(tmp_path: Path) -> None:
    toml = GOOD + 'columns.label = ["mood", "label"]\nbetas = [0.9, 0.98]\nclip = 0\n'
    task = _task(tmp_path, toml, a__csv="text,mood\na,x\nb,y\n")
    assert task.is_own
    saved = json.loads(json.dumps(task.saved))
    assert saved["files"] == {"train": "a.csv", "dev": "a.csv"}
    again = task_of(decode(saved), Path("elsewhere"))
    assert again.decisive() == task.decisive()
    assert again.shown == task.shown == ("accuracy", "macro_f1", "f1", "matthews")
    assert (task.settings.betas, task.settings.clip) == ((0.9, 0.98), None)


def test_a_benchmark_writes_a_task_for_each_language_once() -> None:
    benchmark = tomllib.loads("""
        kind = "pair"
        labels = ["entailment", "contradiction"]
        metrics = ["accuracy"]
        selection = "accuracy"
        folders = ["XNLI", "{folder}/{lang}"]
        fill = {folder = "download/{task}"}
        columns = {text = "a", id = []}
        papers.old = {epochs = 2, batch = 8}
        hub = {dataset = "xtreme", config = "{task}.{lang}"}

        [[tasks]]
        name = "xnli-{lang}"
        fill = {task = "xnli"}
        languages = ["ko", "sw"]
        files = {train = "train-en.tsv", test = ["test-{lang}.tsv", "{lang}.jsonl"]}
        columns = {pair = "b"}
        papers.old = {batch = 4}

        [[tasks]]
        name = "other"
        fill = {task = "other"}
        language = "en"
        files = {train = [["a.tsv"], ["b.tsv"]]}
        hub = {}
    """)
    korean, swahili, other = (task_of(decode(table)) for table in catalogue.tables(benchmark))
    assert (korean.name, korean.languages) == ("xnli-ko", ("ko",))
    assert swahili.splits["test"].parts == (("test-sw.tsv", "sw.jsonl"),)
    assert swahili.folders == ("XNLI", "download/xnli/sw")
    assert swahili.table.hub is not None
    assert swahili.table.hub.config == "xnli.sw"
    old = swahili.alternatives["old"]
    assert (old.epochs, old.batch) == (2, 4)
    assert swahili.evaluation == ("test",)
    assert other.splits["train"].parts == (("a.tsv",), ("b.tsv",))
    assert other.table.hub is None
    assert other.evaluation == ("dev",)


GOOD = 'name = "t"\nkind = "classification"\nfiles = {train = "a.csv", dev = "a.csv"}\n'
ROWS = "text,label\na,x\nb,y\n"


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        (GOOD.replace('"classification"', '"ranking"'), "kind: must be"),
        (GOOD + "epoch = 3\n", "epoch: no such key. Did you mean 'epochs'?"),
        (GOOD + 'metrics = ["bleu"]\n', "'bleu'; a classification task can have accuracy"),
        (GOOD + 'selection = "f2"\n', "selection is 'f2'; its metrics give accuracy"),
        (GOOD.replace('"classification"', '"parsing"'), "a task of your own is classification"),
        (GOOD + 'labels = ["x"]\n', "has 1 labels"),
        (GOOD + 'labels = ["x", "y", "z"]\nmetrics = ["f1"]\n', "take macro_f1"),
    ],
)
def test_a_table_that_makes_no_task_is_one_line(toml: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        _task(tmp_path, toml, a__csv=ROWS)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("text,label\na,x\nb,z\n", "line 3: unknown label 'z'; allowed: x, y"),
        (
            "text,mood\na,x\n",
            "line 2: no column 'label'; it has 'text', 'mood'; of a test set without answers the "
            'task says hidden = ["test"]',
        ),
        ('text,label\n"a,x\n', "broken CSV"),
    ],
)
def test_a_broken_file_of_a_user_is_one_line_with_the_place(
    rows: str, says: str, tmp_path: Path
) -> None:
    task = _task(tmp_path, GOOD + 'labels = ["x", "y"]\n', a__csv=rows)
    with pytest.raises(DataError) as caught:
        load(task, tmp_path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"text": "글 \\ud83d", "label": "a"}', "line 2: broken JSON: .*surrogates not allowed"),
        ('{"text": %s, "label": "a"}' % ("[" * 100_000), "line 2: broken JSON"),
        ('{"text": %s, "label": "a"}' % ("9" * 5_000), "line 2: broken JSON: Exceeds the limit"),
    ],
)
def test_json_that_no_tokenizer_takes_is_one_line(row: str, says: str, tmp_path: Path) -> None:
    toml = 'name = "t"\nkind = "classification"\nfiles.train = "train.jsonl"\n'
    with pytest.raises(DataError, match=says) as caught:
        _task(tmp_path, toml, **{"train.jsonl": f'{{"text": "글", "label": "b"}}\n{row}\n'})
    assert "\n" not in str(caught.value)


def test_labels_come_from_every_training_file_that_is_there(tmp_path: Path) -> None:
    good = 'name = "mood"\nkind = "classification"\ncolumns.label = "mood"\n'
    with gzip.open(tmp_path / "c.csv.gz", "wt") as file:
        file.write("text,mood\nx,low\n")
    files = {"a__csv": "text,mood\nx,up\n", "b__csv": "text,mood\nx,down\n"}
    spelt = 'files = {train = [["absent.csv", "a.csv"], ["b.csv"], ["c.csv"]], dev = "a.csv"}'
    assert _task(tmp_path, good + spelt, **files).labels == ("down", "low", "up")
    with pytest.raises(DataError, match=r"absent\.csv: cannot be read"):
        _task(tmp_path, good + 'files = {train = "absent.csv", dev = "a.csv"}')


WITH_LABELS = 'name = "t"\nkind = "classification"\nfiles = {train = "a.csv", dev = "a.csv"}\n'


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ('evaluation = ["tset"]', "evaluation: \\[files\\] has no 'tset'"),
        ('labels = ["p", "q", "p"]', "a label is there twice"),
        ("header = 5", "must be a list of names"),
        ('only = {text = "["}', "is no regular expression"),
    ],
)
def test_what_a_table_cannot_mean_is_one_line(toml: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=named) as caught:
        _task(tmp_path, WITH_LABELS + toml, a__csv="text,label\nx,p\ny,q\n")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_column_that_is_there_twice_is_refused(ending: str, tmp_path: Path) -> None:
    rows = "text,label,text\nx,p,other\ny,q,other\n".replace(",", "," if ending == "csv" else "\t")
    with pytest.raises(DataError, match="line 1: column 'text' is there twice"):
        _task(tmp_path, WITH_LABELS.replace("csv", ending), **{f"a.{ending}": rows})


def test_a_test_set_without_answers_is_said_in_the_task_and_the_error_says_how(
    tmp_path: Path,
) -> None:
    toml = 'name = "t"\nkind = "classification"\n'
    toml += 'files = {train = "a.csv", dev = "a.csv", test = "b.csv"}\n'
    task = _task(tmp_path, toml, a__csv="text,label\nx,no\ny,yes\n", b__csv="text,label\nx,\n")
    with pytest.raises(DataError, match=r'has no answer.*the task says hidden = \["test"\]'):
        load(task, tmp_path)
    assert load(_task(tmp_path, toml + 'hidden = ["test"]\n'), tmp_path).evaluation == ("dev",)


def test_tags_of_characters_can_be_scored_as_klue_does_and_those_of_words_cannot(
    tmp_path: Path,
) -> None:
    toml = 'name = "t"\nkind = "tagging"\nmetrics = ["characters"]\n'
    files = 'files = {train = "t.tsv", dev = "t.tsv"}\n'
    text = "## a\t<가:PS> 나\n가\tB-PS\n \tO\n나\tO\n"
    task = _task(tmp_path, f'{toml}format = "klue-ner"\n{files}', t__tsv=text)
    assert (task.selection, _perfect(task, tmp_path)["character_macro_f1_no_o"]) == (
        "character_macro_f1",
        100,
    )
    with pytest.raises(RecipeError, match="'characters'; a tagging task can have entities"):
        _task(tmp_path, toml + files)


def test_two_files_where_one_would_be_read_are_refused(tmp_path: Path) -> None:
    head = 'name = "mood"\nkind = "classification"\n'
    files = dict.fromkeys(("a__csv", "b__csv"), "text,label\nx,up\ny,down\n")
    task = _task(tmp_path, head + 'files = {train = ["a.csv", "b.csv"], dev = "a.csv"}', **files)
    with pytest.raises(RecipeError, match=r'files\.train.*write \[\["a\.csv"\], \["b\.csv"\]\]'):
        load(task, tmp_path)
    task = _task(tmp_path, head + 'files = {train = [["a.csv"], ["b.csv"]], dev = "a.csv"}')
    assert len(load(task, tmp_path).splits["train"]) == 4
