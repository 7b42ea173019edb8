"""Report of a graft: the account of every tensor, and where every embedding row came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.rundir import write_json

if TYPE_CHECKING:
    from lingraft.models.embeddings.common import Provenance
    from lingraft.models.graft import Account
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
