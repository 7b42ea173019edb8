"""Training a few rows by AdamW on examples, a killed one going on from where it was.

Shape letters: N rows, D width.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.log import progress
from lingraft.rundir import fingerprint, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lingraft.embeddings.snippets import Snippet
    from lingraft.recipe import TokenDistillation

    Loss = Callable[[torch.Tensor, Sequence[Snippet]], torch.Tensor]

CHECKPOINT_SECONDS = 120.0


@dataclass(frozen=True)
class Training:
    """What is trained how; what a step sees is a function of the seed and its number."""

    what: str
    """For the progress bar."""
    settings: TokenDistillation
    seed: int
    file: Path | None
    """A checkpoint now and then; None keeps none."""

    def run(self, start_ND: torch.Tensor, examples: Sequence[Snippet], loss: Loss) -> torch.Tensor:
        """[N, D] The rows after all epochs, on the CPU.

        Args:
            start_ND: where they start.
            examples: what they are trained on.
            loss: of the rows and some examples.
        """
        settings, rows_ND = self.settings, torch.nn.Parameter(start_ND.clone())
        optimiser = torch.optim.AdamW([rows_ND], lr=settings.learning_rate, weight_decay=0.0)
        per_epoch = -(-len(examples) // settings.batch)
        total = settings.epochs * per_epoch
        mark = self.mark(start_ND, examples)
        done, saved = self.resumed(mark, rows_ND, optimiser), time.monotonic()
        order = np.zeros(0, np.int64)
        with progress(self.what, total, "steps") as ticker:
            ticker.start_at(done)
            for step in range(done, total):
                epoch, place = divmod(step, per_epoch)
                if not (place and len(order)):
                    order = np.random.default_rng([self.seed, epoch]).permutation(len(examples))
                batch = order[place * settings.batch : (place + 1) * settings.batch]
                value = loss(rows_ND, [examples[index] for index in batch])
                (rows_ND.grad,) = torch.autograd.grad(value, [rows_ND])
                optimiser.step()
                ticker.update(step + 1, f"loss {float(value.detach()):.4g}")
                if self.file and time.monotonic() - saved >= CHECKPOINT_SECONDS:
                    self.save(mark, step + 1, rows_ND, optimiser)
                    saved = time.monotonic()
        if self.file:
            self.save(mark, total, rows_ND, optimiser)
        return rows_ND.detach().cpu()

    @torch.no_grad()
    def measure(self, rows_ND: torch.Tensor, examples: Sequence[Snippet], loss: Loss) -> float:
        """Mean loss of examples, each batch weighed by how many it has."""
        size, total = self.settings.batch, 0.0
        for start in range(0, len(examples), size):
            batch = examples[start : start + size]
            total += float(loss(rows_ND, batch)) * len(batch)
        return total / len(examples)

    def mark(self, start_ND: torch.Tensor, examples: Sequence[Snippet]) -> str:
        """Names what is trained, so that another training's checkpoint is not taken."""
        tokens = [int(pair.whole.sum()) for pair in examples]
        numbers = [float(start_ND.double().sum()), list(start_ND.shape)]
        return fingerprint(self.what, self.settings, self.seed, numbers, tokens)

    def save(
        self, mark: str, step: int, rows_ND: torch.Tensor, optimiser: torch.optim.Optimizer
    ) -> None:
        """Write a checkpoint, whole or not at all."""
        assert self.file is not None
        self.file.parent.mkdir(parents=True, exist_ok=True)
        state = {"mark": mark, "step": step, "rows": rows_ND.detach()}
        with replacing(self.file) as partial:
            torch.save(state | {"moments": optimiser.state_dict()}, partial)

    def resumed(self, mark: str, rows_ND: torch.Tensor, optimiser: torch.optim.Optimizer) -> int:
        """Put a checkpoint of the same training back; the steps that are done."""
        if self.file is None or not self.file.is_file():
            return 0
        state: dict[str, Any] = torch.load(self.file, map_location="cpu", weights_only=True)
        if state["mark"] != mark:
            return 0
        with torch.no_grad():
            rows_ND.copy_(state["rows"])
        optimiser.load_state_dict(state["moments"])
        return int(state["step"])
