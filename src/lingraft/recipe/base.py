"""Ground of every table of a recipe: names, ranges, the strict base class.

Places of layers inserted into a list of layers: arithmetic alone, asked by recipe and models.
The table that says how the embeddings of the target model start, and needs of an initializer: what
must be given for it.

Names of what of a model trains: whole parts, rows of a matrix, layers.

    embeddings, inserted, body …    whole parts (`PARTS`), and all of them
    embeddings.new, embeddings.old  rows of the input matrix: those that the vocabulary added, those
                                    that it kept from the source; embeddings.rows is both
    head.new, head.old, head.rows   the same of an output projection that is not tied to it
    output_bias.new, .old           the same of the output bias
    layers[:2], layers[-2:], layers[0,5], layers[::2]
                                    layers of the grafted model, inserted ones counted
    inserted.gains                  of optimizer.rates alone: the gains that make an inserted block
                                    begin as the identity
    lora                            of optimizer.rates alone: what a phase's LoRA adds

'embeddings' is both matrices, tied or not. Where they are tied, 'embeddings.…' is both too and
'head.…' does not exist.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(strict=False),
]
"""Several names; one may stand by itself."""
Decay = Annotated[float, Field(ge=0.0, lt=1.0)]

STAGE_NAMES = ("corpus", "tokenizer", "graft", "evaluation", "model", "report", "baselines")
"""Folders of a run; no phase can have one of these names."""

PARTS = (
    "embeddings",
    "output_bias",
    "positions",
    "embedding_norm",
    "inserted",
    "adapters",
    "cross_attention",
    "body",
    "head",
)
# Keys of embeddings.INITIALIZERS and objectives.OBJECTIVES, spelt out for the type checker; a test
# holds them equal.
Initializer = Literal[
    "random",
    "random-statistics",
    "match",
    "dictionary",
    "mean",
    "first-piece",
    "focus",
    "wechsel",
    "omp",
    "token-distillation",
]
Objective = Literal["mlm", "ca_mlm", "tlm", "denoise", "clm"]
READ_PAIRS = ("ca_mlm", "tlm")
"""Objectives that read pairs, not sentences."""


class Section(BaseModel):
    """A table of a recipe: frozen, strict, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Keys(Section):
    """Keys of a command that has no recipe; their docstrings are its help."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def stage_order(phases: Iterable[str]) -> list[str]:
    """Return the stages of a run with these phases, in order; the report is written after them."""
    return ["corpus", "tokenizer", "graft", *phases, "evaluation", "model"]


class Places(NamedTuple):
    """Places of inserted layers, as [graft] says them.

    Source: before and after all layers, Lee et al. 2021, §3.3; after every k-th, LLaMA Pro (Wu et
    al. 2024).
    """

    before: int = 0
    """Layers before the first source layer."""
    after: int = 0
    """Layers after the last, behind what `every` puts there."""
    every: int = 0
    """Insert a layer after every k-th source layer; 0 puts none between them."""

    def number(self, num_layers: int) -> int:
        """Return how many layers are inserted into a source list of so many."""
        between = num_layers // self.every if self.every else 0
        return self.before + self.after + between

    def source_layers(self, depth: int) -> int:
        """Return how many layers of a target list of `depth` were the source's."""
        inner = depth - self.before - self.after
        return inner - inner // (self.every + 1) if self.every else inner

    def neighbours(self, num_layers: int) -> list[tuple[int, bool]]:
        """Return a source layer for each layer of the target, and whether that one is inserted.

        An inserted layer has the source layer next to it: the first one behind those before all,
        the one before it elsewhere.
        """
        layers = [(0, True)] * self.before
        for index in range(num_layers):
            layers.append((index, False))
            if self.every and (index + 1) % self.every == 0:
                layers.append((index, True))
        return layers + [(num_layers - 1, True)] * self.after

    def inserted(self, depth: int) -> frozenset[int]:
        """Return the indices of the inserted layers in a target list of `depth`."""
        layers = self.neighbours(self.source_layers(depth))
        return frozenset(index for index, (_, is_new) in enumerate(layers) if is_new)


MATRICES = ("embeddings", "head", "output_bias")
"""Matrices with a row for each piece of the vocabulary."""
Rows = Literal["new", "old", "rows"]
ROWS = {f"{matrix}.{rows}": (matrix, rows) for matrix in MATRICES for rows in ("new", "old")}
ROWS |= {f"{matrix}.rows": (matrix, "rows") for matrix in ("embeddings", "head")}
GAINS, LORA = "inserted.gains", "lora"
LAYERS = re.compile(r"layers\[(.+)\]")
ITEM = re.compile(r"-?\d{1,4}|(-?\d{1,4})?:(-?\d{1,4})?(:-?[1-9]\d{0,3})?")


@dataclass(frozen=True)
class Selector:
    """A parsed name of this kind."""

    name: str
    part: str | None = None
    """A whole part."""
    matrix: str | None = None
    """Name of one of `MATRICES`, with `rows`."""
    rows: Rows | None = None
    items: tuple[str, ...] = ()
    """Numbers and slices of layers."""

    @property
    def depth(self) -> int:
        """Return how narrow the selector is: of two that name a weight the narrower one counts."""
        if self.part is not None:
            return 2 if self.part == GAINS else 0
        return 1 if self.items or self.rows == "rows" else 2

    def layers(self, count: int) -> frozenset[int]:
        """Return the layers that the selector names, of `count`.

        Raises:
            IndexError: one does not exist.
        """
        indices: set[int] = set()
        for item in self.items:
            if ":" in item:
                ends = [int(text) if text else None for text in item.split(":")]
                indices |= set(range(count)[slice(*ends)])
            else:
                indices.add(range(count)[int(item)])
        return frozenset(indices)


def selector(name: str) -> Selector:
    """Read a name.

    Raises:
        ValueError: it is none.
    """
    if name in (*PARTS, "all", GAINS, LORA):
        return Selector(name, part=name)
    if name in ROWS:
        matrix, rows = ROWS[name]
        return Selector(name, matrix=matrix, rows=cast("Rows", rows))
    match = LAYERS.fullmatch(name)
    items = tuple(item.strip() for item in match[1].split(",")) if match else ()
    if items and all(ITEM.fullmatch(item) for item in items):
        return Selector(name, items=items)
    raise ValueError(
        f"must be {', '.join(repr(part) for part in PARTS)} or 'all', "
        f"rows as 'embeddings.new', or layers as 'layers[:2]'; got '{name[:60]}'"
    )


def _trained(name: str) -> str:
    if name in (GAINS, LORA):
        raise ValueError(f"'{name}' is a name of optimizer.rates, not of what trains")
    return selector(name).name


def _rated(name: str) -> str:
    if name == "all":
        raise ValueError("'all' has optimizer.learning_rate; name parts here")
    return selector(name).name


def _layered(name: str) -> str:
    layers = selector(name)
    if not layers.items and layers.part not in ("body", "inserted"):
        raise ValueError(f"LoRA is for layers: 'body', 'inserted' or 'layers[…]'; got '{name}'")
    return name


Part = Annotated[str, AfterValidator(_trained)]
"""Part that a phase can train."""
RatedPart = Annotated[str, AfterValidator(_rated)]
"""Part that can have a learning rate of its own."""
LayerPart = Annotated[str, AfterValidator(_layered)]
"""Part that LoRA can be put on."""


def described(train: Sequence[str], lora: Sequence[str] = ()) -> str:
    """Say what trains, in words, for tables."""
    names = ["all" if "all" in train else ", ".join(train)] if train else []
    return ", ".join([*names, *([f"LoRA on {' and '.join(lora)}"] if lora else [])])


def trained_parts(train: Sequence[str], phase: str) -> frozenset[str]:
    """Return the parts that a phase trains, 'all' written out.

    Rows and layers stay as they are named.

    Raises:
        RecipeError: 'all' is mixed with other names, a name occurs twice, or one lies in another.
    """
    if tuple(train) == ("all",):
        return frozenset(PARTS)
    inside = {"all", *train} if "all" in train else set[str]()
    for name in train:
        matrix, dot, rows = name.partition(".")
        around = {matrix, "embeddings"} - {"head"} if matrix == "head" else {matrix}
        around |= {f"{matrix}.rows"} if rows != "rows" else set()
        inside |= around.intersection(train) if dot else set()
    if inside or len(set(train)) < len(train):
        raise RecipeError(
            f"phase '{phase}': train names a part twice, or one that lies in another: "
            f"{', '.join(train)}; leave one of them out"
        )
    return frozenset(train)


DRAWN = ("random", "random-statistics")
"""Initializers that take no row of the source."""
"""Initializers that run the source, which has to be a causal language model."""
FROM_OUTSIDE = (
    "lexicons", "source_first", "source_text", "source_vectors", "target_vectors", "max_sentences",
    "vector_width", "vector_units",
)  # fmt: skip
"""Keys of what some initializers learn from, beside the source model and the text."""


class Embeddings(Section):
    """Embedding rows to start with, and what their initializer learns from."""

    init: Initializer = "random"
    """Initializer of the new word embeddings: `lingraft show initializers`."""
    output_init: Initializer | None = None
    """Initializer of the new rows of the output projection, where it is not tied to the word
    embeddings; None makes them from the same rows as `init`."""
    copy_special_tokens: bool | None = None
    """Copy the rows of the special tokens (all but padding) from the source, by role. If left out,
    all initializers do this but 'random' and 'random-statistics', which draw every row (the
    paper)."""
    lexicons: Names = ()
    """Bilingual dictionaries, target-language word first: TSV, or two words a line as in MUSE."""
    source_first: bool = False
    """The source language stands in the first column of `lexicons`."""
    source_text: Names = ()
    """Text of the source language, to learn static vectors from (files as in corpus.text)."""
    source_vectors: str | None = None
    """Static word vectors of the source language (.vec: word2vec's text format); else learnt."""
    target_vectors: str | None = None
    """Static word vectors of the target language; learnt from the training text where absent."""
    max_sentences: Annotated[int, Field(ge=1)] = 1_000_000
    """Learn static vectors from at most this many sentences a language; of the target's, never from
    more than the phases train on."""
    vector_width: Annotated[int, Field(ge=1)] = 300
    """Numbers in a static vector of a piece, as in FOCUS."""
    vector_units: Annotated[int, Field(ge=1)] | None = None
    """Pieces read for static vectors; None: all text 3 times, up to 20 for five million."""

    @property
    def initializers(self) -> tuple[Initializer, ...]:
        """Return the initializers of the word embeddings and, where it has its own, the output."""
        output = self.output_init
        return (self.init,) if output is None else (self.init, output)

    @property
    def copies_special_tokens(self) -> bool:
        """Return whether the rows of the special tokens are copied, said or not."""
        if self.copy_special_tokens is None:
            return self.init not in DRAWN
        return self.copy_special_tokens

    @property
    def decisive(self) -> Embeddings:
        """Return the table for fingerprints: a default written out is the same as one left out."""
        return self.model_copy(update={"copy_special_tokens": self.copies_special_tokens or None})


def lacking(section: Embeddings, initializer: str) -> str | None:
    """Return what an initializer needs that is not there, and what to do; None where all is."""
    if initializer in ("dictionary", "wechsel") and not section.lexicons:
        return "needs a bilingual lexicon; set embeddings.lexicons"
    if initializer == "wechsel" and not (section.source_vectors or section.source_text):
        return "needs embeddings.source_vectors, or embeddings.source_text to learn them from"
    if learns_vectors(section, initializer) and importlib.util.find_spec("gensim") is None:
        return 'learns static vectors by gensim; pip install "lingraft[vectors]", or set .vec files'
    return None


def check_initializers(section: Embeddings) -> None:
    """Refuse initializers that lack what they need.

    Raises:
        RecipeError: one does.
    """
    for initializer in section.initializers:
        if need := lacking(section, initializer):
            raise RecipeError(f"embeddings: '{initializer}' {need}, or use another initializer")


def learns_vectors(section: Embeddings, initializer: str) -> bool:
    """Return whether an initializer learns static vectors, since none are given."""
    if initializer not in ("focus", "omp", "wechsel"):
        return False
    return not (section.target_vectors and (initializer != "wechsel" or section.source_vectors))
