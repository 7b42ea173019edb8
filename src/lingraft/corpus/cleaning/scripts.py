"""Tell which scripts a language is written in, and how many letters belong to them."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

import langcodes
import numpy as np
import regex
from langcodes.data_dicts import LIKELY_SUBTAGS
from langcodes.tag_parser import LanguageTagError

from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

# ISO 15924 codes that stand for several Unicode scripts, or for a variety of one.
COMPOUND = {
    "Aran": ("Arab",),
    "Hanb": ("Hani", "Bopo"),
    "Hans": ("Hani",),
    "Hant": ("Hani",),
    "Hrkt": ("Hira", "Kana"),
    "Jpan": ("Hira", "Kana", "Hani"),
    "Kore": ("Hang", "Hani"),
}
# Unicode's values for "no script in particular".
NO_SCRIPT = {"Zyyy", "Zinh", "Zzzz", "Qaai"}

VISIBLE, LETTER_OR_MARK, LETTER, OWN = 1, 2, 4, 8


def language_subtag(language: str) -> str:
    """Return the bare language of a BCP 47 code: 'zh' of 'zh-Hant-TW'.

    Raises:
        RecipeError: the code is not valid.
    """
    return str(_parse(language).language)


def of_language(
    language: str, scripts: Sequence[str] | None = None, *, warn: bool = True
) -> tuple[str, ...]:
    """Return the Unicode scripts (ISO 15924 codes) that a language is written in.

    Args:
        language: BCP 47 code; a script in it counts ('sr-Latn'), else CLDR's likely one.
        scripts: takes the place of the language's own.
        warn: log a warning where there is none.

    Returns:
        Four-letter codes; none where CLDR does not know the language's script.

    Raises:
        RecipeError: the language or a script is not valid.
    """
    code = _parse(language)
    if scripts is not None:
        return _expand([_checked(script) for script in scripts])
    if code.script:
        return _expand([_checked(code.script)])
    tags = [tag for tag in code.broader_tags() if tag.split("-")[0] != "und"]
    if not any(tag in LIKELY_SUBTAGS for tag in tags):
        if warn:
            _warn_of_script(language)
        return ()
    return _expand([str(code.maximize().script)])


@functools.cache
def _warn_of_script(language: str) -> None:
    """Warn, once in a process, that a language's script is not known."""
    logger.warning(
        "language %r: its script is not known, so no sentence is dropped for its script; "
        'set corpus.scripts, for example ["Latn"]',
        language,
    )


def _parse(language: str) -> langcodes.Language:
    try:
        code = langcodes.Language.get(language)
        if code.is_valid():
            return code
    except LanguageTagError:
        pass
    raise RecipeError(
        f"language: {language!r} is not a BCP 47 code in the registry of languages; "
        'write for example "ko", "zh-Hant" or "sr-Latn"'
    )


def _checked(script: str) -> str:
    title = script.title()
    try:
        if title not in COMPOUND:
            regex.compile(rf"\p{{Script={title}}}")
        if len(title) == 4 and title not in NO_SCRIPT:
            return title
    except regex.error:
        pass
    raise RecipeError(
        f"corpus.scripts: {script!r} is not an ISO 15924 script that Unicode knows; "
        'write for example "Hang", "Latn", "Cyrl" or "Kore"'
    )


def _expand(scripts: Sequence[str]) -> tuple[str, ...]:
    parts = [part for script in scripts for part in COMPOUND.get(script, (script,))]
    return tuple(dict.fromkeys(parts))


@functools.lru_cache(maxsize=8)
def character_classes(scripts: tuple[str, ...]) -> NDArray[np.uint8]:
    """Return the classes of every code point, as bits: VISIBLE, LETTER_OR_MARK, LETTER, OWN.

    OWN is a letter of one of `scripts` by Unicode's Script_Extensions, so that letters that
    scripts share (the Japanese length mark, say) count for each of them.

    Returns:
        uint8, 0x110000 entries.
    """
    classes = np.zeros(0x110000, np.uint8)
    characters = "".join(map(chr, range(0x110000)))
    own = "".join(rf"\p{{scx={script}}}" for script in scripts)
    patterns = [(VISIBLE, r"\S+"), (LETTER_OR_MARK, r"[\p{L}\p{M}]+"), (LETTER, r"\p{L}+")]
    if own:
        patterns.append((OWN, rf"(?V1)[\p{{L}}&&[{own}]]+"))
    for bit, pattern in patterns:
        for match in regex.finditer(pattern, characters):
            classes[match.start() : match.end()] |= bit
    classes.flags.writeable = False
    return classes


def shares(
    sentences: Sequence[str], scripts: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how much of each sentence is letters, and how many of these are of the scripts.

    Counted for all sentences at once by table look-up, which is several times faster than a
    regular expression per sentence.

    Args:
        sentences: not empty, none of them empty.
        scripts: ISO 15924 codes; none counts every letter as the language's own.

    Returns:
        Two float64 arrays with an entry a sentence, in [0, 1]: (letters and marks) / (characters
        that are not white space), and (letters of the scripts) / letters, 1 where there are no
        letters.
    """
    text = "".join(sentences).encode("utf-32-le", "surrogatepass")
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    classes = character_classes(scripts)[np.frombuffer(text, np.uint32)]

    def count(bit: int) -> NDArray[np.float64]:
        return np.add.reduceat((classes & bit) != 0, starts, dtype=np.int64).astype(np.float64)

    visible, letters = count(VISIBLE), count(LETTER)
    own = count(OWN) if scripts else letters
    letter_share = count(LETTER_OR_MARK) / np.maximum(visible, 1)
    script_share = np.where(letters > 0, own / np.maximum(letters, 1), 1.0)
    return letter_share, script_share


MIX_SCRIPTS = (
    "Latn", "Hang", "Hani", "Hira", "Kana", "Bopo", "Cyrl", "Grek", "Arab", "Hebr", "Deva", "Beng",
    "Guru", "Gujr", "Orya", "Taml", "Telu", "Knda", "Mlym", "Sinh", "Thai", "Laoo", "Khmr", "Mymr",
    "Tibt", "Geor", "Armn", "Ethi", "Mong", "Cher", "Cans", "Syrc", "Thaa", "Nkoo", "Tfng", "Java",
)  # fmt: skip
OTHER_SCRIPT = "other"


@functools.lru_cache(maxsize=1)
def _script_numbers() -> NDArray[np.uint8]:
    """Return every code point's number of its script: 0 no letter, 1 … of MIX_SCRIPTS, then other.

    Returns:
        uint8, 0x110000 entries.
    """
    numbers = np.zeros(0x110000, np.uint8)
    characters = "".join(map(chr, range(0x110000)))
    patterns = [r"\p{L}+", *(rf"(?V1)[\p{{L}}&&\p{{sc={script}}}]+" for script in MIX_SCRIPTS)]
    for number, pattern in enumerate(patterns):
        for match in regex.finditer(pattern, characters):
            numbers[match.start() : match.end()] = number or len(MIX_SCRIPTS) + 1
    numbers.flags.writeable = False
    return numbers


def letters_by_script(text: str) -> dict[str, int]:
    """Count how many letters of a text are of which script (Unicode's property Script).

    Returns:
        Counts by ISO 15924 code, 'other' for scripts that few languages are written in; scripts
        that do not occur are left out.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    counts = np.bincount(_script_numbers()[codes], minlength=len(MIX_SCRIPTS) + 2)[1:]
    names = (*MIX_SCRIPTS, OTHER_SCRIPT)
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}
