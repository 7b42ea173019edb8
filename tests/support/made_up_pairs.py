"""Sentences with translations that a model without training finds now and then."""

import random

from lingraft.crosslingual.retrieval import Pairs

WORDS = (
    "cat",
    "dog",
    "house",
    "tree",
    "sea",
    "book",
    "road",
    "hand",
    "moon",
    "star",
    "wind",
    "fire",
)


def made_up(number: int, seed: int = 0) -> Pairs:
    """Sentences and copies of them with a word or two changed: some are found, some not."""
    rng = random.Random(seed)
    english = [" ".join(rng.choices(WORDS, k=rng.randint(3, 7))) for _ in range(number)]
    english = list(dict.fromkeys(english))
    other = []
    for text in english:
        words = text.split()
        words[rng.randrange(len(words))] = rng.choice(WORDS)
        words[rng.randrange(len(words))] = rng.choice(WORDS)
        other.append(" ".join(words) + " !")
    return Pairs("xx", tuple(english), tuple(other))
