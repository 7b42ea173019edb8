"""Pages that only list what a name can mean."""

from __future__ import annotations

import re
from functools import cache

# The template that marks such pages, and its usual aliases, on the Wikipedias of these languages.
# The English names are understood on all of them. To add a language, add a line.
TEMPLATES: dict[str, str] = {
    "en": "disambiguation|disambig|dab|disamb|disambiguation page|disambiguation cleanup|hndis|"
    "human name disambiguation|geodis|place name disambiguation|airport disambiguation|"
    "school disambiguation|letter-number combination disambiguation|mathdab|roaddis|"
    "station disambiguation|numberdis|letter disambiguation|chinese title disambiguation",
    "ar": "توضيح|صفحة توضيح",
    "bg": "пояснение",
    "bn": "দ্ব্যর্থতা নিরসন",
    "ca": "desambiguació",
    "cs": "rozcestník",
    "da": "flertydig",
    "de": "begriffsklärung",
    "el": "αποσαφήνιση",
    "eo": "apartigilo",
    "es": "desambiguación",
    "et": "täpsustus",
    "eu": "argipen",
    "fa": "ابهام‌زدایی",
    "fi": "täsmennyssivu",
    "fr": "homonymie|homonymie de personnes|paronymie",
    "gl": "homónimos",
    "he": "פירושונים",
    "hi": "बहुविकल्पी|बहुविकल्पी शब्द",
    "hr": "razdvojba",
    "hu": "egyért|egyértelmű",
    "id": "disambiguasi",
    "it": "disambigua",
    "ja": "曖昧さ回避|aimai|人名の曖昧さ回避|地名の曖昧さ回避",
    "ko": "동음이의|동명이인|동음이의어|동음이의 문서",
    "la": "discretiva",
    "lv": "nozīmju atdalīšana",
    "nl": "dp|doorverwijspagina",
    "nb": "peker|etydig",
    "no": "peker|etydig",
    "pl": "ujednoznacznienie",
    "pt": "desambiguação",
    "ro": "dezambiguizare",
    "ru": "неоднозначность|многозначность",
    "sh": "višeznačna odrednica",
    "sk": "rozlišovacia stránka",
    "sl": "razločitev",
    "sr": "вишезначна одредница",
    "sv": "förgrening|gren|grensida",
    "th": "แก้กำกวม",
    "tr": "anlam ayrımı",
    "uk": "неоднозначність|багатозначність",
    "vi": "định hướng|trang định hướng",
    "zh": "消歧义|消歧義|消歧义页|消歧義頁",
}
SWITCH = "__DISAMBIG__"
# A name has at most 255 bytes.
TEMPLATE_NAME = re.compile(r"\{\{([^{}|<>\[\]]{1,255})(?=[|}])")


@cache
def names(language: str) -> frozenset[str]:
    """The names, in lower case, of templates that mark disambiguation pages.

    Args:
        language: code of the wiki; the part before the first '-' counts.
    """
    subtag = language.lower().split("-")[0]
    return frozenset(f"{TEMPLATES['en']}|{TEMPLATES.get(subtag, '')}".split("|")) - {""}


def is_disambiguation(wikitext: str, language: str) -> bool:
    """Whether a page bears a template, or the switch, that marks disambiguation pages."""
    if SWITCH in wikitext:
        return True
    marks = names(language)
    return any(
        match[1].strip().replace("_", " ").lower() in marks
        for match in TEMPLATE_NAME.finditer(wikitext)
    )
