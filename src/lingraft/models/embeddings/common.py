"""Ground of all initializers: drawing, padding, special tokens, where each row came from.

Shape letters: V source vocabulary, U target vocabulary, D width of the embeddings.

Material of initializers beside the two vocabularies: tokenizers, text, lexicons, vectors.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.files import write_text
from lingraft.tokenizer.vocabulary import Canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft import recipe
    from lingraft.models.families import Family
    from lingraft.tokenizer.vocabulary import Vocabulary


STANDARD_DEVIATION = 0.02
FRESH = -1
RULES = (
    *("exact", "nfkc", "lower", "accents", "dictionary", "special", "mean", "combined", "learnt"),
    *("kept", "pad", "unused", "fresh"),
)
SOURCES_WRITTEN = 8
HEADER = "target_id\tpiece\trule\tsource_id\tsource_piece\tsources"
"""Columns of provenance.tsv."""
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Combination(NamedTuple):
    """A new row as a weighted sum of rows of the source."""

    source_ids: NDArray[np.int64]
    """[K] each id once."""
    weights: NDArray[np.float32]
    """[K]"""
    rule: str = "combined"

    @classmethod
    def mean(cls, source_ids: Iterable[int], rule: str = "mean") -> Combination:
        """Return the mean of rows; a row that is named twice counts twice."""
        ids, counts = np.unique(np.fromiter(source_ids, np.int64), return_counts=True)
        return cls(ids, (counts / counts.sum()).astype(np.float32), rule)


@dataclass(frozen=True)
class Provenance:
    """Origin of each row of the new embeddings."""

    rules: tuple[str, ...]
    """[U] one of `RULES` for each target id."""
    source_ids: NDArray[np.int64]
    """[U] the row of the source that was copied, -1 where none was."""
    combinations: Mapping[int, Combination] = field(default_factory=dict)
    """For a target id whose row was combined: of what."""

    @property
    def made(self) -> NDArray[np.int64]:
        """Return the ids of rows that are no copy of the source's; neither padding nor unused."""
        excluded = ("pad", "unused")
        indices = [i for i, rule in enumerate(self.rules) if rule not in excluded]
        ids = np.array(indices, np.int64)
        return ids[self.source_ids[ids] == FRESH]

    def counts(self) -> dict[str, int]:
        """Count the rows by rule, in the order of `RULES`; rules without a row are left out."""
        counts = Counter(self.rules)
        return {rule: counts[rule] for rule in RULES if counts[rule]}

    def carry(self, source_V: torch.Tensor) -> torch.Tensor:
        """Carry values of the source's pieces, such as its output bias, over as the rows were.

        Args:
            source_V: [V] of any floating type.

        Returns:
            [U] float32 on the CPU: the value of the row that was copied, the same weighted sum
            where rows were combined, 0 elsewhere, and of rows that were learnt without.
        """
        carried_U = self._carried(source_V[:, None], torch.zeros(len(self.rules), 1))[:, 0]
        carried_U[[index for index, rule in enumerate(self.rules) if rule == "learnt"]] = 0.0
        return carried_U

    def carry_rows(
        self,
        source_VD: torch.Tensor,
        generator: torch.Generator,
        statistics: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Carry rows of an output projection that is not tied over as the embeddings were.

        Rows without a piece are zero.

        Args:
            source_VD: [V, D] the source's, of any floating type.
            generator: draws the rows that come from nowhere.
            statistics: as in `Plan`: what they are drawn with.

        Returns:
            [U, D] float32 on the CPU.
        """
        fresh_UD = _drawn(len(self.rules), source_VD.shape[1], statistics, generator)
        fresh_UD[[index for index, rule in enumerate(self.rules) if rule == "unused"]] = 0.0
        return self._carried(source_VD, fresh_UD)

    def _carried(self, source_VD: torch.Tensor, target_UD: torch.Tensor) -> torch.Tensor:
        _copy(target_UD, source_VD.detach(), self.source_ids)
        _combine(target_UD, source_VD.detach(), self.combinations)
        return target_UD

    def rows(self, target: Vocabulary, source: Vocabulary) -> Iterator[dict[str, Any]]:
        """Give each row's `target_id`, `piece`, `rule`, `source_id` (-1: none) and `source_piece`.

        `sources` names the rows that a combined row is made of and their weights, `id:weight,…`,
        the `SOURCES_WRITTEN` heaviest.
        """
        for index, (rule, origin) in enumerate(
            zip(self.rules, self.source_ids.tolist(), strict=True)
        ):
            yield {
                "target_id": index,
                "piece": target.pieces[index],
                "rule": rule,
                "source_id": origin,
                "source_piece": source.pieces[origin] if origin != FRESH else "",
                "sources": _heaviest(self.combinations.get(index)),
            }

    def write(self, path: Path, target: Vocabulary, source: Vocabulary) -> None:
        r"""Write `rows` as a TSV table; tabs and line ends in pieces become \t, \n, \r."""
        rows = (map(str, row.values()) for row in self.rows(target, source))
        lines = ["\t".join(text.translate(ESCAPES) for text in row) for row in rows]
        write_text(path, "\n".join([HEADER, *lines]) + "\n")


@dataclass(frozen=True)
class Initialised:
    """New word embeddings and where they came from."""

    target_UD: torch.Tensor
    """[U, D] float32, on the CPU."""
    provenance: Provenance


def _heaviest(combination: Combination | None) -> str:
    if combination is None:
        return ""
    ids, weights, _ = combination
    order = np.argsort(-np.abs(weights), kind="stable")[:SOURCES_WRITTEN]
    return ",".join(f"{ids[place]}:{weights[place]:.4g}" for place in order)


def _copy(target_UD: torch.Tensor, source_VD: torch.Tensor, source_ids: NDArray[np.int64]) -> None:
    copied = torch.from_numpy(source_ids >= 0)
    origins = torch.from_numpy(source_ids)[copied].to(source_VD.device)
    target_UD[copied] = source_VD[origins].to("cpu", torch.float32)


def _combine(
    target_UD: torch.Tensor, source_VD: torch.Tensor, combinations: Mapping[int, Combination]
) -> None:
    if not combinations:
        return
    parts = list(combinations.values())
    sizes = [len(combination.source_ids) for combination in parts]
    target_UD[list(combinations)] = embedding_bag(
        torch.from_numpy(np.concatenate([combination.source_ids for combination in parts])),
        source_VD.to("cpu", torch.float32),
        torch.from_numpy(np.cumsum([0, *sizes[:-1]])),
        mode="sum",
        per_sample_weights=torch.from_numpy(
            np.concatenate([combination.weights for combination in parts])
        ),
    )


class RowPlan(NamedTuple):
    """Plan of an initializer: what each new row is made of."""

    matches: Mapping[int, tuple[str, int]]
    """For a target id, the rule and the source id to copy; special tokens have no place in it."""
    combinations: Mapping[int, Combination] = {}
    """For a target id, the rows of the source to add up; matches go before them."""
    statistics: tuple[torch.Tensor, torch.Tensor] | None = None
    """Mean [D] and standard deviation [D] to draw with; None draws from N(0, 0.02)."""
    learnt: Mapping[int, torch.Tensor] = {}
    """For a target id, a row [D] that was trained; what it is combined of is where it started."""


def build(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    plan: RowPlan,
    *,
    generator: torch.Generator,
    copy_special_tokens: bool,
) -> Initialised:
    """Draw all rows, then copy the matched ones, combine others and set the padding row to zero.

    Sentinels and language codes that both vocabularies have are no pieces of a language: their rows
    are copied whatever the plan. With special tokens, those without a role (of a chat, in reserve)
    and the bytes of a fallback are copied by name. All rows are drawn, whatever is copied
    afterwards, so that a fresh row does not depend on what else was matched.

    Args:
        source_VD: [V, D] the source's word embeddings, of any floating type.
        source: the source's vocabulary, of at most V pieces.
        target: the new vocabulary.
        plan: what is copied and combined.
        generator: where the draws come from.
        copy_special_tokens: also copy the rows of the special tokens, by role or name. The
            padding row stays zero.

    Raises:
        UnsupportedModelError: the source's tokenizer has more pieces than the model has rows.
    """
    if source.size > len(source_VD):
        raise UnsupportedModelError(
            f"the source tokenizer has {source.size} pieces but the model only {len(source_VD)} "
            "embedding rows; "
            "they do not belong together, or the model's embeddings were never resized"
        )
    pad = _padding(target)
    copies = dict(plan.matches) | _specials(source, target, by_role=copy_special_tokens)
    copies.pop(pad, None)
    combined = {
        index: combination
        for index, combination in plan.combinations.items()
        if index not in copies and index != pad
    }
    rules = ["fresh"] * target.size
    source_ids = np.full(target.size, FRESH, dtype=np.int64)
    for index, (rule, origin) in copies.items():
        rules[index], source_ids[index] = rule, origin
    for index, combination in combined.items():
        rules[index] = combination.rule
    target_UD = _drawn(target.size, source_VD.shape[1], plan.statistics, generator)
    for index, piece in enumerate(target.pieces):
        if not piece:
            target_UD[index], rules[index] = 0.0, "unused"
    _copy(target_UD, source_VD.detach(), source_ids)
    _combine(target_UD, source_VD.detach(), combined)
    for index in plan.learnt.keys() & combined.keys():
        target_UD[index], rules[index] = plan.learnt[index], "learnt"
    if pad >= 0:
        target_UD[pad], rules[pad] = 0.0, "pad"
    provenance = Provenance(tuple(rules), source_ids, combined)
    return Initialised(target_UD, provenance)


def _padding(target: Vocabulary) -> int:
    """Return the padding token, if it has no other role in which it is read; else -1."""
    others = {index for role, index in target.specials.items() if role != "pad"}
    pad = target.specials.get("pad", -1)
    return -1 if pad in others else pad


def _specials(
    source: Vocabulary, target: Vocabulary, *, by_role: bool
) -> dict[int, tuple[str, int]]:
    """Return the tokens whose rows are copied whatever the plan, by role and name if wanted."""
    copies: dict[int, tuple[str, int]] = {}
    if by_role:
        copies |= _of_the_same_name(source, target)
        shared = [role for role in target.specials if role in source.specials]
        copies |= {target.specials[role]: ("special", source.specials[role]) for role in shared}
    names = [name for name in target.kept if name in source.kept]
    return copies | {target.kept[name]: ("special", source.kept[name]) for name in names}


def _of_the_same_name(source: Vocabulary, target: Vocabulary) -> dict[int, tuple[str, int]]:
    """Return the pieces of both that no text is matched by: bytes, chat and reserved tokens."""
    source_ids = {
        piece: index
        for index, (piece, form) in enumerate(zip(source.pieces, source.canonical, strict=True))
        if piece and form is None
    }
    forms = source.forms  # of bytes that are no letter by themselves byte-level BPE has pieces
    bytes_of = {f"<0x{byte:02X}>": Canonical(False, bytes([byte])) for byte in range(0x80, 0x100)}
    source_ids |= {
        piece: forms[form]
        for piece, form in bytes_of.items()
        if form in forms and piece not in source_ids
    }
    return {
        index: ("special" if index in target.special_ids else "exact", source_ids[piece])
        for index, (piece, form) in enumerate(zip(target.pieces, target.canonical, strict=True))
        if form is None and piece in source_ids
    }


def _drawn(
    size: int,
    width: int,
    statistics: tuple[torch.Tensor, torch.Tensor] | None,
    generator: torch.Generator,
) -> torch.Tensor:
    target_UD = torch.empty(size, width, dtype=torch.float32)
    if statistics is None:
        return target_UD.normal_(0.0, STANDARD_DEVIATION, generator=generator)
    mean_D, deviation_D = statistics
    return target_UD.normal_(0.0, 1.0, generator=generator).mul_(deviation_D).add_(mean_D)


ORDER = (
    "the target language must come first in each line; "
    "set embeddings.source_first = true if they are the other way round"
)


@dataclass(frozen=True)
class Pretrained:
    """The source model itself; who runs it leaves it as it was."""

    model: PreTrainedModel
    family: Family
    embeddings_UD: torch.Tensor | None = None
    """The target's input rows, where rows of the output projection are wanted; None where input
    rows are."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts of the work for the report; filled in."""


@dataclass(frozen=True)
class Material:
    """Material that an initializer may learn from; each call of `sentences` reads the text anew."""

    source_tokenizer: PreTrainedTokenizerFast
    target_tokenizer: PreTrainedTokenizerFast
    sentences: Callable[[], Iterable[str]]
    """Training text, a sentence a string; at most `embeddings.max_sentences` of each language."""
    resources: recipe.Embeddings
    seed: int
    """Seed of everything that is trained here, whatever the generator of the fresh rows."""
    pretrained: Pretrained | None = None
    """The source model, for what runs it; None where nobody may."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of every initializer."""

    source_VD: torch.Tensor
    """[V, D] the source's word embeddings, of any floating type."""
    source: Vocabulary
    target: Vocabulary
    material: Material | None
    """Material to learn from; most initializers need it."""

    def needed(self, initializer: str) -> Material:
        """Return the material, which an initializer cannot do without.

        Raises:
            RecipeError: there is none.
        """
        if self.material is None:
            raise RecipeError(
                f"embeddings.init: '{initializer}' needs the tokenizers of a source model and of "
                "the target, and there is no source; set source.model, or use 'random'"
            )
        return self.material
