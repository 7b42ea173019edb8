"""Which documents train and which are held out: a function of the document's id alone.

Adding text never moves a document from one side to the other, and two runs with the same
`split_seed` hold out the same documents whatever else they do.
"""

from __future__ import annotations

import hashlib
from typing import Literal

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


def position(document_id: str, seed: int, purpose: str = "split") -> float:
    """A number in [0, 1), fixed by the id, the seed and the purpose, and uniform over ids."""
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{document_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def split_of(document_id: str, seed: int, valid: float, test: float) -> Split:
    """The side a document is on.

    Args:
        document_id: stable name of the document.
        seed: `corpus.split_seed`.
        valid: share of documents for validation, in [0, 1).
        test: share of documents for the final test, in [0, 1).
    """
    place = position(document_id, seed)
    if place < test:
        return "test"
    return "valid" if place < test + valid else "train"
