"""Makes MediaWiki exports whose text is known."""

import random
from dataclasses import dataclass
from xml.sax.saxutils import escape

import pytest

NAMESPACES = {-1: "특수", 0: "", 1: "토론", 6: "파일", 10: "틀", 14: "분류"}
HEADER = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.{}/" version="0.{}" xml:lang="ko">\n'
    "  <siteinfo>\n    <sitename>위키백과</sitename>\n    <dbname>kowiki</dbname>\n"
    "    <namespaces>\n{}    </namespaces>\n  </siteinfo>\n"
)
FOOTER = "</mediawiki>\n"
QUOTED = {'"': "&quot;"}

# Wikitext that stands inside a sentence, and what is to be left of it.
INLINE = [
    ("[[서울]]", "서울"),
    ("[[서울특별시|서울]]은", "서울은"),
    ("[[대한민국|'''대한''' 민국]]", "대한 민국"),
    ("[[:분류:도시]]", "분류:도시"),
    ("'''굵게''' ''기울임'' '''''둘 다'''''", "굵게 기울임 둘 다"),
    ("[http://example.org/a?b=c 누리집 [[서울]]]", "누리집 서울"),
    ("[http://example.org/]", ""),
    ("http://example.org/x", "http://example.org/x"),
    ("<ref>책 {{서적 인용|제목=[[가]]|쪽=1}} 참고</ref>", ""),
    ('<ref name="가" group=b />', ""),
    ("{{출처 필요|날짜=2020년}}", ""),
    ("{{가|{{나|[[다]]|라={{마}}}}|바=<b>}}", ""),
    ("{{lang|en|Seoul}}", "Seoul"),
    ("{{Nowrap|12 [[킬로미터|km]]}}", "12 km"),
    ("{{convert|12|km|mi|abbr=on}}", "12 km"),
    ("{{formatnum:1234}}", "1234"),
    ("{{PAGENAME}}", "제목"),
    ("<!-- [[닫지 않은 {{ -->", ""),
    ("&lt;b&gt; &amp;amp; A&#39;&#39;B", "<b> &amp; A''B"),
    ("가&nbsp;나", "가 나"),
    ("<nowiki>[[그대로]] ''기울임'' {{틀}} &amp;</nowiki>", "[[그대로]] ''기울임'' {{틀}} &"),
    ("<math>x^{{2}} [[</math>", ""),
    ('<span style="color:red; a>b">빨강</span>', 'b">빨강'),
    ("H<sub>2</sub>O <code>f()</code>", "H2O f()"),
    ("[[파일:가.jpg|섬네일|왼쪽|설명 [[서울]] {{lang|en|x}}]]", ""),
    ("[[File:b.png]] [[분류:도시|정렬]] [[category:x]] [[en:Seoul]] [[zh-yue:首爾]]", ""),
    ("[[wikt:서울|서울]]", "서울"),
    ("__목차없음__ __NOTOC__", ""),
    ("<ruby>漢字<rp>(</rp><rt>한자</rt><rp>)</rp></ruby>", "漢字"),
    ("(영어: {{lang-en|Seoul}}, 1 < 2)", "(영어:, 1 < 2)"),
    ("서울({{llang|en|Seoul}}; <ref>x</ref>)은", "서울(Seoul)은"),
    ("부산 ({{lang-en|Busan}}, {{mr|P}})은", "부산은"),
    ("닫지 않은 {{틀|", "닫지 않은 틀|"),
]
# Whole lines, and the lines that are to be left of them.
BLOCKS = [
    ("== 역사 ==", []),
    ("=== [[서울|역사]] <!-- x --> ===", []),
    ("* 하나\n** 둘 [[셋]]\n# 넷\n: 다섯\n; 여섯", ["하나", "둘 셋", "넷", "다섯", "여섯"]),
    ('{| class="wikitable"\n|-\n! 가 !! 나\n|-\n| [[다]] || {{라}}\n{|\n| 속\n|}\n|}', []),
    (":{| border=1\n| 가\n</table>", []),
    ("<table><tr><td>가</td></tr></table>", []),
    ("<gallery>\n파일:가.jpg|설명 [[나]]\n</gallery>", []),
    ("{{정보상자\n| 이름 = 서울\n| 그림 = [[파일:a.png]]\n}}", []),
    ("<syntaxhighlight lang=c>\nint a[[1]]; // {{\n</syntaxhighlight>", []),
    ("[[파일:가.jpg|섬네일|첫 줄\n둘째 줄 [[나]]]]", []),
    ("----", []),
    ("가<br />나<br>다", ["가", "나", "다"]),
    ('<div class="x">\n가\n</div>', ["가"]),
    ("<blockquote>인용</blockquote>", ["인용"]),
    ("{{인용문|어떤 [[말]]|누구}}", ["어떤 말"]),
    ("<poem>\n가\n나\n</poem>", ["가", "나"]),
    ("<references />\n{{각주}}\n", []),
]
WORDS = ["강물", "바다", "하늘", "나무", "이야기", "아침", "저녁", "2,014", "(km)", "5%", "a&b"]


@dataclass
class Made:
    """A page: its wikitext, and the text that is to come out."""

    title: str
    wikitext: str
    text: str = ""
    namespace: int = 0
    redirect: bool = False
    model: str = "wikitext"
    revisions: tuple[tuple[str, str], ...] = ()


def made_page(seed: int, constructs: int = 12) -> Made:
    """An article with some of the constructs above."""
    rng = random.Random(seed)
    wikitext, lines = [], []
    for _ in range(constructs):
        if rng.random() < 0.3:
            block, left = rng.choice(BLOCKS)
            wikitext.append(block)
            lines += left
            continue
        inline, left_inline = rng.choice(INLINE)
        before, after = " ".join(rng.choices(WORDS, k=4)), rng.choice(WORDS)
        wikitext.append(f"{before} {inline} {after}.")
        lines.append(" ".join(f"{before} {left_inline} {after}.".split()))
        wikitext += [""] * rng.randrange(2)
    if not lines:
        wikitext, lines = ["글"], ["글"]
    return Made("제목", "\n".join(wikitext), "\n".join(lines))


def page_xml(page: Made, number: int, schema: int = 11) -> str:
    """The XML of a page, as MediaWiki writes it."""
    revisions = page.revisions or (("2024-01-02T03:04:05Z", page.wikitext),)
    redirect = '    <redirect title="다른 문서" />\n' if page.redirect else ""
    body = "".join(
        f"    <revision>\n      <id>{1000 * number + index}</id>\n"
        f"      <timestamp>{timestamp}</timestamp>\n      <contributor>\n"
        "        <username>누구</username>\n        <id>7</id>\n      </contributor>\n"
        f"      <model>{page.model}</model>\n      <format>text/x-wiki</format>\n"
        f'      <text bytes="1" xml:space="preserve">{escape(wikitext, QUOTED)}</text>\n'
        "      <sha1>x</sha1>\n    </revision>\n"
        for index, (timestamp, wikitext) in enumerate(revisions)
    )
    namespace = f"    <ns>{page.namespace}</ns>\n" if schema > 5 else ""
    return (
        f"  <page>\n    <title>{escape(page.title)}</title>\n{namespace}"
        f"    <id>{number}</id>\n{redirect}{body}  </page>\n"
    )


def export_pieces(pages: list[Made], schema: int = 11) -> list[str]:
    """Header, each page, footer: joined they are an export."""
    names = "".join(
        f'      <namespace key="{key}" case="first-letter">{name}</namespace>\n'
        for key, name in NAMESPACES.items()
    )
    header = HEADER.format(schema, schema, names)
    return [header, *(page_xml(page, at, schema) for at, page in enumerate(pages, 1)), FOOTER]


class Maker:
    """What tests use of this module."""

    page = Made
    inline = tuple(INLINE)
    blocks = tuple(BLOCKS)
    random_page = staticmethod(made_page)
    pieces = staticmethod(export_pieces)

    def export(self, pages: list[Made], schema: int = 11) -> bytes:
        return "".join(export_pieces(pages, schema)).encode()


@pytest.fixture
def maker() -> Maker:
    return Maker()
