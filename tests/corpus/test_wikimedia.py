import gzip
import json
from pathlib import Path

import pytest

from lingraft.corpus.readers import wikimedia
from lingraft.corpus.readers.documents import Source
from lingraft.corpus.readers.lines import Reading
from lingraft.errors import DataError
from lingraft.recipe import Corpus


def lines(*rows: object) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


CIRRUS = lines(
    {"index": {"_type": "page", "_id": "5"}},
    {"title": "지미", "namespace": 0, "wiki": "kowiki", "text": "지미는 사람이다."},
    {"index": {"_type": "page", "_id": "6"}},
    {"title": "틀:가", "namespace": 10, "wiki": "kowiki", "text": "틀"},
    {"index": {"_type": "page", "_id": "7"}},
    {"title": "수학", "namespace": 0, "wiki": "kowiki", "page_id": 9, "text": "수학은 학문이다."},
    {"index": {"_type": "page", "_id": "8"}},
    {"title": "빈", "namespace": 0, "wiki": "kowiki"},
)
HTML = """<html><body><div class="hatnote">다른 뜻</div><table class="infobox"><tr><td>표</td></tr>
</table><p>수학은 학문이다.<sup class="reference">[1]</sup></p><h2>역사</h2><p>오래되었다.</p>
<ol class="references"><li>책</li></ol></body></html>"""
ENTERPRISE = lines(
    {"name": "수학", "identifier": 9, "is_part_of": {"identifier": "kowiki"},
     "namespace": {"identifier": 0}, "article_body": {"html": HTML}},
    {"name": "틀", "identifier": 1, "namespace": {"identifier": 10}, "article_body": {"html": "x"}},
    {"name": "넘겨", "identifier": 2, "article_body":
     {"html": '<html><body><link rel="mw:PageProp/redirect" href="./수학"/></body></html>'}},
    {"name": "본문 없음", "identifier": 3, "article_body": {"wikitext": "x"}},
)  # fmt: skip


def read(path: Path) -> tuple[list[tuple[object, str]], dict[str, int]]:
    reading = Reading()
    found = list(wikimedia.read(Source(path.name, path), Corpus(text=(str(path),)), reading))
    return found, dict(reading.dropped)


def test_a_cirrus_dump_gives_its_articles_with_wiki_and_page_id(tmp_path: Path) -> None:
    path = tmp_path / "kowiki-20260101-cirrussearch-content.json.gz"
    path.write_bytes(gzip.compress(CIRRUS))
    found, dropped = read(path)
    assert found == [("kowiki:5", "지미는 사람이다."), ("kowiki:9", "수학은 학문이다.")]
    assert dropped == {wikimedia.OTHER_NAMESPACE: 1, wikimedia.NO_TEXT_FIELD: 1}


def test_a_snapshot_gives_running_text_without_tables_and_references(tmp_path: Path) -> None:
    pytest.importorskip("resiliparse")
    path = tmp_path / "kowiki_namespace_0.ndjson"
    path.write_bytes(ENTERPRISE)
    [(identifier, text)], dropped = read(path)
    assert identifier == "kowiki:9"
    assert [line for line in text.splitlines() if line] == [
        "수학은 학문이다.",
        "역사",
        "오래되었다.",
    ]
    assert dropped == {
        wikimedia.OTHER_NAMESPACE: 1,
        wikimedia.REDIRECT: 1,
        wikimedia.NO_TEXT_FIELD: 1,
    }


def test_a_broken_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(CIRRUS[:-30])
    found, dropped = read(path)
    assert len(found) == 2
    assert dropped[wikimedia.BROKEN_JSON] == 1


def test_a_file_without_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("가\n나\n")
    with pytest.raises(DataError, match="none of its 2 lines"):
        read(path)


@pytest.mark.parametrize(
    ("data", "expected"),
    [(CIRRUS, True), (ENTERPRISE, True), (lines({"id": 1, "text": "가"}), False), (b"", False)],
)
def test_dumps_are_told_from_other_json_lines(
    tmp_path: Path, data: bytes, *, expected: bool
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    assert wikimedia.recognises(path) is expected
