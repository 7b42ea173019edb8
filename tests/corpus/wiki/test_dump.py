import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from lingraft.corpus.readers.layout import TextSource
from lingraft.corpus.readers.lines import Counts
from lingraft.corpus.readers.wiki import dump
from lingraft.errors import DataError
from lingraft.recipe import Corpus

HEADER = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="ko">\n'
    "<siteinfo><sitename>위키백과</sitename><dbname>kowiki</dbname><namespaces>\n"
    '<namespace key="0" case="first-letter" />\n'
    '<namespace key="1" case="first-letter">토론</namespace>\n'
    '<namespace key="6" case="first-letter">파일</namespace></namespaces></siteinfo>\n'
)
FOOTER = "</mediawiki>\n"
PACKERS = {"": bytes, ".bz2": bz2.compress, ".gz": gzip.compress, ".xz": lzma.compress}


def page(title: str, *texts: str, number: int = 1, ns: str = "<ns>0</ns>", more: str = "") -> str:
    revisions = "".join(
        f"<revision><id>{1000 * number + n}</id><model>wikitext</model>"
        f'<text xml:space="preserve">{escape(one)}</text></revision>'
        for n, one in enumerate(texts)
    )
    return f"<page><title>{title}</title>{ns}<id>{number}</id>{more}{revisions}</page>\n"


ARTICLES = [f"[[글]] {n}은 길다.\n" + f"{n} 다음 문장이다. " * 40 for n in range(40)]
TEXTS = [f"글 {n}은 길다.\n" + " ".join([f"{n} 다음 문장이다."] * 40) for n in range(40)]
PIECES = [HEADER, *(page("제목", one, number=n) for n, one in enumerate(ARTICLES, 1)), FOOTER]


def written(folder: Path, data: bytes | str, name: str = "kowiki.xml") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(path: Path, span: tuple[int, int] | None = None) -> tuple[list[Any], Counts, str]:
    reading, found = Counts(), []
    try:
        for one in dump.wiki_dump(TextSource(path.name, path, span), Corpus(text=("x",)), reading):
            found.append(one)  # noqa: PERF402 (what came before the error counts)
    except DataError as error:
        return found, reading, str(error)
    return found, reading, ""


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_dump_is_read_to_its_last_page_and_a_cut_is_told(tmp_path, suffix):
    data = PACKERS[suffix]("".join(PIECES).encode())
    path = written(tmp_path, data, f"kowiki.xml{suffix}")
    found, reading, error = read(path)
    assert (error, reading.dropped) == ("", {})
    assert found == [(f"kowiki:{n}", text) for n, text in enumerate(TEXTS, 1)]
    assert "cut short" in read(written(tmp_path, data[:-30], path.name))[2]


def test_what_is_no_article_is_dropped_and_counted(tmp_path):
    data = [
        page("가", "글 하나"),
        page("토론:가", "말", ns="<ns>1</ns>"),
        page("토론:나", "말", ns=""),
        page("넘김", "#넘겨주기 [[가]]", more='<redirect title="가" />'),
        page("Old", "  #REDIRECT [[가]]"),
        page("빈", "{{상자}}\n{|\n| x\n|}"),
        page("뜻", "* [[가]]\n{{동음이의}}"),
        page("괄호", "[[가|" * 9_000),
        page("자료", "{}").replace("wikitext</model>", "json</model>"),
        page("크다", "가" * 2_000_000),
        page("깨진", "글").replace("</title>", "<title>"),
        page("열린", "글").replace("</page>", ""),
        page("이름", "글 &x;").replace("&amp;", "&"),
        page("옛", "가" * 9_000, "나" * 9_000, "새 글", number=7),
        page("나", "글 둘"),
    ]
    found, reading, error = read(written(tmp_path, HEADER + "".join(data) + FOOTER))
    assert error == ""
    assert [text for _, text in found] == ["글 하나", "새 글", "글 둘"]
    assert reading.dropped == {
        dump.OTHER_NAMESPACE: 2,
        dump.REDIRECT: 2,
        dump.EMPTY_PAGE: 1,
        dump.DISAMBIGUATION: 1,
        "mark-up that is not closed": 1,
        dump.NOT_WIKITEXT: 1,
        dump.TOO_LARGE: 1,
        dump.BROKEN_XML: 3,
    }


@pytest.mark.parametrize("pages_per_stream", [1, 7])
def test_spans_of_a_multistream_dump_give_every_page_once(tmp_path, pages_per_stream):
    body = [PIECES[at : at + pages_per_stream] for at in range(1, 41, pages_per_stream)]
    streams = [HEADER, *map("".join, body), FOOTER]
    data = b"".join(bz2.compress(one.encode()) for one in streams)
    path = written(tmp_path, data, "kowiki.xml.bz2")
    cut = dump.spans(path, 1)
    assert len(cut) == len(body) + 1
    assert (cut[0][0], cut[-1][1]) == (0, len(data))
    assert [text for span in cut for _, text in read(path, span)[0]] == TEXTS


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is no MediaWiki export"),
        ("<rss><page></page></rss>", "is no MediaWiki export"),
        ("<mediawiki", "is no MediaWiki export"),
        ("<mediawiki><siteinfo></siteinfo>", "is cut short"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_line(tmp_path, data, message):
    found, _, error = read(written(tmp_path, data))
    assert found == []
    assert message in error
