"""What a task's files become: one frozen record an example, of the kind that its task has.

Positions in text are Python character offsets, ends are exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text or a pair of texts with a label (classification, pair) or a score (regression)."""

    id: str
    text: str
    pair: str | None = None
    label: str | None = None
    """None where the benchmark hides it."""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """Characters or words with one tag each."""

    id: str
    units: tuple[str, ...]
    tags: tuple[str, ...] | None
    characters: bool = False
    """Units are the characters of the text, spaces included; otherwise they are its words."""

    @property
    def text(self) -> str:
        """The raw text; words are joined by one space."""
        return ("" if self.characters else " ").join(self.units)


@dataclass(frozen=True, slots=True)
class Entity:
    """A span of a text: `text[start:end]`."""

    start: int
    end: int
    type: str = ""


@dataclass(frozen=True, slots=True)
class RelationExample:
    """A sentence with a subject and an object, and the relation between them."""

    id: str
    text: str
    subject: Entity
    object: Entity
    label: str | None


@dataclass(frozen=True, slots=True)
class ParseExample:
    """The words of a sentence; head of each (1-based, 0 is the root) and its relation to it."""

    id: str
    words: tuple[str, ...]
    pos: tuple[str, ...]
    """One tag a word; of `A+B+C` the last."""
    heads: tuple[int, ...] | None
    relations: tuple[str, ...] | None

    @property
    def text(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Answer:
    """A stretch of a passage."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A question about a passage; no answers at all where the passage does not say."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None
    """None where the benchmark hides them."""
    question_type: int | None = None

    @property
    def text(self) -> str:
        return self.context


@dataclass(frozen=True, slots=True)
class TranslationExample:
    """A text and its translation."""

    id: str
    text: str
    translation: str
    language: str = "und"
    """Of the translation; scores that cut words by a language's rules ask for it."""


Example = (
    TextExample | TaggedExample | RelationExample | ParseExample | SpanExample | TranslationExample
)


def labelled(example: Example) -> bool:
    """Whether the example says what is right."""
    match example:
        case TextExample():
            return example.label is not None or example.score is not None
        case TaggedExample():
            return example.tags is not None
        case RelationExample():
            return example.label is not None
        case ParseExample():
            return example.heads is not None and example.relations is not None
        case SpanExample():
            return example.answers is not None
        case TranslationExample():
            return True


def document(example: Example) -> str:
    """What must not stand on both sides of a cut: the passage, premise or sentence.

    KLUE-NLI has several hypotheses for one premise, KLUE-MRC several questions for one passage:
    cut between them, the test would hold text of the training set.
    """
    return example.text
