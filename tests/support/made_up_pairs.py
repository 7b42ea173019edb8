"""Sentences with translations that a model without training finds now and then."""

import random

from lingraft.crosslingual.retrieval import Pairs

WORDS = "cat dog house tree sea book road hand moon star wind fire"


def made_up(number: int, seed: int = 0) -> Pairs:
    """Sentences and copies of them with a word or two changed: some are found, some not."""
    rng, known = random.Random(seed), WORDS.split()
    english = [" ".join(rng.choices(known, k=rng.randint(3, 7))) for _ in range(number)]
    english = list(dict.fromkeys(english))
    other = []
    for text in english:
        words = text.split()
        for _ in range(2):
            words[rng.randrange(len(words))] = rng.choice(known)
        other.append(" ".join(words) + " !")
    return Pairs("xx", tuple(english), tuple(other))
