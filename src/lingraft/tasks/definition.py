"""A task as a TOML table: files, columns, labels, metrics, settings (docs/reference/tasks.md).

The built-in tasks (`catalogue`) and a user's own are written in this schema.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from lingraft.recipe.base import Decay, Names, Section

Count = Annotated[int, Field(ge=1)]


Rate = Annotated[float, Field(ge=0, lt=1)]


OFF = ("clip", "patience")
"""Settings that a table turns off with 0; None does it in a task's own."""


LATER = (
    *("check_every", "steps", "batch_unit", "average_last", "dropout", "attention_dropout"),
    *("decay_all", "label_smoothing", "beams"),
)
"""Settings that results from before them lack: as they were, they leave fingerprints alone."""


class Values(Section):
    """Settings of fine-tuning a task."""

    epochs: Count = 5
    batch: Count = 32
    """Examples a step; for spans windows."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    warmup: Annotated[float, Field(ge=0)] = 0.1
    """Below 1 a share of all steps, else a number of steps."""
    max_length: Annotated[int, Field(ge=8)] = 128
    """Tokens of an input, special ones included."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Never on biases and normalisation weights, but with `decay_all`."""
    betas: Annotated[tuple[Decay, Decay], Field(strict=False)] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0)] = 1e-8
    clip: Annotated[float, Field(ge=0)] | None = 1.0
    """Largest gradient norm; None, in a table 0, clips nothing."""
    classifier_dropout: Rate | None = None
    """Before the last layer (`config.classifier_dropout`); None leaves the model's own."""
    schedule: Literal["linear", "constant"] = "linear"
    """Decay after the warm-up, to zero."""
    checks_per_epoch: Count = 1
    """Times an epoch that the selection split is scored."""
    check_every: Count | None = None
    """Optimizer steps between two checks; None goes by `checks_per_epoch`, or with `steps` checks
    ten times."""
    steps: Count | None = None
    """Optimizer steps of the whole training; None goes by `epochs`."""
    batch_unit: Literal["examples", "tokens"] = "examples"
    """Unit of `batch`; of translations the tokens of both sides."""
    average_last: Annotated[int, Field(ge=0)] = 0
    """The result is the mean of the weights at this many last checks; 0 keeps the best check's."""
    dropout: Rate | None = None
    """Everywhere in the model but on attention weights; None leaves the model's own."""
    attention_dropout: Rate | None = None
    decay_all: bool = False
    """Weight decay on biases and normalisation weights too (fairseq)."""
    label_smoothing: Rate = 0.0
    """Share of each target that is spread over the vocabulary, for translations."""
    beams: Count | None = None
    """Beams of final translations, where checks translate greedily; None takes the model's own."""
    patience: Annotated[int, Field(ge=0)] | None = None
    """Stop after this many checks without a better one; None, in a table 0, never stops early."""


class Settings(Values):
    """Settings of a task or a paper: values, all of which hold."""

    source: str = ""
    """Source of the values, and which of them are decided here."""

    def decisive(self) -> dict[str, Any]:
        """Return what of them decides a result; for fingerprints."""
        usual = {key: Settings.model_fields[key].default for key in LATER}
        values = self.model_dump(exclude={"source"})
        return {key: value for key, value in values.items() if value != usual.get(key, ...)}


class Limits(Section):
    """Limits of cutting passages into windows, and of finding answers in them."""

    doc_stride: Count = 128
    """Tokens from the start of a window to the start of the next."""
    max_query: Count = 64
    """Tokens of a question."""
    max_answer: Count = 30
    """Tokens of an answer."""
    null_threshold: float = 0.0
    """By how much "no answer" must be likelier than the best answer to be said."""


class Spans(Limits):
    """The limits of a task, and how many answers of a window are looked at."""

    n_best: int = 20


class Changes(Values, Limits):
    """Changes to a task's own settings: only what was said counts, and is written."""

    @model_serializer(mode="wrap")
    def _what_was_said(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if key in self.model_fields_set}


class Paper(Changes):
    """Settings, and where they are from."""

    source: str = "the recipe"


T = TypeVar("T", Settings, Spans)


def changed(record: T, changes: Changes) -> T:
    """Return settings, or limits of windows and answers, with what differs."""
    names = type(record).model_fields.keys() & {*changes.model_fields_set, "source"}
    values = {key: value for key, value in changes if key in names}
    values |= {key: None for key in OFF if values.get(key) == 0}
    for key, counterpart in (("epochs", "steps"), ("checks_per_epoch", "check_every")):
        if key in values:  # what was said last holds
            values.setdefault(counterpart, None)
    return record.model_copy(update=values)


_TABLES = tomllib.loads(
    resources.files("lingraft.tasks").joinpath("catalogue/translation.toml").read_text("utf-8")
)


USUAL = {"span": Settings(max_length=384), "translation": Settings(**_TABLES["usual"])}
"""Settings of kinds with longer inputs; of passages as SQuAD's script, which `doc_stride` fits."""


OF_TRANSLATION = {
    # not validated: whole numbers stay so in fingerprints
    name: Settings.model_construct(**(table | {"betas": tuple(table.get("betas", (0.9, 0.999)))}))
    for name, table in _TABLES["papers"].items()
}
"""Settings of papers on translation, by name."""

Kind = Literal[
    "classification", "pair", "regression", "tagging", "relation", "parsing", "span", "translation"
]


@dataclass(frozen=True)
class Split:
    """The files of one split: all parts are needed; each part may be spelled in several ways."""

    parts: tuple[tuple[str, ...], ...]
    labelled: bool = True
    """False where the benchmark hides the answers."""


class Hub(Section):
    """Place of a task on the Hugging Face Hub."""

    dataset: str
    config: str | None = None
    revision: str | None = None
    """Branch, tag or commit; None takes the main branch."""
    task: str | None = None
    """Id in the data set's eval.yaml, where it is a benchmark: kept weights then have their scores
    in .eval_results, which the Hub shows."""
    splits: dict[str, str] = {}
    """Our name of a split → the Hub's."""
    elsewhere: dict[str, Hub] = {}
    """Our name of a split → the data set that has it, where it is another."""
    columns: dict[str, str] = {}
    """The Hub's name of a column → the one that the reader expects, where they differ.

    Class labels are mapped by their names, never by their numbers: the order differs."""

    def of(self, split: str) -> Hub | None:
        """Return the data set that has a split; None where none has."""
        place = self.elsewhere.get(split, self)
        return place if split in place.splits else None


def _listed(value: Any) -> Any:
    """Return a list of lists, of which one alone may be given, or one name."""
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    return [value] if value and (is_list or isinstance(value, str)) else value


Spellings = Annotated[Names, Field(min_length=1)]
"""Names of a column: one, or several of which the first that is there counts."""
Lists = Annotated[tuple[Names, ...], BeforeValidator(_listed), Field(strict=False)]
Headers = Lists
"""The columns of TSV files that may lack a header: one list, or one a number of columns."""
Parts = Annotated[Lists, Field(min_length=1)]
"""A file; a list of spellings of its name; or a list of such lists: files that are all needed.

In a benchmark's, a spelling with * stands for all files that it fits, as one part."""


class Files(Section):
    """The files of a task: a user's own relative to the recipe, a benchmark's to its folders."""

    train: Parts | None = None
    """None: a language that a benchmark only tests; one's own task must have it."""
    dev: Parts | None = None
    """Chooses the best checkpoint; None cuts 5 % of train for it."""
    dev_mismatched: Parts | None = None
    """GLUE's MNLI has two development sets."""
    test: Parts | None = None
    """Split that is reported; None reports dev."""


class Columns(Section):
    """The names of the columns, in the official files, in conversions and on the Hub."""

    text: Spellings = ("text",)
    pair: Spellings = ("pair",)
    """The second text of a pair; the translation."""
    label: Spellings = ("label",)
    score: Spellings = ("score",)
    id: Names = ("id",)
    """Rows without one are numbered."""
    words: Spellings = ("words",)
    """Tagging in JSONL: a list of strings."""
    tags: Spellings = ("tags",)
    translation: Spellings = ("translation",)
    """The text in another language, for models that are plugged in (docs/guides/translation.md)."""
    translation_pair: Spellings = ("translation_pair",)
    """And the second text."""
    text_code: Names = ("text_code",)
    """Translation, training: the code of the row's text, where it is not the first of `codes`."""
    pair_code: Names = ("pair_code",)
    """And that of its translation."""


class Definition(Paper):
    """Task as its table in TOML defines it."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
    """A folder is called so."""
    kind: Kind
    files: Files
    """CSV, TSV or JSONL; tagging: JSONL, CoNLL (a word a line, its tag last, gaps between
    sentences) or CoNLL-U; span: JSON like SQuAD's, or JSONL with id, question, context, answers."""
    language: str = "und"
    """Language of the text; of translations, that of the target."""
    codes: Annotated[tuple[str, str], Field(strict=False)] | None = None
    """Translation: what the tokenizer of a model of many languages calls source and target."""
    new_code: str | None = None
    """Translation: add the one of `codes` that the model lacks. Its embedding is this code's, say a
    related language's, or with 'mean' the mean of all codes'."""
    raw: str | None = None
    """Translation: a text in the target language, a sentence a line, that is translated back."""
    columns: Columns = Columns()
    translations: Files | None = None
    """The same examples, by their ids, in another language; answers may be missing. Columns do it
    too."""
    aligned: bool = False
    """Examples with the same id in two of its languages are translations of each other."""
    labels: Names = ()
    """Empty takes those of the training file, sorted."""
    aliases: dict[str, str] = {}
    """Other spellings of labels."""
    metrics: Names = ()
    """Empty takes all that the kind has."""
    selection: str | None = None
    """The score that chooses the best checkpoint; None takes the first of the first metric."""
    has_pair: bool = False
    """Regression on pairs of texts."""
    score_range: Annotated[tuple[float, float], Field(strict=False)] | None = None
    """Lowest and highest score."""
    header: Headers = ()
    """The columns of TSV files that may lack a header."""
    only: dict[str, re.Pattern[str]] = {}
    """Column → regular expression: rows whose value it does not fit as a whole are of another
    language. Rows without the column stay."""
    prefix: str = ""
    """Tagging: taken off the words of a file in which all words have it (WikiAnn's `de:Berlin`)."""
    drop_ragged: bool = False
    """Leave out rows of TSV files with another number of columns than the header."""
    format: Literal["klue-ner", "universal-dependencies"] | None = None
    """Files of a format of its own."""
    hidden: Annotated[tuple[Literal["test"], ...], Field(strict=False)] = ()
    """Splits whose answers the benchmark hides."""
    evaluation: Names = ()
    """The splits that are reported; empty takes test, or dev where there is none."""
    headline: Names = ()
    """The scores that tables show."""
    title: str = ""
    version: str = "the user's own"
    citation: str = ""
    licence: str = "the user's own"
    files_from: str = "you (the recipe names them)"
    folders: Names = ()
    """Folders of the data directory in which the files may lie."""
    hub: Hub | None = None
    papers: dict[str, Paper] = {}
    """Settings of other papers."""
    note: str = ""
