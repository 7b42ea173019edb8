"""Entity markers in a sentence, and the pieces after them made what they were."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import RelationExample

SUBJECT = ("<subj>", "</subj>")
OBJECT = ("<obj>", "</obj>")
MARKERS = (*SUBJECT, *OBJECT)
"""To be added to the tokenizer as special tokens."""

Pieces = Literal["sentencepiece", "wordpiece", "byte-level"]
WORD_START = {"sentencepiece": "▁", "byte-level": "Ġ"}


def mark(example: RelationExample) -> str:
    """The sentence with markers around subject and object; nothing else changes."""
    inserted = [
        (example.subject.start, SUBJECT[0]),
        (example.subject.end, SUBJECT[1]),
        (example.object.start, OBJECT[0]),
        (example.object.end, OBJECT[1]),
    ]
    # From the end, so that positions hold; where one entity ends at the start of the other, the
    # end marker comes first in the text.
    text = example.text
    for at, marker in sorted(
        inserted, key=lambda pair: (pair[0], pair[1] in _STARTS), reverse=True
    ):
        text = text[:at] + marker + text[at:]
    return text


def spaced(marked: str, pieces: Pieces) -> str:
    """The text with the space before an entity between start marker and entity.

    Tokenizers cut a text at special tokens, and a word start is a space in the same part. Where
    entity and text begin together, SentencePiece's word start is a space as well.

    Args:
        marked: what `mark` gave.
        pieces: how the tokenizer writes the start of a word.
    """
    moved = _SPACE_BEFORE.sub(r"\2\1", marked)
    if pieces == "sentencepiece":
        moved = _AT_THE_START.sub(r"\1 ", moved)
    return moved


def glue(tokens: Sequence[str], marked: str, pieces: Pieces) -> list[str]:
    """Tokens in which what follows an end marker without a space begins no word.

    A tokenizer starts afresh after a special token and takes "가" of "조지가" for a word.
    SentencePiece and byte-level pieces lose their word-start mark (a piece that is only the mark
    goes away), WordPiece ones that begin with a Hangul syllable get "##".

    Args:
        tokens: of `marked`, special tokens of the model allowed.
        marked: what `mark` or `spaced` gave.
        pieces: how the tokenizer writes the start of a word.

    Differs from the reference: a marker at the very end of the sentence is no error.
    """
    fixed = list(tokens)
    for marker in (SUBJECT[1], OBJECT[1]):
        after = marked.find(marker) + len(marker)
        if marker not in fixed or after >= len(marked) or marked[after].isspace():
            continue
        at = fixed.index(marker) + 1
        if at >= len(fixed) or fixed[at] in MARKERS:
            continue
        fixed[at : at + 1] = _continued(fixed[at], pieces)
    return fixed


def _continued(token: str, pieces: Pieces) -> list[str]:
    if pieces == "wordpiece":
        return [f"##{token}" if "가" <= token[0] <= "힣" else token]
    rest = token.removeprefix(WORD_START[pieces])
    return [rest] if rest else []


_STARTS = (SUBJECT[0], OBJECT[0])
_SPACE_BEFORE = re.compile(rf"(\s+)({'|'.join(_STARTS)})")
_AT_THE_START = re.compile(rf"^({'|'.join(_STARTS)})(?!\s)")
