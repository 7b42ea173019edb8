"""The files of XTREME's fine-tuned tasks: official ones, XTREME's own copies, and broken ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lingraft.errors import DataError
from lingraft.tasks import TASKS, find
from lingraft.tasks.examples import TaggedExample, TextExample
from lingraft.tasks.splits import read_split
from lingraft.tasks.words import RANKS, fused

if TYPE_CHECKING:
    from lingraft.tasks.examples import Example

OFFICIAL = Path(__file__).parent / "official"


def official(name: str, split: str) -> list[Example]:
    return read_split(TASKS[name], split, find(TASKS[name], OFFICIAL, [split])[split])


def test_a_file_of_all_languages_gives_those_of_the_task() -> None:
    german, english = (official(f"xnli-{language}", "test") for language in ("de", "en"))
    assert isinstance(german[2], TextExample)
    assert isinstance(english[2], TextExample)
    assert german[2].text == 'Sie kaufte "drei Äpfel.'
    assert english[2].text == 'She bought "three apples.'
    assert [one.id for one in german] == ["1", "2", "3", "4", "5"]
    train = official("xnli-de", "train")
    assert [one.label for one in train if isinstance(one, TextExample)][1] == "contradiction"
    questions = official("tydiqa-ko", "train")
    assert [one.id for one in questions] == [
        "korean-0-0", "korean-0-1", "korean-0-2", "korean-1-0", "korean-1-1",
    ]  # fmt: skip


def test_multi_word_tokens_stand_as_they_are_written() -> None:
    first, _, third, _, last = official("udpos-fr", "dev")
    assert isinstance(first, TaggedExample)
    # `de` and `le` are equally near to the root (both hang on `chat`): ADP is before DET
    assert first.units == ("Il", "parle", "du", "chat", ".")
    assert first.tags == ("PRON", "VERB", "ADP", "NOUN", "PUNCT")
    assert isinstance(third, TaggedExample)
    assert third.units == ("Aux", "armes", "!")  # without the empty node 3.1
    assert third.tags == ("ADP", "NOUN", "PUNCT")
    assert isinstance(last, TaggedExample)
    assert last.units == ("10000", "pas")


def node(upos: str, head: int, more: str = "_") -> list[str]:
    return ["", upos.lower(), "", upos, "", "", str(head), "", more, ""]


def test_the_node_nearest_to_the_root_heads_a_span() -> None:
    nodes = {1: node("DET", 2), 2: node("VERB", 0), 3: node("PRON", 2)}
    assert fused(nodes, [(range(1, 4), "x")], RANKS[""].split()) == [("x", "VERB")]
    # an enhanced head adds a node above: DET, with 3 and 0, is now deeper than PRON
    tied = {1: node("DET", 4), 2: node("PRON", 4), 4: node("NOUN", 0)}
    span, ranks = [(range(1, 3), "x")], ["DET", "PRON"]
    assert fused(tied, span, ranks)[0][1] == "DET"
    deeper = tied | {1: node("DET", 4, "2:x")}
    assert fused(deeper, span, ranks)[0][1] == "PRON"


def test_equally_near_nodes_are_ranked_by_part_of_speech_of_the_language() -> None:
    nodes = {1: node("NOUN", 3), 2: node("AUX", 3), 3: node("ADJ", 0)}
    span = [(range(1, 3), "x")]
    assert fused(nodes, span, RANKS[""].split())[0][1] == "NOUN"
    assert fused(nodes, span, RANKS["fr"].split())[0][1] == "AUX"
    # what a list lacks comes last (XTREME's converter stops)
    assert fused(nodes, span, RANKS["es"].split())[0][1] == "AUX"


def _conllu(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "de_made-ud-dev.conllu"
    path.write_text("".join(line.replace(" ", "\t") + "\n" for line in lines), encoding="utf-8")
    return path


def test_sentences_without_text_are_left_out_and_joiners_go(tmp_path: Path) -> None:
    hidden = [f"{n} _ _ NOUN _ _ {n - 1} dep _ _" for n in range(1, 4)]
    some = [
        "1 a\u200cb _ NOUN _ _ 0 root _ _",
        "2 _ _ DET _ _ 1 dep _ _",
        "3 c _ DET _ _ 1 dep _ _",
    ]
    path = _conllu(tmp_path, *hidden, "", *some, "", hidden[0], "")
    (only,) = TASKS["udpos-de"].read(path)
    assert isinstance(only, TaggedExample)
    assert only.units == ("ab", "_", "c")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 a NOUN", "line 1: is no line of CoNLL-U"),
        ("1-2 du _ _ _ _ _ _ _ _", "line 1: not all words of the multi-word token 'du' are there"),
        ("1 a _ NAME _ _ 0 root _ _", "unknown label 'NAME'; allowed: ADJ, ADP"),
    ],
)
def test_a_broken_treebank_is_one_line_with_the_place(line: str, says: str, tmp_path: Path) -> None:
    path = _conllu(tmp_path, line, "")
    with pytest.raises(DataError, match=re.escape(says)):
        TASKS["udpos-de"].read(path)


def test_the_language_goes_from_the_words_of_a_file_in_which_all_have_it(tmp_path: Path) -> None:
    sentence = official("panx-de", "test")[1]
    assert isinstance(sentence, TaggedExample)
    assert sentence.units == ("Rhein", ":", "Fluss")
    path = tmp_path / "dev-de.tsv"
    path.write_text("de:x\tO\nRhein\tB-LOC\n", encoding="utf-8")
    (only,) = TASKS["panx-de"].read(path)
    assert isinstance(only, TaggedExample)
    assert only.units == ("de:x", "Rhein")


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("xnli-de", "test-de.tsv", "Es regnet.\tEs ist nass.\n"),
        ("pawsx-de", "test-de.tsv", "Es regnet.\tEs ist nass.\n"),
        ("udpos-de", "test-de.tsv", "Es\nregnet\n\nJa\n"),
        ("panx-de", "test-de.tsv", "Rhein\n\nKöln\n"),
        ("xquad-de", "de.jsonl", '{"id": "1", "question": "Was?", "context": "Eisen rostet.", '
         '"answers": [{"text": "", "answer_start": 0}]}'),
    ],
)  # fmt: skip
def test_a_copy_of_xtremes_folder_hides_its_labels(
    name: str, file: str, text: str, tmp_path: Path
) -> None:
    task = TASKS[name]
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_split(task, "test", find(task, tmp_path, ["test"])["test"])
    message = str(caught.value)
    assert "has no answer" in message
    assert f"hidden labels, those with labels: {task.files_from}" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["xnli", "pawsx"])
def test_xtremes_own_training_files_have_no_header(name: str, tmp_path: Path) -> None:
    label = {"xnli": "neutral", "pawsx": "1"}[name]
    (tmp_path / "dev-de.tsv").write_text(f'"Ja"\tEs ist nass.\t{label}\n', encoding="utf-8")
    (only,) = TASKS[f"{name}-de"].read(tmp_path / "dev-de.tsv")
    assert only == TextExample("0", '"Ja"', "Es ist nass.", label)


def test_ids_that_xtreme_shortened_are_made_distinct(tmp_path: Path) -> None:
    values = {"id": "1", "question": "Was?", "context": "Ja"}
    row = json.dumps(values | {"answers": [{"text": "Ja", "answer_start": 0}]})
    path = tmp_path / "train-de.jsonl"
    path.write_text(f"{row}\n{row}\n", encoding="utf-8")
    assert [one.id for one in TASKS["tydiqa-ko"].read(path)] == ["1", "1#1"]
    with pytest.raises(DataError, match="occurs twice"):
        TASKS["xquad-de"].read(path)
