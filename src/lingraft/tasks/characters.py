"""Tags of characters to labels of tokens and back.

`offsets` are those of a fast tokenizer on the raw sentence: start and end of every token in
characters, (0, 0) for special tokens. A labelled token is one that begins a stretch of text:

- special tokens, padding and tokens of nothing but spaces are not labelled;
- of several tokens that begin at one character the last is: a lone `▁` shares its offsets with the
  piece after it, and a character of several bytes may be several tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    Offsets = Sequence[tuple[int, int]]


def labelled_tokens(text: str, offsets: Offsets) -> dict[int, tuple[int, int]]:
    """Token → first character that is not a space, and end; in the order of the tokens."""
    by_start: dict[int, tuple[int, int]] = {}
    for token, (start, end) in enumerate(offsets):
        first = next((i for i in range(start, end) if not text[i].isspace()), None)
        if first is not None:
            by_start[first] = (token, end)
    return {token: (first, end) for first, (token, end) in sorted(by_start.items())}


def token_labels(text: str, tags: Sequence[str], offsets: Offsets) -> list[str | None]:
    """The tag of each token's first character; None (−100 in the loss) for the others.

    Padding has to be None: the token-classification losses of transformers 5 ignore only −100,
    not what the attention mask hides.
    """
    labels: list[str | None] = [None] * len(offsets)
    for token, (first, _) in labelled_tokens(text, offsets).items():
        labels[token] = tags[first]
    return labels


def character_tags(text: str, labels: Sequence[str | None], offsets: Offsets) -> tuple[str, ...]:
    """A tag for every character: the inverse of `token_labels` where no token spans a border.

    The first character of a token gets its label, the others I-X for a label B-X, and the same
    label otherwise; an unknown token is no exception. A character within a word that no token
    covers (the tokenizer drops it) goes on as the one before it. A space is inside an entity if the
    characters on both sides are. What was cut off is O.

    Args:
        text: the raw sentence.
        labels: what the model says of each token; those of tokens without a label are not read.
        offsets: of the tokens.
    """
    tags: list[str | None] = [None] * len(text)
    covered = 0
    for token, (first, end) in labelled_tokens(text, offsets).items():
        label = labels[token]
        assert label is not None
        tags[first:end] = [label, *[_inside(label)] * (end - first - 1)]
        covered = max(covered, end)
    for index in range(covered):
        if text[index].isspace():
            tags[index] = None
        elif tags[index] is None:
            before = tags[index - 1] if index else None
            tags[index] = _inside(before or "O")
    done = [tag or "O" for tag in tags]
    for index in range(1, len(text) - 1):
        if text[index].isspace():
            after = _next(text, done, index)
            if after.startswith("I-") and done[index - 1][2:] == after[2:]:
                done[index] = after
    return tuple(done)


def covered_characters(text: str, offsets: Offsets) -> int:
    """How many characters come before the end of the last token; fewer than all if it was cut."""
    return max((end for _, end in labelled_tokens(text, offsets).values()), default=0)


def _inside(label: str) -> str:
    return f"I{label[1:]}" if label == "B" or label.startswith("B-") else label


def _next(text: str, tags: Sequence[str], index: int) -> str:
    return next((tags[i] for i in range(index, len(text)) if not text[i].isspace()), "O")
