"""Report of a graft: the account of every tensor, and where every embedding row came from.

Rows that the target has from the source under the same name, whatever an initializer made.

Shape letters: V source vocabulary, U target vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.files import write_json
from lingraft.models.embeddings.common import Initialised, Provenance
from lingraft.recipe.base import ROWS
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from lingraft.models.graft import Account
    from lingraft.recipe import Phase
    from lingraft.tokenizer.vocabulary import Vocabulary


@dataclass(frozen=True, repr=False)
class GraftReport:
    """Report on every tensor of a source, and on where every row of the target came from."""

    facts: dict[str, Any]
    """Counts of the graft stage: parameters by part, layers, rows by rule, notes."""
    account: Account
    provenance: Provenance
    """Origin of word embeddings; of an output projection too that has no initializer of its own."""
    target: Vocabulary
    origin: Vocabulary
    """The source's."""

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """Tell of each tensor once what became of it.

        Rows of `tensor`, `kind` (copied, fresh, resized or dropped), `source`, `shape` and `note`,
        in the order of the target; tensors of the source that are dropped stand last.
        """
        return self.account.rows()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Tell of each embedding row where it came from.

        Rows of `target_id`, `piece`, `rule`, `source_id` (-1: no copy), `source_piece`, `sources`.
        """
        return list(self.provenance.rows(self.target, self.origin))

    @property
    def counts(self) -> dict[str, int]:
        """Count the embedding rows by rule."""
        return self.provenance.counts()

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        """Count embedding rows by rule, tensors by what became of them, parameters by part."""
        kinds = {kind: of["tensors"] for kind, of in self.account.summary().items()}
        parts: dict[str, int] = self.facts["parameters"]["by_part"]
        return {"embedding rows": self.counts, "tensors": kinds, "parameters": parts}

    @property
    def notes(self) -> list[str]:
        """Tell what to know of the account."""
        return self.account.notes

    def __repr__(self) -> str:
        """Return the counts on three lines."""
        lines = [
            f"{name}: " + ", ".join(f"{key} {number:,}" for key, number in of.items() if number)
            for name, of in self.summary.items()
        ]
        return "\n".join((*lines, *self.notes))

    def save(self, folder: Path | str) -> None:
        """Write report.json (the counts and every tensor) and provenance.tsv (every row)."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "report.json", {**self.facts, "tensors": self.tensors})
        self.write_rows(folder)

    def write_rows(self, folder: Path) -> None:
        """Write provenance.tsv."""
        self.provenance.write(folder / "provenance.tsv", self.target, self.origin)


KEPT = "kept"
"""Rule of a row that is the source's own, under the source's own id."""


def new_rows(folder: Path, phase: Phase) -> tuple[bool, ...] | None:
    """Return [V] whether each row is new to the source; None where a phase names no rows.

    Args:
        folder: of the graft stage.
        phase: what trains.
    """
    names = (*phase.train, *phase.optimizer.rates)
    return added_rows(folder) if any(name in ROWS for name in names) else None


def added_rows(folder: Path) -> tuple[bool, ...]:
    """Return [V] whether each row is new to the source.

    Args:
        folder: of the graft stage.
    """
    lines = (folder / "provenance.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    added = [line.split("\t")[2] != KEPT for line in lines]
    rows = read_json(folder / "model" / "config.json")["vocab_size"]
    return tuple(added + [False] * (rows - len(added)))  # kept whole: rows without a piece


def same_pieces(origin: Vocabulary, target: Vocabulary) -> dict[int, int]:
    """Return the source's id for each id of the target with the same piece, or unused in both."""
    source_ids = {piece: index for index, piece in enumerate(origin.pieces) if piece}
    matches = {i: source_ids[piece] for i, piece in enumerate(target.pieces) if piece in source_ids}
    unused = (
        i for i, (a, b) in enumerate(zip(origin.pieces, target.pieces, strict=False)) if not a + b
    )
    return matches | {index: index for index in unused}


def keep_rows(
    rows: Initialised, source_VD: torch.Tensor, matches: Mapping[int, int], rule: str = KEPT
) -> Initialised:
    """Put the source's own rows in the place of others, special tokens and padding too.

    Args:
        rows: rows of the target's pieces.
        source_VD: the source's rows.
        matches: for an id of the target, the source's id of the same piece.
        rule: what the provenance calls it.
    """
    if not matches:
        return rows
    ids, origins = np.array(list(matches), np.int64), np.array(list(matches.values()), np.int64)
    target_UD, source_ids = rows.target_UD.clone(), rows.provenance.source_ids.copy()
    target_UD[ids] = source_VD[origins].float()
    source_ids[ids] = origins
    provenance = Provenance(
        tuple(rule if i in matches else own for i, own in enumerate(rows.provenance.rules)),
        source_ids,
        {i: parts for i, parts in rows.provenance.combinations.items() if i not in matches},
    )
    return Initialised(target_UD, provenance)
