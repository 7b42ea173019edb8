"""Size of the vocabulary of a finished run, for one that joins it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lingraft.recipe import Tokenizer
from lingraft.recipe.joining import FEWEST
from lingraft.recipe.run import UNSIZED
from lingraft.tokenizer.state import MERGING, continues, kind_of_state, outside, pieces_of

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.recipe import Recipe

BYTES = 256


def sizes_of(recipe: Recipe, model: Path) -> tuple[int, int]:
    """Return the pieces of a run's vocabulary, and the fewest that another of its kind can have.

    Of a vocabulary that was not trained `vocab_size` says nothing: what 'extend' adds counts, else
    what is there, but no more than a new one has that nobody gives a size.

    Args:
        recipe: the run's.
        model: the folder of its model.
    """
    section = recipe.tokenizer
    state = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = pieces_of(state) | outside(state)
    fewest = FEWEST
    if not continues(state):  # a whole vocabulary is trained
        has_bytes = kind_of_state(state) in MERGING or state["model"].get("byte_fallback")
        fewest += len(state["added_tokens"]) + (BYTES if has_bytes else 0)
    if section.action == "extend":
        return section.new_pieces, fewest
    if section.action in (*UNSIZED, "use"):
        return min(len(pieces), Tokenizer().vocab_size), fewest
    return section.vocab_size, fewest
