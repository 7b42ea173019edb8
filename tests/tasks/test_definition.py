"""A user's own files make a task; what of it decides a result; cuts, predictions, texts."""

import json
import tomllib
from pathlib import Path

import pytest
from right_answers import gold

from lingraft.corpus.cleaning.steps import SentenceFilter
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Corpus
from lingraft.rundir import fingerprint
from lingraft.tasks import TASKS, Task, cut, load
from lingraft.tasks.decoding import decode, task_of
from lingraft.tasks.examples import (
    TaggedExample,
    TextExample,
    align,
    load as load_predictions,
    save,
)
from lingraft.tasks.held_out import decontaminated, tasks_of, texts


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


@pytest.mark.parametrize("labels", ["", 'labels = ["B-PER", "O"]\n'])
def test_spellings_of_a_tag_are_one_label(labels: str, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ann B-PERSON\nsleeps O\n\nBob B-PER\n", "utf-8")
    toml = 'name = "t"\nkind = "tagging"\nfiles = {train = "a.conll", dev = "a.conll"}\n'
    task = _task(tmp_path, toml + labels + 'aliases = {B-PERSON = "B-PER"}\n')
    assert task.labels == ("B-PER", "O")
    tags = [example.tags for example in load(task, tmp_path).splits["dev"]]
    assert tags == [("B-PER", "O"), ("B-PER",)]


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
    with pytest.raises(RecipeError, match=says):
        _task(tmp_path, toml, a__csv="text,label\na,x\nb,y\n")


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
    with pytest.raises(DataError, match=says):
        load(task, tmp_path)


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


BENCHMARKS = {
    "klue-nli": "94ce2f34a1cc4567",
    "korsts": "21edc4c6a64f506a",
    "klue-ner": "2a7ed5ba663dfe25",
    "klue-re": "d0278bbe3f8a97c5",
    "klue-dp": "c853057698468825",
    "xquad-en": "e7677315db697d51",
    "udpos-en": "78f5a3801aae807c",
    "own": "2713c7cf48765ea9",
}
"""One of each kind, and the fingerprint that its decisive part has had since November 2026."""
OWN = {"name": "own", "kind": "translation", "files": {"train": "pairs.tsv"}}
OWN |= {"codes": ["en_XX", "ko_KR"], "epochs": 3, "clip": 0.0}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_fingerprint_of_a_task_is_that_of_kept_results(name: str) -> None:
    task = TASKS.get(name) or task_of(decode(OWN), Path())
    assert fingerprint(task.decisive()) == BENCHMARKS[name]


def test_numbers_of_a_paper_s_settings_stay_as_they_were_written() -> None:
    papers = task_of(decode(OWN), Path()).alternatives
    assert json.dumps(papers["veco2021"].warmup) == "16000"  # a float has another fingerprint
    assert json.dumps(TASKS["xquad-en"].alternatives["xtreme2020"].warmup) == "500.0"


OFFICIAL = Path(__file__).parent / "official"


MANY = [TextExample(str(i), f"premise {i // 3}", f"hypothesis {i}", "neutral") for i in range(300)]


def test_a_cut_keeps_documents_together_and_every_example_once() -> None:
    parts = cut(MANY, {"train": 0.8, "dev": 0.1, "test": 0.1}, seed=3)
    sizes = {name: len(part) for name, part in parts.items()}
    assert sizes == {"train": 240, "dev": 30, "test": 30}
    texts = [{example.text for example in part} for part in parts.values()]
    assert len(texts[0] | texts[1] | texts[2]) == sum(map(len, texts))
    assert sorted(int(e.id) for part in parts.values() for e in part) == list(range(300))


def test_a_cut_depends_on_the_seed_alone() -> None:
    shares = {"train": 0.5, "dev": 0.5}
    assert cut(MANY, shares, 1) == cut(MANY, shares, 1)
    assert cut(MANY, shares, 1) != cut(MANY, shares, 2)
    order = [example.id for example in cut(MANY[::-1], shares, 1)["train"]]
    assert sorted(order) == sorted(example.id for example in cut(MANY, shares, 1)["train"])


def test_a_task_without_a_development_set_gets_a_cut_of_train(tmp_path: Path) -> None:
    for split, n in (("train", 100), ("test", 20)):
        rows = ["id\tdocument\tlabel", *(f"{i}\ttext {i}\t{i % 2}" for i in range(n))]
        (tmp_path / f"ratings_{split}.txt").write_text("\n".join(rows), encoding="utf-8")
    data = load(TASKS["nsmc"], tmp_path)
    sizes = {name: len(part) for name, part in data.splits.items()}
    assert sizes == {"train": 95, "dev": 5, "test": 20}
    assert data.names["dev"] == "cut of train (5 %, seed 0)"


@pytest.mark.parametrize("name", ["klue-nli", "klue-sts", "klue-ner", "klue-dp", "klue-mrc"])
def test_saved_predictions_come_back_equal(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    predictions = [gold(e, task.labels) for e in load(task, OFFICIAL).splits["dev"]]
    save(tmp_path / "predictions.jsonl", predictions)
    assert load_predictions(tmp_path / "predictions.jsonl") == predictions


def test_predictions_are_matched_by_id_and_none_may_be_missing() -> None:
    task = TASKS["klue-nli"]
    examples = load(task, OFFICIAL).splits["dev"]
    predictions = [gold(example) for example in examples]
    assert align(examples, predictions[::-1]) == predictions
    with pytest.raises(DataError, match="klue-nli-v1_dev_00000: no prediction"):
        align(examples, predictions[1:])
    with pytest.raises(DataError, match="it has no example"):
        align(examples[1:], predictions)
    questions = load(TASKS["klue-mrc"], OFFICIAL).splits["dev"]  # of which none is wrong
    assert {one.text for one in align(questions, [])} == {None}


SECTION = Corpus(text=("ko.txt",))


@pytest.mark.parametrize("name", ["klue-nli", "klue-ner", "klue-mrc", "klue-re"])
def test_a_sentence_of_a_held_out_split_is_dropped_whatever_form_its_file_has(name, tmp_path):
    found = texts(TASKS[name], OFFICIAL)
    assert found
    assert not any("<" in text and ":PS>" in text for text in found)
    section = decontaminated(SECTION, [TASKS[name]], OFFICIAL, tmp_path)
    judge = SentenceFilter(section, "ko")
    asked = [s for text in found for s in judge.split(text) if len(s.split()) >= 4]
    assert asked
    codes = judge.codes([*asked, "이 문장은 어느 평가에도 나오지 않는 문장입니다."])
    assert codes.tolist() == [codes[0]] * len(asked) + [0]
    assert codes[0] != 0


def own_task(folder, test="test.csv"):
    folder.mkdir()
    (folder / "train.csv").write_text("text,label\nlearnt,a\nlearnt too,b\n")
    (folder / "test.csv").write_text("text,label\njudged by this,a\n")
    path = folder / "mood.toml"
    path.write_text(
        'name = "mood"\nkind = "classification"\n'
        f'files = {{train = "train.csv", test = "{test}"}}\n'
    )
    return str(path)


def test_a_test_file_that_is_not_there_is_no_reason_to_take_the_training_file(tmp_path):
    (task,) = tasks_of([own_task(tmp_path / "a", test="tset.csv")])
    with pytest.raises(DataError, match=r"mood: no such file \(test: .*tset.csv\)"):
        texts(task, None)
