import random
from collections.abc import Sequence

import numpy as np

from lingraft.corpus.cleaning.duplicates import band_keys, signature
from lingraft.corpus.engine.decisions import repeated

rng = random.Random(0)
VOCABULARY = ["".join(rng.choices("가나다라마바사아자차카타파하", k=3)) for _ in range(3_000)]


def text(words: int = 200) -> str:
    return " ".join(rng.choices(VOCABULARY, k=words))


def changed(original: str, words: int) -> str:
    """The text with some words exchanged."""
    pieces = original.split()
    for place in rng.sample(range(len(pieces)), words):
        pieces[place] = "바뀜"
    return " ".join(pieces)


def fresh(texts: Sequence[str]) -> list[bool]:
    """Which texts agree in no band with an earlier one."""
    ranks = np.zeros(len(texts), np.int8)
    again = {
        at
        for keys in np.array([band_keys(text) for text in texts]).T
        for at in repeated(keys, ranks).tolist()
    }
    return [at not in again for at in range(len(texts))]


def test_of_near_duplicates_the_first_is_kept() -> None:
    one, two = text(), text()
    found = fresh([one, two, changed(one, 1), one.upper() + " ", two])
    assert found == [True, True, False, False, False]


def mix(value: int) -> int:
    """SplitMix64's finaliser, in Python's integers."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def test_a_signature_is_what_plain_integers_give() -> None:
    step = 0x9E3779B97F4A7C15
    one = "고양이가  Warm 아랫목에서 잔다 😀 그리고 또 잔다"
    folded = " ".join(one.split()).casefold()
    hashes = set()
    for start in range(len(folded) - 15):
        total = 0
        for character in folded[start : start + 16]:
            total = (total * step + ord(character) + 1) % 2**64
        hashes.add(mix(total) >> 32)
    drawn = [mix(n * step % 2**64) >> 32 for n in range(1, 225)]
    expected = [
        min((value * (factor | 1) + offset) % 2**32 for value in hashes)
        for factor, offset in zip(drawn[:112], drawn[112:], strict=True)
    ]
    assert signature(one).tolist() == expected
