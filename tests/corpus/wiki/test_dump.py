import bz2
import gzip
import lzma
import random
from collections import Counter
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from corpus_jobs import corpus, made, settings, text

from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.readers.wiki import dump, pages, spans
from lingraft.errors import DataError

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


def read(path: Path, page_bytes: int = dump.PAGE_BYTES) -> tuple[list[Any], Reading, str]:
    reading, found = Reading(), []
    try:
        for one in pages(path, reading, page_bytes):
            found.append(one)  # noqa: PERF402 (what came before the error counts)
    except DataError as error:
        return found, reading, str(error)
    return found, reading, ""


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_dump_is_read_to_its_last_page_and_a_cut_is_told(tmp_path, suffix, encoding):
    data = PACKERS[suffix]("".join(PIECES).encode(encoding))
    path = written(tmp_path, data, f"kowiki.xml{suffix}")
    found, reading, error = read(path)
    assert (error, reading.dropped) == ("", {})
    assert found == [
        (f"kowiki:{n}", text, {"title": "제목", "revision": 1000 * n})
        for n, text in enumerate(TEXTS, 1)
    ]
    assert "is cut short" in read(written(tmp_path, data[:-30], path.name))[2]


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
        page("크다", "가" * 50_000),
        page("깨진", "글").replace("</title>", "<title>"),
        page("열린", "글").replace("</page>", ""),
        page("이름", "글 &x;").replace("&amp;", "&"),
        page("옛", "가" * 9_000, "나" * 9_000, "새 글", number=7),
        page("나", "글 둘"),
    ]
    found, reading, error = read(written(tmp_path, HEADER + "".join(data) + FOOTER), 100_000)
    assert error == ""
    assert [(one[1], one[2]["revision"]) for one in found] == [
        ("글 하나", 1000), ("새 글", 7002), ("글 둘", 1000)
    ]  # fmt: skip
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


def test_a_gigantic_page_is_stepped_over_without_being_held(tmp_path):
    gigantic = page("크다", "가" * 2_000_000)
    history = page("옛", "가" * 1_000, "새 글")
    path = written(tmp_path, HEADER + gigantic + history + FOOTER)
    found, reading, _ = read(path, 10_000)
    assert ([one[1] for one in found], reading.dropped) == (["새 글"], {dump.TOO_LARGE: 1})


@pytest.mark.parametrize("pages_per_stream", [1, 7])
def test_spans_of_a_multistream_dump_give_every_page_once(tmp_path, pages_per_stream):
    body = [PIECES[at : at + pages_per_stream] for at in range(1, 41, pages_per_stream)]
    streams = [HEADER, *map("".join, body), FOOTER]
    data = b"".join(bz2.compress(one.encode()) for one in streams)
    path = written(tmp_path, data, "kowiki.xml.bz2")
    cut = spans(path, 1)
    assert len(cut) == len(body) + 1
    assert (cut[0][0], cut[-1][1]) == (0, len(data))
    assert [one[1] for span in cut for one in pages(path, Reading(), span=span)] == TEXTS


def test_a_dump_whose_streams_begin_within_pages_is_read_as_one(tmp_path):
    xml = "".join(PIECES).encode()
    streams = [bz2.compress(xml[at : at + 997]) for at in range(0, len(xml), 997)]
    path = written(tmp_path, b"".join(streams), "kowiki.xml.bz2")
    assert spans(path, 1) == [(0, path.stat().st_size)]
    assert [one[1] for one in read(path)[0]] == TEXTS


def test_hostile_pages_cost_themselves_in_one_process_and_in_two(tmp_path):
    hostile = ["{{a|" * 9_000, "[[" * 200_000, "&#99999999999;가", "<ref>" * 9_000, "{|\n" * 9_000]
    between = [page("적", one, number=100 + n) for n, one in enumerate(hostile)]
    streams = [HEADER, *PIECES[1:21], *between, *PIECES[21:41], FOOTER]
    data = b"".join(bz2.compress(one.encode()) for one in streams)
    section = corpus([str(written(tmp_path, data, "kowiki.xml.bz2"))])
    one = made(section, tmp_path / "one", settings(2_000))
    assert made(section, tmp_path / "two", settings(2_000, processes=2)) == one
    assert text(tmp_path / "one") == text(tmp_path / "two")
    assert one["documents"] >= 40


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is no MediaWiki export"),
        ("<rss><page></page></rss>", "is no MediaWiki export"),
        ("<mediawiki", "is no MediaWiki export"),
        ("<mediawiki><siteinfo></siteinfo>", "is cut short"),
        (HEADER.encode() + page("쪽", "글").encode("euc-kr") * 12 + FOOTER.encode(), "not UTF-8"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_line(tmp_path, data, message):
    found, _, error = read(written(tmp_path, data))
    assert found == []
    assert message in error
    assert "\n" not in error


@pytest.mark.parametrize("suffix", PACKERS)
def test_random_damage_neither_hangs_nor_raises_anything_but_data_errors(tmp_path, suffix):
    whole = PACKERS[suffix]("".join(PIECES).encode())
    rng = random.Random(suffix)
    outcomes = Counter[bool]()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 5, 200])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.5:
            del data[rng.randrange(len(data)) :]
        found, _, error = read(written(tmp_path, bytes(data), f"a.xml{suffix}"))
        assert len(found) <= 40
        assert "\n" not in error
        outcomes[bool(error)] += 1
    assert outcomes[True] >= 10
