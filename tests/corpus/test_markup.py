import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lingraft.corpus.readers import markup
from lingraft.corpus.readers.documents import Source
from lingraft.corpus.readers.lines import LINE_TOO_LONG, Reading
from lingraft.errors import DataError
from lingraft.recipe import Corpus

PAGE = """<!doctype html><html><head><title>표제</title><meta charset="{0}">
<script>alert("코드")</script><style>p {{}}</style></head><body>
<nav><ul><li><a href="/">홈</a><li><a href="/x">소개</a></ul></nav>
<div><div><main><article><h1>제목</h1><p>첫 문단은 <b>여기</b> 있다.<br>둘째 줄.
<ul><li>첫 항목<li>끝 항목</ul><p>끝 문단 &amp; 인용.</article></main></div></div>
<footer>저작권</footer></body></html>"""
MARKDOWN = """---
title: 표제
---
# 제목 `code`

첫 줄은
둘째 **굵게** [링크](http://a.example/b) ![그림](x.png)끝.

- 하나
- 둘<br>셋

```python
print("코드")
```

| 가 | 나 |
|----|----|
| 1 | 2 |

<div class="x">안쪽</div>

<!-- 주석 -->

日本語の
文章です
"""
MARKDOWN_TEXT = [
    "제목 code",
    "첫 줄은 둘째 굵게 링크 끝.",
    "하나",
    "둘",
    "셋",
    "가 나",
    "1 2",
    "안쪽",
    "日本語の文章です",
]


def read(reader: Callable[..., object], path: Path, **changes: object) -> tuple[list[str], Reading]:
    reading = Reading()
    section = Corpus(text=(str(path),), **changes)  # type: ignore[arg-type]
    found = reader(Source(path.name, path), section, reading)
    return [text for _, text in found], reading  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ["utf-8", "euc-kr"])
def test_html_gives_its_main_text_in_the_encoding_it_names(tmp_path: Path, encoding: str) -> None:
    pytest.importorskip("resiliparse")
    path = tmp_path / "a.html"
    path.write_bytes(PAGE.format(encoding).encode(encoding))
    [text] = read(markup.read_html, path)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines == [
        "제목", "첫 문단은 여기 있다.", "둘째 줄.", "첫 항목", "끝 항목", "끝 문단 & 인용.",
    ]  # fmt: skip


def test_a_page_cut_anywhere_is_read_or_counted(tmp_path: Path) -> None:
    pytest.importorskip("resiliparse")
    path = tmp_path / "a.html"
    data = PAGE.format("utf-8").encode()
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        texts, reading = read(markup.read_html, path)
        assert len(texts) + sum(reading.dropped.values()) == 1


def test_a_page_without_main_text_and_a_page_too_long_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("resiliparse")
    path = tmp_path / "a.html"
    path.write_text("<html><script>x()</script></html>")
    assert read(markup.read_html, path)[1].dropped == {markup.NO_MAIN_TEXT: 1}
    path.write_text("<p>" + "가" * 1_000)
    _, reading = read(markup.read_html, path, max_line_bytes=1_000)
    assert reading.dropped == {LINE_TOO_LONG: 1}


def test_markdown_gives_a_line_for_each_paragraph_item_and_row(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(MARKDOWN)
    [text] = read(markup.read_markdown, path)[0]
    assert lines_of(text) == MARKDOWN_TEXT


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_text_between_two_rules_stays_and_what_a_page_runs_does_not() -> None:
    ruled = "---\n\n첫 문단이다.\n\n---\n\n끝이다."
    assert lines_of(markup.markdown_to_text(ruled)) == ["첫 문단이다.", "끝이다."]
    assert "첫 줄이다." in markup.markdown_to_text("---\n첫 줄이다.\n\n---\n\n끝이다.")
    matter = '---\ntitle: "A: b"\ntags:\n  - c\n- d\n# e\n\nmore.key: |\n  f\n---\n끝이다.'
    assert markup.markdown_to_text(matter) == "끝이다."
    open_end = (
        "---\r\n" + "- a: b\r\n" * 5_000 + "끝이다."
    )  # read in no time, whatever a line could be
    assert markup.markdown_to_text(open_end).endswith("끝이다.")
    page = "글이다.\n\n<style>\n.a { color: red }\n</style>\n\n<script>\nvar a;\n</script>\n\n끝."
    assert lines_of(markup.markdown_to_text(page)) == ["글이다.", "끝."]


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resiliparse.extract.html2text", None)
    with pytest.raises(DataError, match=r'pip install "lingraft\[web\]"'):
        markup.html_to_text("<p>x")


def test_comments_that_are_never_closed_take_a_time_that_grows_with_the_file():
    begin = time.process_time()
    assert markup.markdown_to_text("앞이다.\n\n" + "<!--" * 100_000 + "뒤다.") == "앞이다."
    assert time.process_time() - begin < 10  # hours, when every one looks for its end


@pytest.mark.parametrize("charset", ["undefined", "unicode_escape"])
def test_a_page_that_names_no_encoding_of_text_is_read_all_the_same(tmp_path: Path, charset: str):
    page = PAGE.format(charset).replace("끝 문단", r"끝 문단 \ud800").encode("euc-kr")
    (tmp_path / "a.html").write_bytes(page)
    [text] = read(markup.read_html, tmp_path / "a.html")[0]
    assert r"끝 문단 \ud800" in text


@pytest.mark.parametrize("within", ["", "<script>", "<!-- </div> -->"])
def test_a_page_nested_too_deeply_is_dropped_before_it_is_parsed(
    tmp_path: Path, within: str
) -> None:
    """20,000 elements took 9 seconds."""
    path = tmp_path / "a.html"
    path.write_text(within + "</script>" + "<div>" * 20_000 + "글이 여기 있다." + "</div>" * 20_000)
    reading, start = Reading(), time.monotonic()
    assert not list(markup.read_html(Source("a.html", path), Corpus(text=("x",)), reading))
    assert time.monotonic() - start < 1
    assert reading.dropped == {markup.NESTED_TOO_DEEPLY: 1}
