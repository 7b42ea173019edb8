"""Rows that the target has from the source under the same name, whatever an initializer made.

Shape letters: V source vocabulary, U target vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lingraft.models.embeddings.common import Initialised, Provenance
from lingraft.recipe.selectors import ROWS
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch

    from lingraft.recipe import Phase
    from lingraft.tokenizer.vocabulary import Vocabulary

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
