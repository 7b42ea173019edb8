import hashlib
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lingraft.corpus import stage
from lingraft.corpus.cleaning import clean
from lingraft.corpus.engine import job
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.recipe import Corpus

WORDS = (
    "사람", "학교", "바다", "하늘", "책상", "나무", "구름", "시간", "마음", "노래", "도시", "강물",
)  # fmt: skip


def document(number: int, sentences: int = 3) -> str:
    generator = random.Random(number)
    lines = [" ".join(generator.choices(WORDS, k=6)) + f" {number}." for _ in range(sentences)]
    return " ".join(lines)


def corpus_file(folder: Path, documents: int = 300, name: str = "ko.txt") -> Path:
    path = folder / name
    path.write_text("".join(document(number) + "\n" for number in range(documents)))
    return path


def prepare(folder: Path, text: Path | str, language: str = "ko", **changes: Any) -> dict[str, Any]:
    folder.mkdir()
    section = Corpus(text=(str(text),), **({"valid": 0.1, "test": 0.1} | changes))
    return stage.prepare(section, language, folder)


def sentences(folder: Path, split: str) -> list[str]:
    return (folder / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]


def documents(folder: Path, split: str) -> list[list[str]]:
    lines = sentences(folder, split)
    starts = np.load(folder / f"{split}.documents.npy")
    assert starts.dtype == np.int64
    return [part.tolist() for part in np.split(np.array(lines), starts[1:])]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_every_sentence_is_kept_or_counted_as_dropped(tmp_path: Path):
    path = corpus_file(tmp_path)
    with path.open("ab") as file:
        file.write("English only.\n굿\n12345 67890\n깨진 \ufffd 글자\n\n".encode())
        file.write(document(5).encode() + b"\n\xff\xff\n" + b"x" * 11_000_000 + b"\n")
        file.write(("긴" * 90 + "\n").encode())
    result = prepare(tmp_path / "out", path, max_characters=80)
    of_documents = ("broken UTF-8", "empty", "line too long")
    of_sentences = ("damaged characters", "few letters", "too long", "too short", "wrong script")
    once = dict.fromkeys((*of_documents, *of_sentences), 1)
    assert result["dropped"] == once | {"duplicate": 3}
    kept = sum(counts["sentences"] for counts in result["splits"].values())
    assert result["sentences_in"] == kept + 5 + 3
    assert result["documents"] == 309
    for split in SPLITS:
        lines = sentences(tmp_path / "out", split)
        sizes = (len(documents(tmp_path / "out", split)), len(lines), sum(map(len, lines)))
        names = ("documents", "sentences", "characters")
        assert result["splits"][split] == dict(zip(names, sizes, strict=True))


NEAR = {"near_duplicates": True, "max_train_sentences": 400, "document": "block"}


@pytest.mark.parametrize(
    ("changes", "digest"), [({}, "68b11305e08c5def"), (NEAR, "dac49b8aaa6633e8")]
)
def test_the_bytes_are_those_that_every_version_gave(
    tmp_path: Path, changes: dict[str, Any], digest: str
):
    """A change of these numbers changes every model; raise `rundir.FORMAT` with them."""
    texts = tmp_path / "texts"
    texts.mkdir()
    corpus_file(texts, 300)
    rows = [{"id": n, "text": document(n, 5)} for n in range(250, 400)]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (texts / "ko.jsonl").write_text(lines, encoding="utf-8")
    prepare(tmp_path / "out", texts, **changes)
    found = hashlib.sha256()
    for name, data in contents(tmp_path / "out").items():
        found.update(name.encode() + data)
    assert found.hexdigest()[:16] == digest


def test_a_subset_keeps_order_documents_and_the_held_out_text(tmp_path: Path):
    path = corpus_file(tmp_path)
    prepare(tmp_path / "all", path)
    result = prepare(tmp_path / "some", path, max_train_sentences=100)
    kept = set(sentences(tmp_path / "some", "train"))
    whole = documents(tmp_path / "all", "train")
    expected = [[sentence for sentence in parts if sentence in kept] for parts in whole]
    assert documents(tmp_path / "some", "train") == list(filter(None, expected))
    assert result["subset"] == {"not in the subset": sum(map(len, whole)) - 100}
    for split in ("valid", "test"):
        assert sentences(tmp_path / "some", split) == sentences(tmp_path / "all", split)
    assert len(contents(tmp_path / "some")) == 6
    prepare(tmp_path / "fewer", path, max_train_sentences=50)
    assert set(sentences(tmp_path / "fewer", "train")) < kept


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("An English sentence.\n" * 9, "9 of 9 sentences are not in Hang/Hani.*corpus.scripts"),
        *((text, r"is left \(\d documents.*dropped: \d") for text in ("\n\n\n", "1234\n", "굿\n")),
    ],
)
def test_input_that_leaves_nothing_is_refused_with_the_counts(tmp_path: Path, text: str, says: str):
    path = tmp_path / "empty.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        prepare(tmp_path / "out", path)


def test_lone_surrogates_in_json_do_no_harm(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    rows = [{"id": "\ud800", "text": f"\ud83d {document(n)}"} for n in range(5)]
    rows += [{"id": n, "text": document(n)} for n in range(100, 200)]
    path.write_text("\n".join(map(json.dumps, rows)))
    result = prepare(tmp_path / "out", path)
    assert result["sentences_in"] == 315
    assert result["dropped"] == {clean.DAMAGED: 5}


def test_a_file_whose_name_is_not_utf8_is_one_line(tmp_path: Path):
    """As an archive from Windows is unpacked to."""
    path = tmp_path / os.fsdecode("글.txt".encode("euc-kr"))
    try:
        path.write_text("글\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    with pytest.raises(DataError, match=r"\?\?\.txt: the name is not UTF-8; rename it"):
        stage.prepare(Corpus(text=(str(tmp_path),)), "ko", tmp_path)


def many_lines(number: int) -> str:
    """A document with a heading that all have, code, a table of digits, and running text."""
    words = random.Random(number).choices(WORDS, k=30)
    lines = ["사용법", f"x{number} = {{1, 2}};", "}", f"{number} 17 2024", "|---|---|"]
    text = [" ".join(words[:15]), *lines, "사용법", "사용법", f"{' '.join(words[15:])} {number}"]
    return "\n".join(text)


def test_whole_documents_lose_no_line(tmp_path: Path):
    """Line by line 419 of 540 would go."""
    texts = {str(number): many_lines(number) for number in range(60)}
    texts["digits"] = "\n".join(f"{n} 12 345" for n in range(9))
    texts["copy"] = texts["7"].replace("사용법", "쓰는 법")
    rows = [{"id": name, "text": text} for name, text in texts.items()]
    (tmp_path / "ko.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = {"split_sentences": False, "whole_documents": True}
    out, fewer = tmp_path / "out", tmp_path / "fewer"
    result = prepare(out, tmp_path / "ko.jsonl", **whole)
    found = {"\n".join(lines) for split in SPLITS for lines in documents(out, split)}
    assert {name for name, text in texts.items() if text not in found} == {"digits", "7"}
    assert found < {*texts.values()}
    assert result["dropped"] == {clean.FEW_LETTERS: 9, clean.DUPLICATE: 9}
    prepare(fewer, tmp_path / "ko.jsonl", **whole, max_train_sentences=100)
    assert list(map(len, documents(fewer, "train"))) == [9] * 11
    section = Corpus(text=(str(tmp_path / "ko.jsonl"),), valid=0.1, test=0.1, **whole)
    job.make(section, "ko", tmp_path / "made", job.JobSettings())
    prepare(tmp_path / "taken", tmp_path / "made", **whole, max_train_sentences=100)
    assert documents(tmp_path / "taken", "train") == documents(fewer, "train")


@pytest.mark.parametrize("whole", [False, True])
def test_sentences_that_words_are_missing_in_go_and_are_counted(tmp_path: Path, whole: bool):
    pages = "".join(
        f"<page><title>{n}</title><ns>0</ns><id>{n}</id><revision><id>1</id><text>{document(n)} "
        f"그는 {{{{날짜|{n}}}}} 서울에서 태어났다. 책은 많다 {n}.\n</text></revision></page>"
        for n in range(60)
    )
    dump = tmp_path / "kowiki.xml"
    dump.write_text(f"<mediawiki><siteinfo><dbname>kowiki</dbname></siteinfo>{pages}</mediawiki>")
    result = prepare(tmp_path / "out", dump, split_sentences=not whole, whole_documents=whole)
    assert result["dropped"] == {clean.WORDS_MISSING: 60}
    found = [text for split in SPLITS for text in documents(tmp_path / "out", split)]
    assert {" ".join(text) for text in found} == {
        f"{document(n)} 책은 많다 {n}." for n in range(60)
    }
    assert {len(text) for text in found} == {1 if whole else 4}
    assert sum(1 for _ in stage.read_clean([dump], Corpus(text=(str(dump),)), "ko")) == 240


RUMANIAN = ["mâine", "școală", "şcoală", "țară", "ţară", "pământ", "pâine", "apă", "și", "şi"]


def test_letters_and_scripts_that_are_kept_and_should_not_be_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    rng = random.Random(0)
    texts = [" ".join(rng.choices(RUMANIAN, k=12)) + "." for _ in range(200)]
    texts += [f"Ово је реченица број {n}, а ово није." for n in range(400)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(texts))
    scripts, letters = prepare(tmp_path / "out", path, "ro")["notices"]
    assert re.match(
        r"67% of the .* dropped as not in Latn.*scripts = \[\"Latn\", \"Cyrl\"\]", scripts
    )
    assert re.search(r"[șş] \(U\+0\w+\) beside [șş] \(U\+0\w+\) \(\d\d%, as \w+", letters)
    assert {f"corpus: {scripts}", f"corpus: {letters}"} == {*caplog.messages}
