import contextlib
import random
import time

import pytest

from lingraft.corpus.readers.wiki import Site, plain_text
from lingraft.corpus.readers.wiki.balance import NESTED_TOO_DEEPLY, MarkupError
from lingraft.corpus.readers.wiki.disambiguation import is_disambiguation
from lingraft.corpus.readers.wiki.quotes import without_quotes

SITE = Site("kowiki", "ko", {"file": 6, "category": 14, "파일": 6, "분류": 14, "토론": 1})
CHINESE = Site("zhwiki", "zh")


def plain(wikitext: str, site: Site = SITE) -> str:
    return plain_text(wikitext, site, "제목")


def test_every_inline_construct_inside_a_sentence_leaves_what_a_reader_sees(maker):
    for wikitext, left in maker.inline:
        expected = " ".join(f"앞 {left} 뒤.".split())
        assert plain(f"앞 {wikitext} 뒤.") == expected, wikitext


def test_every_block_construct_leaves_its_lines_and_those_around_it(maker):
    for wikitext, left in maker.blocks:
        assert plain(f"앞\n{wikitext}\n뒤").split("\n") == ["앞", *left, "뒤"], wikitext


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("née le {{date|7|11|1867}} à Lyon", "née le ⌂ à Lyon"),
        ("(née le {{date}}) oui", "(née le ⌂) oui"),
        ("소리 {{{인수}}} 뒤", "소리 ⌂ 뒤"),
        ("La masse <math>E</math> est", "La masse ⌂ est"),
        ("앞 [[파일:가.svg|20px]] 뒤", "앞 ⌂ 뒤"),
        ("앞 <table><tr><td>가</table> 뒤", "앞 ⌂ 뒤"),
        ("{{lang|en}} 가", "⌂ 가"),
        # nothing is missing in these
        ("Séoul ({{lang-ko|서울}}) est", "Séoul est"),
        ("Séoul ({{lang-ko|서울}}, née en 1950) est", "Séoul (née en 1950) est"),
        ("Séoul (1950, {{lang-ko|서울}}) est", "Séoul (1950) est"),
        ("가.{{note}} 나{{sfn|a}}.<ref>b</ref> 다.", "가. 나. 다."),
        ("{{Infobox\n| a = b\n}}'''가'''는", "가는"),
        ("{{ébauche}}\n[[파일:가.jpg|thumb|나]] 가는", "가는"),
        ("{|\n| 가\n|} 나 [[분류:가]]", "나"),
    ],
)
def test_a_mark_stands_where_words_are_missing_in_a_sentence(wikitext, expected):
    assert plain_text(wikitext, SITE, "제목", "⌂") == expected


def test_headings_go_and_what_only_looks_like_one_stays():
    wikitext = "앞\n== '''역사''' [[서울|도시]]<ref>x</ref> ==\n뒤\n=홀수==\n= \n==="
    assert plain(wikitext) == "앞\n뒤\n="


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("가 [[나 다", "가 나 다"),
        ("가 나]] 다", "가 나 다"),
        ("가 {{나|다", "가 나|다"),
        ("가}} 나", "가 나"),
        ("가 <ref>나", "가 나"),
        ("가</ref> 나", "가 나"),
        ("가 <b>나", "가 나"),
        ("가 <!-- 나", "가"),
        ("가 <nowiki>나", "가 나"),
        ("{|\n| 가\n나", "나"),
        ("가 [http://a.b 나", "가 http://a.b 나"),
        ("가 '''나 ''다", "가 '나 다"),
        ("[[가|{{나]] 다", "나 다"),
        ("가 <unknown> < 3 & > 2", "가 <unknown> < 3 & > 2"),
        ("가 {{{인수|나}}} 다 {{{{{가}}}}}", "가 다"),
        ("가 { 나 } [ 다 ]", "가 { 나 } [ 다 ]"),
    ],
)
def test_unclosed_markup_goes_and_the_text_stays(wikitext, expected):
    assert plain(wikitext) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("l'''Iliade'' d'Homère", "l'Iliade d'Homère"),
        ("''a'' '''b''' '''''c'''''", "a b c"),
        ("A '''b''' ''c'' l'''Iliade''", "A b c l'Iliade"),
        ("''''four''''", "'four'"),
        ("'''''''seven'''''''", "''seven''"),
        ("it's 'so'", "it's 'so'"),
        ("'''b''' d''i''", "b di"),
    ],
)
def test_bold_and_italic_marks_are_read_as_mediawiki_reads_them(line, expected):
    assert without_quotes(line) == expected


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("-{A|zh-hans:计算机; zh-hant:電腦}-科学", "计算机科学"),
        ("-{原文}-", "原文"),
        ("-{H|zh-cn:甲;zh-tw:乙}-丙", "丙"),
        ("-{T|zh-cn:甲;zh-tw:乙}-丙", "丙"),
    ],
)
def test_chinese_variant_marks_give_their_first_variant(wikitext, expected):
    assert plain(wikitext, CHINESE) == expected


def test_variant_marks_are_text_where_the_language_has_no_variants():
    assert plain("a -{b}- c") == "a -{b}- c"


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("{{convert|5|to|10|km|mi}}", "5 to 10 km"),
        ("{{lang|en|2=Seoul}}", "Seoul"),
        ("{{lang|en}} 가", "가"),
        ("{{transl|ko|ISO|Seoul}}", "Seoul"),
        ("{{quote|text=어떤 말|누구}}", "어떤 말"),
        ("가{{snd}}나{{!}}다", "가 – 나|다"),
        ("{{nowrap|a=b}} 가", "가"),
        ("{{ Nowrap \n|가}}", "가"),
        ("{{!{{x}}a}} 가", "가"),
    ],
)
def test_templates_that_carry_text_give_it(wikitext, expected):
    assert plain(wikitext) == expected


def test_empty_parentheses_stay_when_nothing_was_dropped_from_them():
    assert plain("main() ( ) (,) <ref>x</ref>") == "main() ( ) (,)"


def test_control_characters_of_the_page_cannot_pass_for_our_marks():
    assert plain("가\x01(\x02나\x18)&#1;&#x18;<nowiki>\x01</nowiki>") == "가(나)"


def test_a_page_nested_too_deeply_is_refused_with_the_reason():
    with pytest.raises(MarkupError, match=NESTED_TOO_DEEPLY):
        plain("{{가|" * 31 + "}}" * 31)
    assert plain("{{가|" * 30 + "}}" * 30 + "나") == "나"


@pytest.mark.parametrize(
    "mark",
    ["[[a|", "{{a|", "{{{", "{|\n|", "<ref>", "<div>a", "[http://a ", "<!--", "<nowiki>", "= a ",
     "\n==a", "''a ", "<a ", '<b a="', "*", ";:", "{{a}}", "{{a}},", "(", " ", ",", "-{", "__가",
     "&#1", "[[a]]", "|", "\n| [[a]]", "{{a[b}}", "[[<a]]", "'"],
)  # fmt: skip
def test_time_is_linear_in_repeated_markup_whether_it_is_closed_or_not(mark):
    wikitext = mark * (40_000 // len(mark))
    begin = time.process_time()
    with contextlib.suppress(MarkupError):  # what is nested too deeply is refused
        plain(wikitext, CHINESE)
    assert time.process_time() - begin < 1.5  # the tokenizer alone takes several seconds


def test_random_markup_neither_hangs_nor_fails_nor_leaves_marks_of_ours():
    marks = (
        "[[ ]] {{ }} {{{ }}} N{| N|} N|- N| || = N== ==N '' ''' <ref> </ref> <b> </b> <nowiki> "
        "</nowiki> <!-- --> &amp; & http:// [http://a.b_ ] [ N* N; : a_ 가 N---- < > { } File: "
        "lang| convert| -{ }- <math> </math> <table> </table> ( ) , PAGENAME formatnum: //"
    )
    marks = marks.replace("N", "\n").replace("_", "\xa0").split(" ")
    for seed in range(150):
        rng = random.Random(seed)
        chosen = rng.sample(marks, rng.randint(2, len(marks)))
        wikitext = "".join(rng.choices(chosen, k=rng.choice([5, 50, 1000])))
        try:
            text = plain(wikitext, CHINESE)
        except MarkupError:
            continue
        assert not any(ord(character) < 32 and character != "\n" for character in text), seed
        assert text == text.strip()
        assert "\n\n" not in text


@pytest.mark.parametrize(
    ("wikitext", "language", "found"),
    [
        ("{{동음이의}}", "ko", True),
        ("{{동명이인|성=김}}", "ko", True),
        ("{{ Human_name disambiguation }}", "en", True),
        ("{{disambig}}", "ko", True),
        ("{{Begriffsklärung}}", "de", True),
        ("{{Begriffsklärung}}", "ko", False),
        ("__DISAMBIG__", "xx", True),
        ("{{disambiguation needed}} [[disambiguation]]", "en", False),
        ("{{曖昧さ回避}}", "ja", True),
        ("{{消歧义}}", "zh-hans", True),
    ],
)
def test_disambiguation_pages_are_known_by_the_template_of_their_language(
    wikitext, language, found
):
    assert is_disambiguation(wikitext, language) is found
