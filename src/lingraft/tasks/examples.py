"""Examples of tasks, a frozen record each, and what a model predicts for them.

A prediction is saved as one JSON object a line, matched by the example's id. Positions in text are
Python character offsets, ends are exclusive.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic import TypeAdapter

from lingraft.errors import DataError
from lingraft.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


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
    """Tag of each word; of `A+B+C` the last."""
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
    """Language of the translation; scores that cut words by a language's rules ask for it."""
    codes: tuple[str, str] | None = None
    """Codes of both, where they are not the task's; a model of many languages learns them too."""


Example = (
    TextExample | TaggedExample | RelationExample | ParseExample | SpanExample | TranslationExample
)


Examples: TypeAlias = "Sequence[Example]"
ANSWERS = ("label", "score", "tags", "heads", "answers", "translation")
"""Fields of examples that say what is right."""


def labelled(example: Example) -> bool:
    """Tell whether the example says what is right."""
    return any(getattr(example, field, None) is not None for field in ANSWERS)


def document(example: Example) -> str:
    """Return what must not stand on both sides of a cut: the passage, premise or sentence.

    KLUE-NLI has several hypotheses for one premise, KLUE-MRC several questions for one passage:
    cut between them, the test would hold text of the training set.
    """
    return example.text


Saved = TypeVar("Saved")


@dataclass(frozen=True, slots=True)
class LabelPrediction:
    """A label; `probabilities` follow the order of the task's labels, or are empty."""

    id: str
    label: str
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ScorePrediction:
    """A number, raw: neither clipped nor squashed."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """A tag for every unit of the example, spaces included."""

    id: str
    tags: tuple[str, ...]
    edges: tuple[str, str] = ("O", "O")
    """Tags at the first and the last (padding) position, which KLUE's reference also scores."""
    covered: int | None = None
    """Units before the input was cut off; None if it was not."""


@dataclass(frozen=True, slots=True)
class ParsePrediction:
    """Head (1-based, 0 is the root) and relation of every word."""

    id: str
    heads: tuple[int, ...]
    relations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpanPrediction:
    """The answer's text: empty for "the passage does not say", None for no prediction at all."""

    id: str
    text: str | None


@dataclass(frozen=True, slots=True)
class TranslationPrediction:
    """A translation, as the tokenizer writes it out."""

    id: str
    translation: str


Prediction = (
    LabelPrediction
    | ScorePrediction
    | TagPrediction
    | ParsePrediction
    | SpanPrediction
    | TranslationPrediction
)


def align(examples: Examples, predictions: Iterable[Prediction]) -> list[Prediction]:
    """Return the predictions in the order of the examples.

    A question without a prediction counts as wrong (XTREME's rule); for the other kinds a
    missing prediction is an error.

    Raises:
        DataError: an example has no prediction, or a prediction no example.
    """
    by_id = {prediction.id: prediction for prediction in predictions}
    answered: list[Prediction] = []
    for example in examples:
        if example.id not in by_id and not isinstance(example, SpanExample):
            raise DataError(f"example {example.id}: no prediction; evaluate the model again")
        answered.append(by_id.pop(example.id, SpanPrediction(example.id, None)))
    if by_id:
        raise DataError(f"prediction {next(iter(by_id))}: is of another split, it has no example")
    return answered


def save(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write one JSON object a line; the file appears when it is complete."""
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in predictions)
    write_text(path, "".join(lines))


def load(path: Path) -> list[Prediction]:
    """Read what `save` wrote.

    Raises:
        DataError: a line is not a prediction.
    """
    kind: Any = Prediction
    wrong = "is not a saved prediction; evaluate the model again to write the file anew"
    return load_lines(path, partial(built, kind), wrong)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def built(kind: type[Saved], fields: dict[str, Any]) -> Saved:
    """Make a record of its fields in JSON; of a union the record that has these fields."""
    of_kind: Any = kind  # functools does not know that a class has a hash
    record: Saved = _adapter(of_kind).validate_python(fields)
    return record


def load_lines(path: Path, make: Callable[[dict[str, Any]], Saved], wrong: str) -> list[Saved]:
    """Read records that are saved as one JSON object a line.

    Args:
        path: the file.
        make: of the fields of a line.
        wrong: what is said of a line of which it cannot be made.

    Raises:
        DataError: there is such a line.
    """
    loaded: list[Saved] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                loaded.append(make(json.loads(line)))
            except (ValueError, AttributeError, TypeError, KeyError):
                raise DataError(f"{path}: line {number}: {wrong}") from None
    return loaded
