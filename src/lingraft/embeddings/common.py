"""What all initialisers share: drawing, padding, special tokens, where each row came from.

Shape letters: V source vocabulary, U target vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lingraft.errors import UnsupportedModelError
from lingraft.rundir import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft.vocabulary import Vocabulary

STANDARD_DEVIATION = 0.02
FRESH = -1
RULES = ("exact", "nfkc", "lower", "accents", "special", "pad", "fresh")
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class Provenance:
    """Where each row of the new embeddings came from."""

    rules: tuple[str, ...]
    """[U] one of `RULES` for each target id."""
    source_ids: NDArray[np.int64]
    """[U] the row of the source that was copied, -1 where none was."""

    def counts(self) -> dict[str, int]:
        """Rows by rule, in the order of `RULES`; rules without a row are left out."""
        found = Counter(self.rules)
        return {rule: found[rule] for rule in RULES if found[rule]}

    def write(self, path: Path, target: Vocabulary, source: Vocabulary) -> None:
        r"""Write a TSV table with a header; tabs and line ends in pieces become \t, \n, \r."""
        lines = ["target_id\tpiece\trule\tsource_id\tsource_piece"]
        for index, (rule, origin) in enumerate(zip(self.rules, self.source_ids, strict=True)):
            piece = target.pieces[index].translate(ESCAPES)
            copied = source.pieces[origin].translate(ESCAPES) if origin != FRESH else ""
            lines.append(f"{index}\t{piece}\t{rule}\t{origin}\t{copied}")
        write_text(path, "\n".join(lines) + "\n")


@dataclass(frozen=True)
class Initialised:
    """New word embeddings and where they came from."""

    target_UD: torch.Tensor
    """[U, D] float32, on the CPU."""
    provenance: Provenance


def build(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    matches: dict[int, tuple[str, int]],
    *,
    generator: torch.Generator,
    copy_special_tokens: bool,
) -> Initialised:
    """Draw all rows from N(0, 0.02), then copy the matched ones and set the padding row to zero.

    All rows are drawn, whatever is copied afterwards, so that a fresh row does not depend on what
    else was matched.

    Args:
        source_VD: [V, D] the source's word embeddings, of any floating type.
        source: the source's vocabulary, of at most V pieces.
        target: the new vocabulary.
        matches: for a target id, the rule and the source id to copy; special tokens have no place
            in it.
        generator: where the draws come from.
        copy_special_tokens: also copy the rows of the special tokens, by role. The padding row
            stays zero.

    Raises:
        UnsupportedModelError: the source's tokenizer has more pieces than the model has rows.
    """
    if source.size > len(source_VD):
        raise UnsupportedModelError(
            f"the source tokenizer has {source.size} pieces but the model only {len(source_VD)} "
            "embedding rows; "
            "they do not belong together, or the model's embeddings were never resized"
        )
    target_UD = torch.empty(target.size, source_VD.shape[1], dtype=torch.float32)
    target_UD.normal_(0.0, STANDARD_DEVIATION, generator=generator)
    chosen = dict(matches)
    if copy_special_tokens:
        shared = [role for role in target.specials if role in source.specials]
        chosen |= {target.specials[role]: ("special", source.specials[role]) for role in shared}
    rules = ["fresh"] * target.size
    source_ids = np.full(target.size, FRESH, dtype=np.int64)
    pad = target.specials.get("pad")
    if pad is not None:
        chosen.pop(pad, None)
    for index, (rule, origin) in chosen.items():
        rules[index], source_ids[index] = rule, origin
    copied = torch.from_numpy(source_ids >= 0)
    origins = torch.from_numpy(source_ids)[copied].to(source_VD.device)
    target_UD[copied] = source_VD.detach()[origins].to("cpu", torch.float32)
    if pad is not None:
        target_UD[pad] = 0.0
        rules[pad] = "pad"
    return Initialised(target_UD, Provenance(tuple(rules), source_ids))
