"""Mask personal data in text: e-mail addresses, telephone numbers, IP addresses.

What is found by its form alone: names, postal addresses and numbers written in words stay. Better
a number too few than a date or version number lost, so telephone numbers count only where they
are written with separators and a leading zero, a plus or an area code in brackets.
"""

from __future__ import annotations

import ipaddress
from collections import Counter

import regex

EMAIL, PHONE, IP = "e-mail address", "telephone number", "IP address"
PLACEHOLDERS = {EMAIL: "<email>", PHONE: "<phone>", IP: "<ip>"}

# Possessive and bounded, so that the time is linear in the text.
EMAIL_PATTERN = regex.compile(
    r"(?<![\w.+%-])[\p{L}\p{N}_](?:[\w.+%-]{0,62}+(?<=[\p{L}\p{N}_+-]))?@"
    r"(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.){1,8}"
    r"(?:[a-z]{2,24}|[A-Z]{2,24})(?![A-Za-z0-9-])"
)
# Numbers end where another script begins: "8.8.8.8로", "電話03-1234-5678まで".
WORDLIKE = r"\p{Latin}\p{N}_"
# A plus and 8 to 15 digits (ITU-T E.164); a zero and 8 to 11 more digits in two or more groups;
# an area code in brackets; the North American 3-3-4.
NUMBER = (
    r"(?:\+[1-9](?:[ .()-]{0,2}\d){7,14}"
    r"|0\d{1,4}[ .-]\d{3,4}[ .-]\d{3,4}"
    r"|0\d{1,4}(?:[ .-]\d{2}){4}"
    r"|\(0?\d{1,4}\) ?\d{3,4}[ .-]\d{3,4}"
    r"|[2-9]\d{2}[.-][2-9]\d{2}[.-]\d{4})"
)
# Several may have a stroke between them; before the first a point stands for "Tel.", but for a
# digit's it is that of a version.
PHONE_PATTERN = regex.compile(
    rf"(?<![{WORDLIKE}+/-]|\p{{N}}\.){NUMBER}(?:/{NUMBER})*(?![\d-]|[./]\d)"
)
# Digits that nine or more make a number, fewer a date ("01-02-2020" has eight).
MIN_PHONE_DIGITS = 9
IPV4_PATTERN = regex.compile(
    rf"(?<![{WORDLIKE}.])(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?![{WORDLIKE}]|\.\d)"
)
IPV6_PATTERN = regex.compile(
    rf"(?<![{WORDLIKE}:.])(?:[0-9A-Fa-f]{{0,4}}:){{2,7}}[0-9A-Fa-f]{{0,4}}(?![{WORDLIKE}:])"
)


def mask(text: str) -> tuple[str, Counter[str]]:
    """Put placeholders where e-mail addresses, telephone numbers and public IP addresses stand.

    Private, loopback and documentation addresses stay: they name nobody, and manuals are full of
    them. Applying it twice changes nothing.

    Returns:
        The text, and how often each kind (EMAIL, PHONE, IP) was masked.
    """
    counts: Counter[str] = Counter()
    if "@" in text:
        text, count = EMAIL_PATTERN.subn(PLACEHOLDERS[EMAIL], text)
        counts[EMAIL] += count

    def replace_phones(match: regex.Match[str]) -> str:
        phones = str(match.group()).split("/")
        for place, phone in enumerate(phones):
            if sum(map(str.isdecimal, phone)) >= MIN_PHONE_DIGITS:
                phones[place] = PLACEHOLDERS[PHONE]
                counts[PHONE] += 1
        return "/".join(phones)

    def replace_address(match: regex.Match[str]) -> str:
        address = str(match.group())
        try:
            public = ipaddress.ip_address(address).is_global
        except ValueError:
            return address
        # "2002::" is the name of a network, not of a machine.
        public = public and not address.endswith("::")
        counts[IP] += public
        return PLACEHOLDERS[IP] if public else address

    text = PHONE_PATTERN.sub(replace_phones, text)
    if "." in text:
        text = IPV4_PATTERN.sub(replace_address, text)
    if ":" in text:
        text = IPV6_PATTERN.sub(replace_address, text)
    return text, +counts  # without kinds that were not found
