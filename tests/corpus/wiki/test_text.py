import contextlib
import random
import re
import time

import pytest

from lingraft.corpus.readers.lines import HOLE
from lingraft.corpus.readers.wiki.text import (
    CANONICAL_NAMESPACES,
    MarkupError,
    Site,
    is_disambiguation,
    plain_text,
    templates,
)

NAMESPACES = CANONICAL_NAMESPACES | {"datei": 6, "fichier": 6, "файл": 6, "파일": 6, "분류": 14}
LEFT = re.compile(r"\[\[|\]\]|\{\{|\}\}|\||<ref|[(（\[]\s*[)）\]]|[\U0010fffa-\U0010fffc]")


def plain(wikitext: str, language: str = "ko") -> str:
    return plain_text(wikitext, Site("wiki", language, NAMESPACES)).replace(HOLE, "⌂")


PAGES = {
    "en": (
        "{{Infobox settlement\n| name = Seoul\n| map = {{x}}\n}}\n[[File:a.jpg|thumb|A [[map]]]]\n"
        "'''Seoul''' ({{lang-ko|서울}}; {{IPAc-en|s|oʊ|l}}) is a [[city]].<ref>{{cite|b}}</ref> "
        "It lies {{convert|5|to|10|km|mi|abbr=on}} from {{nowrap|the [[Han River|river]]}}. "
        "It was founded in {{start date|1394}}. It has {{formatnum:9000000}} people{{cn}}.\n"
        "== History ==\n{| class=a\n|-\n| x || y\n{|\n| z\n|}\n|}\n* One<br/>two\n[[Category:A]]",
        "Seoul is a city. It lies 5 to 10 km from the river. It was founded in ⌂. "
        "It has 9000000 people.\nOne\ntwo",
    ),
    "de": (
        "{{Box\n|a=b\n}}[[Datei:a.jpg|mini|Bild]]\n'''Berg''' (ca. {{Höhe|1200}} hoch) ist ein "
        "[[Berg]].{{FN|1}} Er hat {{nowrap|3 Gipfel}} und {{lang|la|mons}} als Namen.",
        "Berg (ca. ⌂ hoch) ist ein Berg. Er hat 3 Gipfel und mons als Namen.",
    ),
    "fr": (
        "Née le {{date|7|11|1867}} à [[Lyon]], elle lit l'''Iliade''. Elle fait {{unité|12|km}} à "
        "''pied''{{référence nécessaire}}, dit-elle <ref>a</ref>; la masse <math>E</math> est là.",
        "Née le ⌂ à Lyon, elle lit l'Iliade. Elle fait 12 km à pied, dit-elle; la masse ⌂ est là.",
    ),
    "es": (
        "Vive en {{unidad|3|km²}}, según {{esd|el [[río]]}}{{cita requerida}}. El {{siglo|X}} no.",
        "Vive en 3 km², según el río. El ⌂ no.",
    ),
    "ru": (
        "[[Файл:a.png|мини]]'''Го́род''' (англ. {{lang|en|City}}) — {{число|12|км}}.{{нет АИ}} "
        "Тут {{s|5 лет}}.",
        "Го́род (англ. City) — 12 км. Тут 5 лет.",
    ),
    "ko": (
        "'''서울'''({{llang|en|Seoul}}, {{lang-ja|ソウル}})은 [[대한민국|한국]]의 수도다.{{출처}} "
        "그는 {{날짜|1}} 태어났다. [[파일:a.svg|20px]] 앞 [[파일:b.svg|20px]] 뒤.\n[[분류:도시]] "
        "[[en:Seoul]]",
        "서울(Seoul)은 한국의 수도다. 그는 ⌂ 태어났다. ⌂ 앞 ⌂ 뒤.",
    ),
    "ja": (
        "'''東京'''（{{読み仮名|東京|とうきょう}}）は<ruby>首都<rp>(</rp><rt>しゅと</rt></ruby>。"
        "{{要出典|date=2020年}}人口は{{人口|東京}}である。",
        "東京（東京）は首都。人口は⌂である。",
    ),
    "zh": (
        "'''电脑'''-{}-（{{lang-en|computer}}）是-{机器}-。__目录__它有{{link-en|内存|RAM}}和"
        "-{zh:a;tw:b}-。",
        "电脑是机器。它有内存和⌂zh:a;tw:b⌂。",
    ),
}


@pytest.mark.parametrize("language", PAGES)
def test_a_page_gives_its_text_and_a_mark_where_something_is_missing(language):
    wikitext, expected = PAGES[language]
    assert plain(wikitext, language) == expected


# What is shown of it; None where a sentence misses it.
INSERTED: dict[str, str | None] = {
    "[[서울특별시|서울]]": "서울",
    "3 × 10<sup>8</sup> m": None,
    "10<sup>−3</sup>": None,
    "H<sub>2</sub>O, 5 km<sup>2</sup>": "H2O, 5 km2",
    "'''굵은''' ''글''": "굵은 글",
    "{{nowrap|12 [[km]]}}": "12 km",
    "{{lang|en|Seoul}}": "Seoul",
    "[http://a.kr 누리집 [[글]]]": "누리집 글",
    "H<sub>2</sub>O": "H2O",
    "([[나]], {{lang-en|x}})": "(나)",
    "&lt;5&amp;": "<5&",
    "1 < 2": "1 < 2",
    "{{convert|5|to|10|km|mi}}": "5 to 10 km",
    "{{unité|12|km}}": "12 km",
}
NOTES = (
    "<ref>책 {{서적|가=[[나]]}}</ref>", "<ref name=a />", "<!-- [[ {{ -->", "{{sfn|가|2020}}",
    "[[분류:가]]", "({{가}};<ref/>)",
)  # fmt: skip
HOLES = (
    "{{날짜|{{가|[[나]]}}}}", "{{{인수|나}}}", "<math>[[x^{{2}}</math>", "[[파일:가.svg|{{나}}]]",
    "{{상자\n| 가 = 나\n}}", "[http://a.kr]", "<table><td>가</table>", "<nowiki>[[가]]</nowiki>",
    "{{lang|en}}", "{{PAGENAME}}", "{{!}}", "가|나", "()", "<what>", "&#99999999999;", "나]]", "}}",
    "</ref>", "{{convert|5|ft|6|in}}", "{{unité|3|km|s|-1}}", "{{unité|3|e=6|km}}", "{{cn|글}}",
    "{{convert|{{가}}|km}}", "{{quote}}",
)  # fmt: skip
UNCLOSED = (
    "[[가 ", "{{가| ", "{{{ ", "<ref> ", "<ref name= ", "{{nowrap|가 ", "[[파일:가| ", "<table> ",
)  # fmt: skip
INSERTED |= dict.fromkeys(NOTES, "") | dict.fromkeys(HOLES)
INSERTED |= dict.fromkeys(mark.strip() for mark in UNCLOSED)


def test_no_sentence_that_is_kept_misses_a_word_or_holds_mark_up():
    whole = 0
    for seed in range(400):
        rng = random.Random(seed)
        lines, expected = [], []
        for n in range(6):
            words = [f"낱말{n}", *rng.choices(["강", "바다", "하늘을", "Berg", "5%"], k=5), "끝."]
            mark = rng.choice(list(INSERTED))
            at = rng.randrange(1, 6)
            lines.append(" ".join([*words[:at], mark, *words[at:]]))
            shown = INSERTED[mark]
            expected.append(None if shown is None else [*words[:at], *shown.split(), *words[at:]])
        found = plain("\n".join(lines))
        kept = [line.split() for line in found.split("\n") if "⌂" not in line]
        assert all(words in expected for words in kept), (seed, kept)
        assert not LEFT.search(found), (seed, found)
        if not any(mark in line for line in lines for mark in UNCLOSED):
            assert kept == [words for words in expected if words is not None], seed
        whole += len(kept)
    assert whole > 600


@pytest.mark.parametrize(
    "mark",
    [
        "[[a|", "{{a|", "{{{", "{|\n|", "\n:{|", "<ref>", "<!--", "= a ", "\n==a", "<a ", '<b a="',
        "{{a}},", "(<ref/>,", "&#1", "\n| [[a]]", "{{a[b}}", "'''a", "-{", "__가", "{{lang|a|",
        ";:", "[[", "[http://a ", "<table>", "&#x110000;", "<ref/> {{x}} ", "\U0010fffd,",
    ],
)  # fmt: skip
def test_hostile_mark_up_costs_seconds_at_most(mark):
    begin = time.process_time()
    for closed in ("", "}}]]|}</ref></table>"):
        with contextlib.suppress(MarkupError):
            plain(mark * (50_000 // len(mark)) + closed * 100, "zh")
    assert time.process_time() - begin < 5


def test_nested_mark_up_is_read_to_a_depth_and_refused_beyond():
    assert plain("{{가|" * 20 + "}}" * 20 + "나") == "⌂나"
    with pytest.raises(MarkupError):
        plain("{{가|" * 2_000 + "}}" * 2_000)
    with pytest.raises(MarkupError):
        plain("[[" * 500_000)


def test_the_table_of_templates_knows_what_each_shows():
    kinds = {"first", "second", "last", "convert", "number", "quote", "note", "doubt", "sign"}
    kinds |= {"disambiguation"}
    for language in ("en", "de", "fr", "es", "ru", "ko", "ja", "zh", "zh-hans", "xx"):
        known = templates(language)
        assert {how for how, _ in known.values()} <= kinds
        assert all(name == name.lower().strip() for name in known)
    for page in (("{{동음이의}}", "ko"), ("{{ Mathdab }}", "de"), ("__DISAMBIG__", "xx")):
        assert is_disambiguation(*page)
    assert not is_disambiguation("{{disambiguation needed}} [[disambiguation]]", "en")
