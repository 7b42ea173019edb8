"""The files of XTREME's fine-tuned tasks: official ones, XTREME's own copies, and broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lingraft.errors import DataError
from lingraft.tasks import TASKS, find
from lingraft.tasks.examples import TaggedExample, TextExample, labelled
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


def _conllu(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "de_made-ud-dev.conllu"
    path.write_text("".join(line.replace(" ", "\t") + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("line", ["1 a NOUN", "1-2 du _ _ _ _ _ _ _ _", "x a _ DET _ _ 0 r _ _"])
def test_a_broken_treebank_is_one_line_with_the_place(line: str, tmp_path: Path) -> None:
    path = _conllu(tmp_path, line, "")
    with pytest.raises(DataError, match=r"de_made-ud-dev\.conllu: ") as caught:
        TASKS["udpos-de"].read(path)
    assert "\n" not in str(caught.value)


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
    files = find(task, tmp_path, ["test"])["test"]
    with pytest.raises(DataError, match="has no answer; files with answers are from http"):
        read_split(task, "test", files)
    assert not any(map(labelled, read_split(task, "test", files, unanswered=True)))


def test_ids_that_xtreme_shortened_are_made_distinct(tmp_path: Path) -> None:
    values = {"id": "1", "question": "Was?", "context": "Ja"}
    row = json.dumps(values | {"answers": [{"text": "Ja", "answer_start": 0}]})
    path = tmp_path / "train-de.jsonl"
    path.write_text(f"{row}\n{row}\n", encoding="utf-8")
    assert [one.id for one in TASKS["tydiqa-ko"].read(path)] == ["1", "1#1"]
