"""Every task reads its official format; gold scored against itself is 100; broken files say so."""

from __future__ import annotations

import gzip
import json
import logging
import lzma
import re
import shutil
from pathlib import Path

import pytest
from official_files import HERE
from right_answers import gold

from lingraft.errors import DataError
from lingraft.tasks import TASKS, find, load
from lingraft.tasks.examples import RelationExample, SpanExample, TextExample, labelled
from lingraft.tasks.reading import Row, jsonl_rows
from lingraft.tasks.splits import read_split
from lingraft.tasks.text import translated

OFFICIAL = Path(__file__).parent / "official"
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


def test_the_papers_settings_are_the_defaults() -> None:
    rows = {
        name: (s.epochs, s.batch, s.learning_rate, s.warmup, s.max_length, s.patience)
        for name, s in ((name, task.settings) for name, task in TASKS.items())
    }
    assert rows["klue-ynat"] == (4, 32, 5e-5, 0.1, 128, None)
    assert rows["klue-sts"] == (4, 32, 5e-5, 0.1, 128, 5)
    assert rows["klue-nli"] == (5, 32, 5e-5, 0.1, 128, 5)
    assert rows["klue-ner"] == (3, 32, 5e-5, 0.0, 510, 5)
    assert rows["klue-re"] == (3, 32, 5e-5, 0.1, 256, None)
    assert rows["klue-dp"] == (10, 32, 5e-5, 0.1, 256, None)
    assert rows["klue-mrc"] == (5, 16, 3e-5, 0.0, 510, None)
    for name, rate, epochs in (
        ("pawsx-ko", 1e-5, 15),
        ("korsts", 5e-5, 10),
        ("kqp", 1e-5, 10),
        ("khs", 5e-5, 10),
    ):
        assert rows[name][:4] == (epochs, 32, rate, 0.06)
    assert TASKS["glue-mnli"].settings.classifier_dropout == 0.3
    assert TASKS["glue-cola"].settings.classifier_dropout == 0.05


def test_quotation_marks_are_text_in_tsv() -> None:
    examples = load(TASKS["korsts"], OFFICIAL).splits["train"]
    assert examples[0].text == '남자가 "기타를 친다.'
    assert len(examples) == 5


def test_a_character_number_sign_is_not_a_comment_in_ner() -> None:
    examples = load(TASKS["klue-ner"], OFFICIAL).splits["dev"]
    assert examples[3].text == "C# 책을 샀다."
    assert examples[3].id == "klue-ner-v1_dev_00003-made"


def test_end_idx_of_relations_is_inclusive() -> None:
    example = load(TASKS["klue-re"], OFFICIAL).splits["dev"][3]
    assert isinstance(example, RelationExample)
    assert example.text[example.object.start : example.object.end] == "박철"


def test_plausible_answers_of_an_unanswerable_question_are_not_answers() -> None:
    example = load(TASKS["klue-mrc"], OFFICIAL).splits["dev"][2]
    assert isinstance(example, SpanExample)
    assert example.answers == ()
    assert example.question_type == 3


def test_labels_of_question_pairs_are_0_for_the_same() -> None:
    example = load(TASKS["kqp"], OFFICIAL).splits["dev"][0]
    assert isinstance(example, TextExample)
    assert example.label == "0"


def test_kornli_trains_on_both_of_its_files_with_distinct_ids() -> None:
    train = load(TASKS["kornli"], OFFICIAL).splits["train"]
    assert len(train) == 10
    assert len({example.id for example in train}) == 10


def test_untranslated_rows_of_pawsx_stay_unless_they_are_dropped() -> None:
    dev = load(TASKS["pawsx-ko"], OFFICIAL).splits["dev"]
    assert len(dev) == 5
    kept = translated(example for example in dev if isinstance(example, TextExample))
    assert [example.id for example in kept] == ["1", "2", "4", "5"]


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


def test_tags_of_the_hub_need_no_id() -> None:
    values = {"chars": ["가", " ", "나"], "tags": ["B-PS", "I-PS", "I-PS"]}
    (example,) = TASKS["klue-ner"].from_rows([Row("row 8", 7, values)], "hub")
    assert example.id == "7"


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


def _broken(name: str, file: str, tmp_path: Path, change: tuple[str, str], times: int = 1) -> str:
    """What the task says of its official file with one change made."""
    source = next(OFFICIAL.rglob(file))
    text = source.read_text(encoding="utf-8")
    assert change[0] in text
    path = tmp_path / file
    path.write_text(text.replace(*change, times), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        TASKS[name].read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message.removeprefix(str(path))


@pytest.mark.parametrize(
    ("name", "file", "change", "times", "says"),
    [
        ("klue-nli", "klue-nli-v1.1_dev.json", ('"hypothesis"', '"hypo"'), 1,
         "element 1: no column 'hypothesis'"),
        ("klue-nli", "klue-nli-v1.1_dev.json", ('"gold_label": "neutral"', '"gold_label": "x"'), 1,
         "element 3: unknown label 'x'; allowed: entailment, contradiction, neutral"),
        ("klue-nli", "klue-nli-v1.1_dev.json", ('"gold_label"', '"g"'), 1, "has no answer"),
        ("klue-nli", "klue-nli-v1.1_dev.json", ("klue-nli-v1_dev_00001", "klue-nli-v1_dev_00000"),
         1, "element 2: the id 'klue-nli-v1_dev_00000' occurs twice"),
        ("klue-ynat", "ynat-v1.1_dev.json", ("},", "}"), 1, "line 13: broken JSON"),
        ("klue-sts", "klue-sts-v1.1_dev.json", ("4.857142857142857", "48.5"), 1,
         "element 1: score '48.5' is not a number from 0 to 5"),
        ("klue-ner", "klue-ner-v1.1_dev.tsv", ("수\tI-PS", "수\tI-XX"), 1,
         "line 8: unknown tag 'I-XX'"),
        ("klue-ner", "klue-ner-v1.1_dev.tsv", ("수\tI-PS", "수I-PS"), 1,
         "line 8: is '수I-PS'; it must be one character, a tab and its tag"),
        ("klue-re", "klue-re-v1.1_dev.json", ('"start_idx": 0', '"start_idx": 40'), 1,
         "element 1: subject_entity 40–2 is outside the sentence"),
        ("klue-re", "klue-re-v1.1_dev.json", ('"word": "김하늘"', '"word": "김하"'), 1,
         "element 1: subject_entity is '김하', but the sentence has '김하늘' there"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("NNG+JKS\t2\tNP_SBJ", "NNG+JKS\t7\tNP_SBJ"), 1,
         "head '7' is not a whole number from 0 to 2"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("\tNP_SBJ", ""), 1, "line 7: has 5 columns"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("\tNP_SBJ", "\tSBJ"), 1, "unknown relation 'SBJ'"),
        ("klue-dp", "klue-dp-v1.1_dev.tsv", ("NNG+JKS\t2", "NNG+JKS\t1"), 1, "is its own head"),
        ("klue-mrc", "klue-mrc-v1.1_dev.json", ('"answer_start": 8', '"answer_start": 9'), 1,
         "data 1, paragraph 1, question 1: answer '2015년' is not at 9"),
        ("klue-mrc", "klue-mrc-v1.1_dev.json", ('"answer_start": 8', '"answer_start": 700'), 1,
         "answer '2015년' at 700 is outside the passage"),
        ("klue-mrc", "klue-mrc-v1.1_dev.json", ('"qas"', '"questions"'), 1, "a list 'qas'"),
        ("korsts", "sts-dev.tsv", ("\t4.800", ""), 1, "line 2: has 6 columns, the header 7"),
        ("korsts", "sts-dev.tsv", ("sentence2", "second"), 1, "line 2: no column 'sentence2'"),
        ("khs", "train.tsv", ("none\n", "nice\n"), 1, "line 2: unknown label 'nice'"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_line_with_the_place(
    name: str, file: str, change: tuple[str, str], times: int, says: str, tmp_path: Path
) -> None:
    if name == "khs":
        shutil.copy(OFFICIAL / "korean-hate-speech/labeled/train.tsv", tmp_path / "khs.tsv")
        path = tmp_path / "khs.tsv"
        path.write_text(path.read_text(encoding="utf-8").replace(*change, times), encoding="utf-8")
        with pytest.raises(DataError, match=re.escape(says)):
            TASKS[name].read(path)
        return
    assert says in _broken(name, file, tmp_path, change, times)


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


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_damaged_archive_is_an_error(suffix: str, tmp_path: Path) -> None:
    pack = {".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    path = tmp_path / f"dev.jsonl{suffix}"
    path.write_bytes(pack(b'{"sentence": "a", "label": 1}\n' * 50)[:-9])
    with pytest.raises(DataError, match="cut short or damaged"):
        list(jsonl_rows(path))
