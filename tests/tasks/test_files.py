"""Every task reads its official format; gold scored against itself is 100; broken files say so."""

from __future__ import annotations

import gzip
import json
import logging
import lzma
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
from lingraft.tasks.examples import SpanExample, TextExample, labelled
from lingraft.tasks.reading import Row
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


def test_every_task_says_which_files_it_wants_and_where_they_come_from(tmp_path: Path) -> None:
    for task in TASKS.values():
        with pytest.raises(DataError) as caught:
            find(task, tmp_path)
        message = str(caught.value)
        assert task.files_from in message
        parts = [part for split in task.labelled_splits for part in task.splits[split].parts]
        assert all(spelling in message for part in parts for spelling in part), task.name
        assert "\n" not in message


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


def test_quotation_marks_are_text_in_tsv() -> None:
    examples = load(TASKS["korsts"], OFFICIAL).splits["train"]
    assert examples[0].text == '남자가 "기타를 친다.'
    assert len(examples) == 5


def test_a_character_number_sign_is_not_a_comment_in_ner() -> None:
    examples = load(TASKS["klue-ner"], OFFICIAL).splits["dev"]
    assert examples[3].text == "C# 책을 샀다."
    assert examples[3].id == "klue-ner-v1_dev_00003-made"


def test_plausible_answers_of_an_unanswerable_question_are_not_answers() -> None:
    example = load(TASKS["klue-mrc"], OFFICIAL).splits["dev"][2]
    assert isinstance(example, SpanExample)
    assert example.answers == ()
    assert example.question_type == 3


def test_cut_rows_of_qqp_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("lingraft"), "propagate", True)
    caplog.set_level(logging.INFO, "lingraft")
    path = tmp_path / "train.tsv"
    whole = (OFFICIAL / "glue_data/QQP/train.tsv").read_text(encoding="utf-8")
    path.write_text(whole + "9\t18\t19\tcut in the\n", encoding="utf-8")
    assert len(TASKS["glue-qqp"].read(path)) == 5
    assert "1 rows" in caplog.text


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_are_found_and_read(suffix: str, pack: object, tmp_path: Path) -> None:
    rows = [{"sentence": f"text {i}", "label": i % 2} for i in range(5)]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (tmp_path / f"dev.jsonl{suffix}").write_bytes(pack(text))  # type: ignore[operator]
    task = TASKS["glue-sst2"]
    assert len(task.read(find(task, tmp_path, ["dev"])["dev"][0])) == 5


def test_rows_of_the_hub_become_the_same_examples_as_files() -> None:
    task = TASKS["klue-sts"]
    rows = [
        Row("row 1", 0, {"guid": "a", "sentence1": "x", "sentence2": "y",
                         "labels": {"label": 3.0, "real-label": 2.95, "binary-label": 1}})
    ]  # fmt: skip
    assert task.from_rows(rows, "hub") == [TextExample("a", "x", "y", None, 2.95)]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("glue-cola", {"sentence": "a", "label": "acceptable"}, "1"),
        ("glue-wnli", {"sentence1": "a", "sentence2": "b", "label": "not_entailment"}, "0"),
        ("glue-rte", {"sentence1": "a", "sentence2": "b", "label": "not_entailment"},
         "not_entailment"),
        ("nsmc", {"id": "1", "document": "a", "label": "positive"}, "1"),
        ("khs", {"comments": "a", "hate": "offensive"}, "offensive"),
    ],
)  # fmt: skip
def test_the_names_of_labels_on_the_hub_are_known(
    name: str, values: dict[str, str], expected: str
) -> None:
    (example,) = TASKS[name].from_rows([Row("row 1", 0, values)], "hub")
    assert isinstance(example, TextExample)
    assert example.label == expected


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_an_id_of_nothing_is_none(nothing: float | None) -> None:
    values = {"id": nothing, "document": "a", "label": "positive"}
    rows = [Row(f"row {number}", number, values) for number in (3, 4)]
    assert [example.id for example in TASKS["nsmc"].from_rows(rows, "hub")] == ["3", "4"]


def test_hidden_answers_are_read_and_cannot_be_scored(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"sentence": "a", "label": -1}\n', encoding="utf-8")
    task = TASKS["glue-sst2"]
    examples = task.read(path, hidden=True)
    with pytest.raises(DataError, match="no gold answer"):
        task.score(examples, [])


@pytest.mark.parametrize(
    ("name", "file", "change", "says"),
    [
        ("klue-nli", "klue-nli-v1.1_dev.json", ('"hypothesis"', '"hypo"'),
         "element 1: no column 'hypothesis'"),
        ("klue-nli", "klue-nli-v1.1_dev.json", ('"gold_label": "neutral"', '"gold_label": "x"'),
         "element 3: unknown label 'x'; allowed: entailment, contradiction, neutral"),
        ("klue-nli", "klue-nli-v1.1_dev.json", ("klue-nli-v1_dev_00001", "klue-nli-v1_dev_00000"),
         "element 2: the id 'klue-nli-v1_dev_00000' occurs twice"),
        ("klue-ynat", "ynat-v1.1_dev.json", ("},", "}"), "line 13: broken JSON"),
        ("klue-sts", "klue-sts-v1.1_dev.json", ("4.857142857142857", "48.5"),
         "element 1: score '48.5' is not a number from 0 to 5"),
        ("klue-ner", "klue-ner-v1.1_dev.tsv", ("수\tI-PS", "수I-PS"),
         "line 8: is '수I-PS'; it must be one character, a tab and its tag"),
        ("klue-re", "klue-re-v1.1_dev.json", ('"start_idx": 0', '"start_idx": 40'),
         "element 1: subject_entity 40–2 is outside the sentence"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("\tNP_SBJ", ""), "line 7: has 5 columns"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("NNG+JKS\t2", "NNG+JKS\t1"),
         "head '1' of word 1 is not another word"),
        ("klue-mrc", "klue-mrc-v1.1_dev.json", ('"answer_start": 8', '"answer_start": 9'),
         "data 1, paragraph 1, question 1: answer '2015년' is not at 9"),
        ("korsts", "sts-dev.tsv", ("\t4.800", ""), "line 2: has 6 columns, the header 7"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_line_with_the_place(
    name: str, file: str, change: tuple[str, str], says: str, tmp_path: Path
) -> None:
    text = next(OFFICIAL.rglob(file)).read_text(encoding="utf-8")
    assert change[0] in text
    path = tmp_path / file
    path.write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        TASKS[name].read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "\n", "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"]
)
def test_an_empty_split_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "sts-dev.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"sts-dev\.tsv: holds no examples for korsts"):
        TASKS["korsts"].read(path)


def test_a_file_that_is_not_utf_8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "sts-dev.tsv"
    path.write_bytes(b"a\tb\nc\td\n" + "가".encode("cp949") + b"\te\n")
    with pytest.raises(DataError, match="line 3: is not UTF-8"):
        TASKS["korsts"].read(path)


def test_a_file_of_a_table_program_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dev.csv"
    path.write_text('sentence;label\n"a; b";1\n', encoding="utf-16")
    assert TASKS["glue-sst2"].read(path) == [TextExample("0", "a; b", None, "1")]


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
