import bz2
import gzip
import io
import lzma
import random
from collections import Counter
from pathlib import Path

import pytest

from lingraft.corpus.readers.documents import Source
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.readers.wiki import Block, Page, block_pages, blocks, pages, site_of, wiki_dump
from lingraft.corpus.readers.wiki import dump as dump_module
from lingraft.corpus.readers.wiki.cutting import (
    BROKEN_XML,
    EMPTY_PAGE,
    OTHER_NAMESPACE,
    REDIRECT,
    TOO_LARGE,
)
from lingraft.corpus.readers.wiki.dump import DISAMBIGUATION, NOT_WIKITEXT, PAGE_BYTES
from lingraft.errors import DataError
from lingraft.recipe import Corpus

REAL = Path(__file__).parents[3] / "data" / "wiki_dumps"
FORMATS = {"": bytes, ".bz2": bz2.compress, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.fixture(autouse=True)
def _no_marks(monkeypatch):
    """Texts as readers of the wiki see them, without marks where words are missing."""
    monkeypatch.setattr(dump_module, "HOLE", "")


def read(path: Path, page_bytes: int = PAGE_BYTES) -> tuple[list[Page], Reading]:
    reading = Reading()
    return list(pages(path, reading, page_bytes)), reading


def error_of(path: Path) -> tuple[list[Page], str]:
    found = []
    try:
        for page in pages(path, Reading()):
            found.append(page)  # noqa: PERF402 (what came before the error counts)
    except DataError as error:
        return found, str(error)
    return found, ""


def written(folder: Path, data: bytes, name: str = "kowiki.xml") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def multistream(pieces: list[str], pages_per_stream: int = 3) -> bytes:
    """As Wikimedia writes it: the header, some pages each, the footer."""
    header, *body, footer = pieces
    parts = [body[at : at + pages_per_stream] for at in range(0, len(body), pages_per_stream)]
    return b"".join(bz2.compress("".join(part).encode()) for part in ([header], *parts, [footer]))


@pytest.mark.parametrize("suffix", FORMATS)
def test_generated_dumps_come_out_exact(tmp_path, maker, suffix):
    made = [maker.random_page(seed) for seed in range(40)]
    path = written(tmp_path, FORMATS[suffix](maker.export(made)), f"kowiki.xml{suffix}")
    found, reading = read(path)
    assert [page.text for page in found] == [page.text for page in made]
    assert [page.name for page in found] == [f"kowiki:{at}" for at in range(1, 41)]
    assert [page.revision for page in found] == [1000 * at for at in range(1, 41)]
    assert {page.title for page in found} == {"제목"}
    assert not reading.dropped
    assert reading.bytes_read == path.stat().st_size


@pytest.mark.parametrize("schema", [3, 10, 11, 99])
def test_every_version_of_the_schema_reads_alike(tmp_path, maker, schema):
    made = [maker.page("가", "본문"), maker.page("토론:가", "말", namespace=1)]
    found, reading = read(written(tmp_path, maker.export(made, schema)))
    assert [page.text for page in found] == ["본문"]
    assert reading.dropped == {OTHER_NAMESPACE: 1}


def test_what_is_no_article_is_dropped_and_counted(tmp_path, maker):
    page = maker.page
    made = [
        page("가", "글 하나"),
        page("토론:가", "말", namespace=1),
        page("넘김", "#넘겨주기 [[가]]", redirect=True),
        page("Old", "  #REDIRECT [[가]]"),
        page("빈", " \n"),
        page("표뿐", "{{상자}}\n{|\n| x\n|}"),
        page("뜻", "* [[가]]\n{{동음이의}}"),
        page("깊이", "{{a|" * 50 + "}}" * 50),
        page("자료", '{"a": 1}', model="json"),
        page("크다", "가" * 5000),
        page("나", "글 둘"),
    ]
    found, reading = read(written(tmp_path, maker.export(made)), 9000)
    assert [one.text for one in found] == ["글 하나", "글 둘"]
    assert reading.dropped == {
        OTHER_NAMESPACE: 1,
        REDIRECT: 2,
        EMPTY_PAGE: 2,
        DISAMBIGUATION: 1,
        "markup nested too deeply": 1,
        NOT_WIKITEXT: 1,
        TOO_LARGE: 1,
    }
    assert reading.documents == 9


def test_of_a_history_the_latest_revision_counts_wherever_it_stands(tmp_path, maker):
    revisions = (("2020-01-01T00:00:00Z", "옛 글"), ("2024-01-01T00:00:00Z", "새 글"),
                 ("2022-01-01T00:00:00Z", "그 사이"))  # fmt: skip
    found, _ = read(written(tmp_path, maker.export([maker.page("가", "", revisions=revisions)])))
    assert [(page.text, page.revision) for page in found] == [("새 글", 1001)]


def test_a_gigantic_page_is_stepped_over_without_being_held(tmp_path, maker):
    header, first, footer = maker.pieces([maker.page("가", "글")])
    head, tail = first.split("글")
    cutter = dump_module.Cutter(site_of(written(tmp_path, (header + footer).encode())), 10_000)
    assert list(cutter.feed((header + head).encode())) == []
    for _ in range(100):
        assert list(cutter.feed(b"x" * 100_000)) == []
        assert len(cutter._buffer) < 200_000
    cuts = list(cutter.feed((tail + first + footer).encode()))
    assert [cut.reason for cut in cuts] == [TOO_LARGE, ""]


@pytest.mark.parametrize("pages_per_stream", [1, 3])
def test_blocks_of_a_multistream_dump_give_every_page_once(tmp_path, maker, pages_per_stream):
    made = [maker.random_page(seed) for seed in range(20)]
    data = multistream(maker.pieces(made), pages_per_stream)
    path = written(tmp_path, data, "kowiki.xml.bz2")
    parts = blocks(path, target_bytes=1)
    assert len(parts) == 20 // pages_per_stream + 2 + (20 % pages_per_stream > 0)
    _check_blocks(path, parts, [page.text for page in made])


def test_blocks_may_begin_anywhere_in_a_page(tmp_path, maker):
    made = [maker.random_page(seed) for seed in range(8)]
    xml = maker.export(made)
    for size in (1_000, 997, 5):
        piece = xml if size > 5 else xml[:3_000] + maker.pieces([])[-1].encode()
        texts = [page.text for page in made]
        streams = [bz2.compress(piece[at : at + size]) for at in range(0, len(piece), size)]
        path = written(tmp_path, b"".join(streams), "kowiki.xml.bz2")
        if size == 5:
            texts = [page.text for page in read(path)[0]]
        _check_blocks(path, blocks(path, target_bytes=1), texts)


def _check_blocks(path: Path, parts: list[Block], texts: list[str]) -> None:
    site = site_of(path)
    assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]
    assert (parts[0].start, parts[-1].end) == (0, path.stat().st_size)
    found = [page.text for part in parts for page in block_pages(part, site, Reading())]
    assert found == texts


def test_utf16_dumps_are_read(tmp_path, maker):
    made = [maker.random_page(seed) for seed in range(5)]
    data = maker.export(made).decode().encode("utf-16")
    for name, packed in (("a.xml", data), ("a.xml.bz2", bz2.compress(data))):
        found, _ = read(written(tmp_path, packed, name))
        assert [page.text for page in found] == [page.text for page in made]


def test_the_reader_names_documents_by_wiki_and_page(tmp_path, maker):
    path = written(tmp_path, maker.export([maker.page("가", "글"), maker.page("나", "x" * 2_000)]))
    reading = Reading()
    section = Corpus(text=(str(path),), max_line_bytes=1_500)
    assert list(wiki_dump(Source(str(path), path), section, reading)) == [
        ("kowiki:1", "글", {"title": "가", "revision": 1000})
    ]
    assert reading.dropped == {TOO_LARGE: 1}


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>\n'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"<rss><page></page></rss>", "its root is <rss>"),
        (b"just text", "is no MediaWiki export"),
        (b"<mediawiki", "is no MediaWiki export"),
        (BOMB.encode() + b"<mediawiki><page></page></mediawiki>", "has a DOCTYPE"),
        (b'<?xml version="1.0" encoding="EUC-KR"?><mediawiki></mediawiki>', "iconv -f EUC-KR"),
        (b"<mediawiki><siteinfo></siteinfo>", "is cut short"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_line(tmp_path, data, message):
    found, error = error_of(written(tmp_path, data))
    assert found == []
    assert message in error
    assert "\n" not in error


def test_a_missing_file_and_a_wrong_suffix_are_named(tmp_path, maker):
    assert "cannot be read" in error_of(tmp_path / "none.xml")[1]
    for suffix in (".bz2", ".gz", ".xz"):
        path = written(tmp_path, maker.export([]), f"a.xml{suffix}")
        assert "a.xml" in error_of(path)[1]


def test_a_broken_page_is_counted_and_the_next_one_found(tmp_path, maker):
    header, *body, footer = maker.pieces([maker.page(f"쪽 {at}", f"글 {at}") for at in range(7)])
    body[1] = body[1].replace("</title>", "<title>")
    body[2] = body[2].replace("글", "&undefined;")
    body[3] = body[3].replace("</page>", "")
    body[4] = body[4].replace("<id>5</id>", "<id>x</id>")
    data = "".join([header, *body, footer]).encode()
    data = data.replace("글 5".encode(), b"\xb1\xdb 5")
    found, reading = read(written(tmp_path, data))
    assert [page.text for page in found] == ["글 0", "글 6"]
    assert reading.dropped == {BROKEN_XML: 5}


def test_a_namespace_whose_number_is_none_is_no_namespace(tmp_path, maker):
    data = maker.export([maker.page("토론:가", "글", namespace=0)])
    data = data.replace(b'key="1"', b'key="--1"')
    found, _ = read(written(tmp_path, data))
    assert [page.text for page in found] == ["글"]


def test_a_dump_in_another_encoding_is_refused(tmp_path, maker):
    data = maker.export([maker.page("쪽", "글") for _ in range(12)]).decode()
    header, *rest = data.partition("</siteinfo>")
    path = written(tmp_path, header.encode() + "".join(rest).encode("euc-kr"))
    assert "not UTF-8" in error_of(path)[1]


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_complete_before_a_cut_is_read_and_then_the_cut_is_told(tmp_path, maker, suffix):
    # Compressed text comes out in blocks, so the pages must be many or random to come out early.
    rng = random.Random(0)
    noise = [rng.randbytes(3_000).hex() for _ in range(60)]
    data = FORMATS[suffix](maker.export([maker.page("쪽", text) for text in noise]))
    for share in (0.99, 0.5):
        path = written(tmp_path, data[: int(len(data) * share)], f"a.xml{suffix}")
        found, error = error_of(path)
        assert "is cut short" in error
        assert [page.text for page in found] == noise[: len(found)]
        if suffix != ".bz2":  # its blocks are of 900 kB
            assert len(found) > 60 * share - 5
    streams = multistream(maker.pieces([maker.page("쪽", text) for text in noise]), 10)
    found, error = error_of(written(tmp_path, streams[: len(streams) // 2], "b.xml.bz2"))
    assert "is cut short" in error
    assert 20 <= len(found) < 40


@pytest.mark.parametrize("suffix", [*FORMATS, ".multi"])
def test_random_damage_neither_hangs_nor_raises_anything_but_data_errors(tmp_path, maker, suffix):
    made = [maker.random_page(seed) for seed in range(12)]
    if suffix == ".multi":
        whole, suffix = multistream(maker.pieces(made)), ".bz2"
    else:
        whole = FORMATS[suffix](maker.export(made))
    rng = random.Random(suffix)
    outcomes = Counter[bool]()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 5, 200])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.5:
            del data[rng.randrange(len(data)) :]
        path = written(tmp_path, bytes(data), f"a.xml{suffix}")
        found, error = error_of(path)
        assert len(found) <= len(made)
        assert "\n" not in error
        outcomes[bool(error)] += 1
    assert outcomes[True] >= 30  # the cuts at least


def test_a_bz2_bomb_is_read_in_constant_memory(tmp_path):
    out = io.BytesIO()
    with bz2.BZ2File(out, "w") as file:
        file.write(b"<mediawiki><siteinfo></siteinfo><page><title>")
        for _ in range(8):
            file.write(bytes(1 << 20))
    found, error = error_of(written(tmp_path, out.getvalue(), "a.xml.bz2"))
    assert (found, "is cut short" in error) == ([], True)


@pytest.mark.parametrize(
    ("name", "wiki", "articles", "dropped"),
    [
        ("aawiki-20260101-pages-meta-current.xml.bz2", "aawiki", 0,
         {EMPTY_PAGE: 1, OTHER_NAMESPACE: 505, REDIRECT: 1}),
        ("bgwiki-latest-pages-articles-shortened.xml.bz2", "bgwiki", 1, {OTHER_NAMESPACE: 2}),
        ("mwxml-dump.xml", "enwiki", 1, {OTHER_NAMESPACE: 1}),
        ("tinywiki.xml", "tmp-wp", 6, {REDIRECT: 1, DISAMBIGUATION: 1}),
        ("smallwiki.xml.xz", "ltgwiki", 895,
         {EMPTY_PAGE: 8, REDIRECT: 147, OTHER_NAMESPACE: 954}),
    ],
)  # fmt: skip
@pytest.mark.skipif(not REAL.exists(), reason="the real fragments are not in the repository")
def test_real_fragments_are_read_to_the_last_page(name, wiki, articles, dropped):
    found, reading = read(REAL / name)
    assert site_of(REAL / name).wiki == wiki
    assert (len(found), dict(reading.dropped)) == (articles, dropped)
    leftovers = ("[[", "]]", "{{", "}}", "{|", "|}", "<ref", "&nbsp;", "'''")
    marked = [page.title for page in found if any(mark in page.text for mark in leftovers)]
    assert marked == []
