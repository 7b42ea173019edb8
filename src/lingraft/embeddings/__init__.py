"""Initialisers of the new word embeddings: one pure function a file, one line here.

Contract: `function(source_VD, source, target, *, generator, copy_special_tokens=False) ->
Initialised`. The result is float32 on the CPU whatever the source's type; the source is not
touched; only the generator is random; the padding row is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lingraft.embeddings.match import match
from lingraft.embeddings.random import random

if TYPE_CHECKING:
    import torch

    from lingraft.embeddings.common import Initialised
    from lingraft.vocabulary import Vocabulary


class Function(Protocol):
    """What every initialiser looks like; options of its own are keyword-only and have a default."""

    def __call__(
        self,
        source_VD: torch.Tensor,
        source: Vocabulary,
        target: Vocabulary,
        *,
        generator: torch.Generator,
        copy_special_tokens: bool = False,
    ) -> Initialised: ...


@dataclass(frozen=True)
class Initialiser:
    """An entry of the table of initialisers."""

    function: Function
    summary: str
    """What it does, in a line."""
    paper: str
    """Where it comes from."""


INITIALISERS: dict[str, Initialiser] = {
    "random": Initialiser(
        random, "every row drawn from N(0, 0.02)", "XPT (Lee et al. 2021), §3.2; SPEC H.1"
    ),
    "match": Initialiser(
        match,
        "rows of pieces that the source has too are copied, the others drawn from N(0, 0.02)",
        "MetaXLM (Chi et al. 2021), §3.2; SPEC G.1",
    ),
}
