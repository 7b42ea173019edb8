"""Tell which scripts a language is written in, and how many letters belong to them.

Identify the language of texts by an optional model that comes with its package.

The model is py3langid's (BSD-3-Clause, 4.5 MB, no download). It spreads its probability over near
languages: of short good sentences of Xhosa or Slovene it gives a third less than one half to their
own language, though none has more. So what counts here is the likeliest other language alone, and
what the rest of the document is in. The figures are in the repository (research/pages/corpora.md).
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import langcodes
import numpy as np
import regex
from langcodes.data_dicts import LIKELY_SUBTAGS
from langcodes.tag_parser import LanguageTagError

from lingraft.errors import RecipeError
from lingraft.optional import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]


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


def shares(sentences: Sequence[str], scripts: tuple[str, ...]) -> tuple[Floats, Floats]:
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

    def count(bit: int) -> Floats:
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


MIN_CHARACTERS = 20
MAX_CHARACTERS = 4_000
MIN_PROBABILITY = 0.5

PRIOR = 2.0
"""Factor by which the language asked for is likelier than another before a text is looked at."""
MOST_CONTEXT = 5.0
"""Most that the rest of a document may raise or lower that by; more would keep quotations."""
LEAST_CONTEXT = 0.02
"""Added to each language's share of a document: a share of much less says nothing."""

# What the model calls by another name than BCP 47, or tells apart though a corpus of the first
# holds the others too: members of macrolanguages that share a written standard.
SAME = (
    {"zh", "yue", "wuu", "hak", "nan", "gan", "lzh", "cdo", "hsn"},
    {"no", "nb", "nn"},
    {"sh", "hr", "sr", "bs", "cnr"},
    {"ar", "arz", "ary", "apc", "ajp", "acm", "acq", "aeb", "ars"},
    {"fa", "pes", "prs"},
    {"ms", "zsm", "zlm"},
    {"sw", "swh"},
    {"lv", "lvs"},
    {"et", "ekk"},
    {"ku", "kmr"},
)


class LanguageIdentifier:
    """A model that tells whether texts are in one language.

    Args:
        language: BCP 47 code.

    Attributes:
        mix: how many of the texts looked at were most likely in which language, by the model's
            codes.

    Raises:
        DataError: the package py3langid is not installed.
        RecipeError: the language code is not valid, or the model does not know the language.
    """

    def __init__(self, language: str) -> None:
        subtag = language_subtag(language)
        accepted = set(next((group for group in SAME if subtag in group), {subtag}))
        accepted.add(str(langcodes.get(subtag).prefer_macrolanguage().language))
        self.model = _model()
        self.labels: list[str] = self.model.labels
        self.mix: Counter[str] = Counter()
        # The model's tl is fil in the registry of languages, its kik ki.
        self.accepted = {
            label for label in self.labels if {label, str(langcodes.get(label).language)} & accepted
        }
        if not self.accepted:
            raise RecipeError(
                f"language: '{language}' is not among the {len(self.labels)} languages that "
                "the language identification model knows; switch language identification off"
            )
        self.own = np.array([label in self.accepted for label in self.labels])

    def foreign(self, texts: Sequence[str], documents: Numbers | None = None) -> NDArray[np.bool_]:
        """Return which texts are in another language.

        A text shorter than `MIN_CHARACTERS` is never called foreign, since names and headings
        cannot be told apart; of a long one the first `MAX_CHARACTERS` are looked at.

        Args:
            texts: sentences, say.
            documents: the number of each text's document: the others of the same document are
                evidence of its language. None takes each text by itself.

        Returns:
            bool, an entry a text; True is to be dropped: beside some other language, the language
            and its varieties together have a probability below `MIN_PROBABILITY`.
        """
        foreign = np.zeros(len(texts), np.bool_)
        long = [place for place, text in enumerate(texts) if len(text) >= MIN_CHARACTERS]
        if not long:
            return foreign
        probabilities_NL = np.array([self._probabilities(texts[place]) for place in long])
        owners = np.arange(len(long)) if documents is None else documents[long]
        own_N1 = probabilities_NL[:, self.own].sum(1, keepdims=True)
        others_NL = probabilities_NL / self._prior(probabilities_NL, owners)
        # The varieties of the language are no rivals of it.
        rivals_NL = np.where(self.own, 0.0, others_NL)
        foreign[long] = (own_N1 * (1 - MIN_PROBABILITY) < rivals_NL * MIN_PROBABILITY).any(1)
        likeliest = np.where(self.own, probabilities_NL, others_NL).argmax(1)
        self.mix.update(self.labels[label] for label in likeliest.tolist())
        return foreign

    def _probabilities(self, text: str) -> list[float]:
        ranked = dict(self.model.rank(text[:MAX_CHARACTERS]))
        return [ranked[label] for label in self.labels]

    def _prior(self, probabilities_NL: Floats, owners: Numbers) -> Floats:
        """Return how much likelier the language is than each one: `PRIOR`, and the context.

        The context is the mean of the probabilities of the document's other texts. A mean of
        probabilities, unlike one of their logarithms, does not let the English lines of a
        document decide between Macedonian and Bulgarian.
        """
        _, document, counts = np.unique(owners, return_inverse=True, return_counts=True)
        sums = np.zeros((len(counts), len(self.labels)))
        np.add.at(sums, document, probabilities_NL)
        rest_NL = np.maximum(sums[document] - probabilities_NL, 0) + LEAST_CONTEXT
        own_N1 = rest_NL[:, self.own].sum(1, keepdims=True)
        prior_NL: Floats = np.clip(own_N1 / rest_NL, 1 / MOST_CONTEXT, MOST_CONTEXT)
        prior_NL[counts[document] == 1] = 1.0
        prior_NL *= PRIOR
        return prior_NL


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    langid = require("py3langid.langid", "language identification", "clean")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
