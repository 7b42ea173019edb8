"""Loss scaling for fp16 (Micikevicius et al. 2018), which cards before Ampere have and not bf16.

Gradients of a loss times 65,536 keep their digits in fp16. Where they overflow, the step is skipped
and the factor halved; after 2,000 good steps it is doubled. All of it happens on the device, but
what is logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from accelerate import Accelerator

SMALLEST = 2.0**-8
"""With a factor below this the gradients are not finite for another reason."""


class LossScale:
    """The factor of a phase in fp16; of other formats there is none, and nothing happens."""

    def __init__(self, accelerator: Accelerator) -> None:
        """Give the accelerator, which multiplies and steps, a fresh one."""
        self.scaler: torch.amp.GradScaler | None = None
        if accelerator.mixed_precision == "fp16":
            self.scaler = torch.amp.GradScaler(accelerator.device.type)
        accelerator.scaler = self.scaler
        self.skipped = torch.zeros((), dtype=torch.int64, device=accelerator.device)

    @property
    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint; wait for the device."""
        return {} if self.scaler is None else self.scaler.state_dict()

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint's state."""
        if self.scaler is not None:
            self.scaler.load_state_dict(state)

    def take_out(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients by the factor."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def note(self, norm: torch.Tensor | None) -> None:
        """Count the step as skipped where its gradients are not finite."""
        if self.scaler is not None and norm is not None:
            self.skipped += ~norm.isfinite()

    def row(self, norm: float | None) -> tuple[float | None, dict[str, Any]]:
        """Return the norm that counts, None of a skipped step, and columns of the log."""
        if self.scaler is None:
            return norm, {}
        scale = self.scaler.get_scale()
        if norm is not None and not norm < float("inf") and scale >= SMALLEST:
            norm = None
        return norm, {"loss_scale": scale, "skipped_steps": int(self.skipped)}
