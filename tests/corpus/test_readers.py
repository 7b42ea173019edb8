import bz2
import gzip
import itertools
import json
import logging
import lzma
import os
import random
import sys
from pathlib import Path

import pytest

from lingraft.corpus import inputs
from lingraft.corpus.readers import documents as readers
from lingraft.corpus.readers.columns import NO_TEXT_FIELD, NOT_WHERE
from lingraft.corpus.readers.documents import Document
from lingraft.corpus.readers.lines import BROKEN_JSON, BROKEN_UTF8, EMPTY, LINE_TOO_LONG, Reading
from lingraft.errors import DataError
from lingraft.recipe import Corpus

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
zstandard = pytest.importorskip("zstandard")

ROWS = [
    {"id": "a", "text": "첫 문서"},
    {"id": "b", "text": "둘째 문서\n두 줄"},
    {"id": 3, "text": "끝"},
]
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
EXPECTED = [Document(str(row["id"]), str(row["text"])) for row in ROWS]
ZSTD = zstandard.ZstdCompressor().compress


def read(path: Path | str, **changes: object) -> tuple[list[Document], Reading]:
    section = Corpus(text=(str(path),), **changes)
    reading = Reading()
    documents = [
        document
        for source in readers.resolve(section.text)
        for document in readers.read(source, section, reading)
    ]
    return documents, reading


def error_of(path: Path) -> str | None:
    try:
        read(path)
    except DataError as error:
        return str(error)
    return None


def texts(path: Path | str, **changes: object) -> list[str]:
    return [document.text for document in read(path, **changes)[0]]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", JSONL),
        ("a.json", JSONL),
        ("A.JSONL", JSONL),
        ("a.jsonl.gz", gzip.compress(JSONL, mtime=0)),
        ("a.jsonl.xz", lzma.compress(JSONL)),
        ("a.jsonl.zst", ZSTD(JSONL)),
        ("a.jsonl.bz2", bz2.compress(JSONL)),
        ("a.ndjson", JSONL),
        ("a.b.json.gz", gzip.compress(JSONL, mtime=0)),
    ],
)
def test_json_lines_are_read_from(tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    documents, reading = read(tmp_path / name)
    assert documents == EXPECTED
    assert reading.documents == 3
    assert not reading.dropped


@pytest.mark.parametrize("kind", [arrow.string(), arrow.large_string(), "dictionary"])
def test_parquet_is_read_from_columns_of(tmp_path: Path, kind: object):
    column = arrow.array([row["text"] for row in ROWS], None if kind == "dictionary" else kind)
    column = column.dictionary_encode() if kind == "dictionary" else column
    table = arrow.table(
        {"id": [str(row["id"]) for row in ROWS], "text": column, "other": [1, 2, 3]}
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    assert read(tmp_path / "a.parquet")[0] == EXPECTED


def test_a_directory_dataset_is_read_through_datasets(tmp_path: Path):
    pytest.importorskip("datasets")
    (tmp_path / "train.jsonl").write_bytes(JSONL.replace(b'"id": 3', b'"id": "3"'))
    assert read(f"hub:{tmp_path}")[0] == EXPECTED


def test_a_hub_dataset_that_cannot_be_read_is_one_line(tmp_path: Path):
    pytest.importorskip("datasets")
    (tmp_path / "train.jsonl").write_bytes(JSONL)
    with pytest.raises(DataError, match=r"cannot be read .*#SPLIT") as caught:
        read(f"hub:{tmp_path}#nowhere")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("hub:a/b", ("a/b", None, None, "train")),
        ("hub:a/b:ko#test", ("a/b", "ko", None, "test")),
        ("hub:a/b@v1.0", ("a/b", None, "v1.0", "train")),
        ("hub:a/b:ko@refs/convert/parquet", ("a/b", "ko", "refs/convert/parquet", "train")),
    ],
)
def test_a_hub_dataset_is_asked_for_by_name_configuration_and_revision(monkeypatch, name, asked):
    datasets = pytest.importorskip("datasets")

    def load_dataset(dataset, config, *, revision, split, **_):
        return [{"text": f"{(dataset, config, revision, split)}"}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    (document,), _ = read(name)
    assert document.text == str(asked)
    assert inputs.texts([name]) == [name]


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("b.parquet", "pyarrow", "data"),
        ("b.txt.zst", "zstandard", "data"),
        ("b.xml.bz2", "mwparserfromhell", "wiki"),
        ("b.html", "resiliparse", "web"),
        ("b.md", "markdown_it", "web"),
        ("b.warc.gz", "fastwarc", "web"),
        ("hub:x/y", "datasets", "data"),
    ],
)
def test_a_missing_package_is_told_before_the_first_of_many_files_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
):
    (tmp_path / "a.txt").write_text("text\n")
    if not name.startswith("hub:"):
        (tmp_path / name).write_bytes(b"x\n")
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as caught:
        readers.resolve(["a.txt", name])
    package = module.replace("_", "-")
    assert str(caught.value) == (
        f'{name}: needs the package {package}; run: pip install "lingraft[{extra}]"'
    )
    assert len(inputs.inputs(["a.txt", name])) == len(inputs.texts(["a.txt", name])) == 2


def test_a_document_too_long_to_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readers, "MAX_DOCUMENT_CHARACTERS", 10)
    (tmp_path / "a.txt").write_text("abcdef\nghijkl\n")
    with pytest.raises(DataError, match='use "line"'):
        read(tmp_path / "a.txt", document="file")


def test_a_directory_is_read_in_sorted_order_without_hidden_and_unknown_files(tmp_path: Path):
    for name in ("b/2.txt", "b/1.txt", "a.txt", ".hidden.txt", ".git/x.txt", "readme.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert texts(tmp_path) == ["a.txt", "b/1.txt", "b/2.txt"]


ABOUT = ("README.md", "readme.txt", "SOURCE.md", "SOURCES.txt", "LICENSE.txt", "COPYING.md",
         "NOTICE.txt", "CHANGELOG-2024.md", "sub/LICENCE.md", "README.txt.gz")  # fmt: skip


def test_files_about_a_folder_are_left_out_and_told_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    texts = ("a.txt.xz", "b.txt.xz", "notes.md", "source.txt")
    for name in (*texts, *ABOUT):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"text\n")
    read_names = {Path(source.name).name for source in readers.resolve([tmp_path])}
    assert read_names == {"a.txt.xz", "b.txt.xz", "notes.md", "source.txt"}
    with caplog.at_level(logging.INFO, logger="lingraft"):
        readers.tell([tmp_path, "hub:a/b", tmp_path / "a.txt.xz"])
    told = caplog.messages
    assert len(told) == 2
    assert told[0] == (f"{tmp_path}: 2 .txt.xz, 1 .md, 1 .txt are read")
    assert "left out as no text: CHANGELOG-2024.md, COPYING.md" in told[1]
    assert "(10 in all; name a file to have it read)" in told[1]


def test_a_corpus_that_was_made_in_a_folder_of_text_is_not_read_as_text(tmp_path: Path):
    (tmp_path / "a.txt").write_text("text\n")
    for name in (".lock", "work/plan.json", "train/00000.jsonl", "report.html"):
        (tmp_path / "ko" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ko" / name).write_text("{}\n")
    assert [source.name for source in readers.resolve([tmp_path])] == [str(tmp_path / "a.txt")]
    with pytest.raises(DataError, match="holds a corpus that is not finished"):
        readers.resolve([tmp_path / "ko"])
    (tmp_path / "ko" / "corpus.json").write_text('{\n "fingerprint": "x"}\n')
    assert [source.name for source in readers.resolve([tmp_path])] == [str(tmp_path / "a.txt")]
    assert [source.name for source in readers.resolve([tmp_path / "ko"])] == [
        str(tmp_path / "ko" / "train" / "00000.jsonl")
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wikimedia/wikipedia", "written hub:wikimedia/wikipedia"),
        ("a.docx", r"unknown kind of file; allowed: .txt .jsonl .ndjson .json .csv .parquet .xml"),
        ("b.parquet.gz", "unknown kind of file"),
        ("c.gz", "unknown kind of file"),
        ("folder", "no text in this directory"),
        ("pipe.txt", "no such file or directory"),
        ("hub:", "name the dataset"),
        ("hub:a/b@", "a revision behind an @"),
    ],
)
def test_what_cannot_be_resolved_is_a_data_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
):
    monkeypatch.chdir(tmp_path)
    for file in ("a.docx", "b.parquet.gz", "c.gz"):
        (tmp_path / file).write_text("x")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match=message):
        readers.resolve([name])


def test_bad_json_lines_are_counted_by_reason(tmp_path: Path):
    lines = [
        b'{"text": "good"}',
        b'{"text": ',
        b"[" * 100_000,
        b'{"text": null}',
        b'["a list"]',
        b'{"text": "\xff"}',
        b"",
        b'{"text": " "}',
        b'{"text": "' + b"x" * 200_000 + b'"}',
        b'{"text": ' + b"1" * 5_000 + b"}",
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    documents, reading = read(tmp_path / "a.jsonl", max_line_bytes=150_000)
    assert [document.text for document in documents] == ["good"]
    assert reading.documents == len(lines)
    assert reading.dropped == {
        BROKEN_JSON: 3,
        NO_TEXT_FIELD: 2,
        BROKEN_UTF8: 1,
        EMPTY: 2,
        LINE_TOO_LONG: 1,
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('[\n {"text": "x"},\n {"text": "y"}\n]\n', "is one JSON array; write one object a line"),
        ("plain\ntext\n", "none of its 2 lines is JSON"),
        ('{"content": "x", "n": 1}\n', "its fields are content, n; set corpus.text_column"),
        ('[{"text": "x"}]\n', "is one JSON array; write one object a line"),
    ],
)
def test_a_json_file_without_any_text_says_what_it_holds(tmp_path: Path, data: str, message: str):
    (tmp_path / "a.json").write_text(data)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.json")


LANGUAGES = [("Haus", "de"), ("집", "ko"), ("Baum", "de"), ("tree", None)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_only_rows_with_the_wanted_values_are_read_and_the_others_counted(
    tmp_path: Path, name: str
):
    rows = [{"text": text, "lang": lang} for text, lang in LANGUAGES]
    if name == "a.jsonl":
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name).write_text(lines)
    else:
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / name)
    documents, reading = read(tmp_path / name, where={"lang": "de"})
    assert [document.text for document in documents] == ["Haus", "Baum"]
    assert reading.dropped == {NOT_WHERE: 2}
    assert read(tmp_path / name, where={"lang": "fr"})[0] == []


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize("field", ["lang", "language"])
def test_rows_in_several_languages_that_are_read_as_one_are_told_once(
    tmp_path: Path, name: str, field: str, caplog: pytest.LogCaptureFixture
):
    rows = [{"text": text, field: lang} for text, lang in [*LANGUAGES, ("arbre", "fr")]]
    if name == "a.jsonl":
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / name)
    assert len(read(tmp_path / name, where={field: "de"})[0]) == 2
    assert not caplog.records
    assert len(read(tmp_path / name)[0]) == 5
    (warning,) = caplog.messages
    assert f'{name}: rows with {field} = "de" and "ko" are read as text of one' in warning
    assert f'corpus.where = {{{field} = "de"}}' in warning


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "hub"])
def test_fields_inside_fields_are_named_with_a_point(tmp_path: Path, name: str):
    rows = [
        {"doc": {"body": {"text": text}, "n": f"d{n}"}, "meta": {"lang": lang}}
        for n, (text, lang) in enumerate(LANGUAGES)
    ]
    if name == "a.parquet":
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / name)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / ("train.jsonl" if name == "hub" else name)).write_text(lines)
    place = f"hub:{tmp_path}" if name == "hub" else tmp_path / name
    columns = {"text_column": "doc.body.text", "id_column": "doc.n"}
    documents, _ = read(place, where={"meta.lang": "de"}, **columns)
    assert [(one.id, one.text) for one in documents] == [("d0", "Haus"), ("d2", "Baum")]
    with pytest.raises(DataError, match=r"no text in the field 'doc.title'; its fields are doc"):
        read(place, text_column="doc.title")


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (b'{"content": "x"}\n', "set corpus.text_column"),
        (b"\xb0\xed\xbe\xe7\n", "are not UTF-8"),
        (b"no JSON\n", "none of its"),
    ],
)
def test_a_bad_stretch_of_a_file_is_no_reason_to_refuse_it_but_its_beginning_is(
    tmp_path: Path, odd: bytes, message: str
):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "x"}\n' * 50 + odd * 400 + b'{"text": "x"}\n' * 50)
    size = path.stat().st_size
    ends = [0, *range(400, size, 400), size]
    found = []
    for start, end in itertools.pairwise(ends):
        source = readers.Source("a.jsonl", path, (start, end))
        found += readers.read(source, Corpus(text=(str(path),)), Reading())
    assert len(found) == 100
    path.write_bytes(odd * 400 + b'{"text": "x"}\n' * 50)
    with pytest.raises(DataError, match=message):
        list(
            readers.read(
                readers.Source("a.jsonl", path, (0, 400)), Corpus(text=(str(path),)), Reading()
            )
        )


def test_what_stands_beside_the_text_of_a_parquet_row_may_be_damaged(tmp_path: Path):
    def strings(*values: bytes) -> object:
        raw = arrow.array(values, arrow.binary())
        return arrow.Array.from_buffers(arrow.string(), len(raw), raw.buffers())

    table = {"text": strings(b"one", b"two"), "id": strings(b"a", b"\xff")}
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
    assert [one.id for one in read(tmp_path / "a.parquet")[0]] == ["a", "\ufffd"]


def test_parquet_drops_are_counted_by_reason(tmp_path: Path):
    raw = arrow.array([b"good", None, b"\xff\xfe", b"", b"x" * 1_001], arrow.binary())
    column = arrow.Array.from_buffers(arrow.string(), len(raw), raw.buffers())
    parquet.write_table(arrow.table({"text": column}), tmp_path / "a.parquet")
    documents, reading = read(tmp_path / "a.parquet", max_line_bytes=1_000)
    assert [document.text for document in documents] == ["good"]
    assert reading.dropped == {NO_TEXT_FIELD: 1, BROKEN_UTF8: 1, EMPTY: 1, LINE_TOO_LONG: 1}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"content": ["x"]}, "its fields are content"),
        ({"text": [1, 2]}, "no text in the field 'text'"),
    ],
)
def test_a_parquet_file_without_a_text_column_is_refused(
    tmp_path: Path, table: dict[str, list[object]], message: str
):
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "suffix", [".txt", ".jsonl", ".parquet", ".txt.gz", ".txt.xz", ".jsonl.zst"]
)
def test_random_bytes_never_raise_anything_but_data_errors(tmp_path: Path, suffix: str):
    generator = random.Random(suffix)
    starts = {".gz": b"\x1f\x8b\x08\0", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
    start = starts.get(Path(suffix).suffix if suffix.count(".") > 1 else "", b"")
    path = tmp_path / f"fuzz{suffix}"
    for trial in range(60):
        length = generator.choice([0, 1, 5, 50, 3_000])
        noise = generator.randbytes(length)
        if trial % 3 == 0:
            noise = bytes(
                generator.choice(b'{}[]":,text \n\r\t\x00\xff\xed\xa0\x80') for _ in noise
            )
        path.write_bytes((start if trial % 2 else b"") + noise)
        message = error_of(path)
        assert message is None or ("\n" not in message and "fuzz" in message)


def test_links_in_a_folder_lead_neither_in_circles_nor_into_nothing(tmp_path: Path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("가")
    (tmp_path / "in" / "deep" / "loop").symlink_to(tmp_path / "in", target_is_directory=True)
    (tmp_path / "in" / "deep" / "gone.txt").symlink_to(tmp_path / "nothing")
    (tmp_path / "in" / "again.txt").symlink_to(tmp_path / "in" / "a.txt")
    assert [source.name for source in readers.resolve([tmp_path / "in"])] == [
        str(tmp_path / "in" / "a.txt")
    ]


@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_csv_is_read_by_its_fields(tmp_path: Path, comma: str):
    rows = [["id", "text", "lang"], ["a", f'"말{comma} 그리고 ""말""\n둘째 줄"', "ko"],
            ["b", "이웃", "de"], ["c"]]  # fmt: skip
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(comma.join, rows)).encode())
    documents, reading = read(path)
    assert documents == [Document("a", f'말{comma} 그리고 "말"\n둘째 줄'), Document("b", "이웃")]
    assert reading.dropped == {NO_TEXT_FIELD: 1}
    assert [one.id for one in read(path, where={"lang": "de"})[0]] == ["b"]
    with pytest.raises(DataError, match=r"its fields are id, text, lang; set corpus.text_column"):
        read(path, text_column="body")
    path.write_text('text\n"nie geschlossen\n')
    with pytest.raises(DataError, match=r"a\.csv: is no CSV .*unexpected end"):
        read(path)


def test_of_what_is_left_out_while_reading_three_examples_are_kept(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}\n' + b"{broken\n" * 5 + b"\xff!\n")
    samples = read(tmp_path / "a.jsonl")[1].samples
    assert samples == {BROKEN_JSON: ["{broken"] * 3, BROKEN_UTF8: ["\ufffd!"]}
