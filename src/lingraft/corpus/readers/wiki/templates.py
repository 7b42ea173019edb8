"""The templates that carry running text; all others are dropped.

What a template does is written in the wiki that the dump is of, and expanding that takes a
MediaWiki. But few of those that stand inside sentences matter, and these are much the same on all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


RANGE_WORDS = {"to", "-", "–", "and", "or", "x", "by", "&"}


def _positional(index: int) -> Callable[[Sequence[str], Mapping[str, str]], str]:
    def text(positional: Sequence[str], keywords: Mapping[str, str]) -> str:
        value = keywords.get(str(index + 1))
        if value is None:
            value = positional[index] if index < len(positional) else ""
        return value.strip()

    return text


def _last(positional: Sequence[str], keywords: Mapping[str, str]) -> str:
    return positional[-1].strip() if positional else ""


def _quote(positional: Sequence[str], keywords: Mapping[str, str]) -> str:
    return "\n" + (keywords.get("text") or _first(positional, keywords)) + "\n"


def _convert(positional: Sequence[str], keywords: Mapping[str, str]) -> str:
    """{{convert|12|km|mi}} is '12 km', {{convert|5|to|10|km}} is '5 to 10 km'."""
    values = [value.strip() for value in positional[:4]]
    if len(values) == 4 and values[1] in RANGE_WORDS:
        return " ".join(values)
    return " ".join(values[:2])


def _number(positional: Sequence[str], keywords: Mapping[str, str]) -> str:
    return " ".join(value.strip() for value in positional[:2] if value.strip())


def _always(text: str) -> Callable[[Sequence[str], Mapping[str, str]], str]:
    return lambda positional, keywords: text


_first, _second = _positional(0), _positional(1)

# Names are in lower case; '|' stands between them.
TEXT_TEMPLATES: dict[str, Callable[[Sequence[str], Mapping[str, str]], str]] = {
    name: text
    for names, text in (
        # text in another language: {{lang|xx|text}}
        ("lang|langue|llang|lang-inline|idioma", _second),
        ("transl|transliteration|translit", _last),
        # text that is shown in a special way: {{nowrap|text}}
        ("nowrap|nobr|nobreak|nwr|nbr|nobold|small|smaller|larger|big|sc|smallcaps|smcaps", _first),
        ("abbr|tooltip|mono|em|strong|underline|u|sub|sup|var", _first),
        # a base with its reading or original: {{nihongo|text|kanji|romaji}}
        ("nihongo|ruby|읽는 법|ふりがな|ルビ|読み仮名", _first),
        # links to articles that only another wiki has: {{ill|text|xx}}
        ("ill|仮リンク|link-en|le|internal link helper", _first),
        ("quote|cquote|blockquote|quotation|인용문|인용", _quote),
        ("convert|cvt", _convert),
        ("unité|unite|val|formatnum|nombre", _number),
    )
    for name in names.split("|")
} | {
    name: _always(text)
    for name, text in {
        "!": "|",
        "=": "=",
        "'": "'",
        "nbsp": " ",
        "spaces": " ",
        "snd": " – ",
        "spaced ndash": " – ",
        "ndash": "–",
        "mdash": "—",
        "·": " · ",
        "•": " • ",
    }.items()
}

# Templates that show a reference or a doubt, and no word of the sentence.
FOOTNOTES = {
    "sfn", "sfnp", "harvnb", "harvsp", "efn", "refn", "r", "rp", "cn", "fact", "citation needed",
    "when", "who", "référence nécessaire", "refnec", "출처", "각주", "要出典",
}  # fmt: skip

# Magic words that stand for the name of the page: https://www.mediawiki.org/wiki/Help:Magic_words
TITLE_WORDS = {"pagename", "fullpagename", "basepagename", "subpagename"}


def canonical(name: str) -> str:
    """The name of a template as the table has it."""
    return name.strip().replace("_", " ").lower()


def carries_text(name: str) -> bool:
    """Whether a template is one of the few that carry running text."""
    canonical_name = canonical(name)
    return canonical_name in TEXT_TEMPLATES or canonical_name in TITLE_WORDS


def expand(name: str, positional: Sequence[str], keywords: Mapping[str, str], title: str) -> str:
    """The text of a template of which `carries_text` says that it has some.

    Args:
        name: as it is written.
        positional: arguments without a name, in order, as plain text.
        keywords: the others.
        title: of the page.
    """
    canonical_name = canonical(name)
    if canonical_name in TITLE_WORDS:
        return title
    return TEXT_TEMPLATES[canonical_name](positional, keywords)
