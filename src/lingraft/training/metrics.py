"""Rows of metrics.jsonl, and the error of a phase whose numbers are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import TrainingError
from lingraft.rundir import json_line

if TYPE_CHECKING:
    from pathlib import Path

    from accelerate import Accelerator

    from lingraft.training.phase import State, Work
    from lingraft.training.problem import Look

TRACKED = ("loss", "learning_rate", "gradient_norm", "tokens_per_second", "mfu")


def write(work: Work, row: dict[str, Any], accelerator: Accelerator) -> None:
    """Append a row to metrics.jsonl, tell who listens and the trackers that were asked for."""
    if not accelerator.is_main_process:
        return
    with work.metrics_path.open("a", encoding="utf-8") as file:
        file.write(json_line(row))
    if work.on_row is not None:
        work.on_row(row)
    if work.hardware.trackers:
        name = f"{row['phase']}/{row['kind']}"
        values = {f"{name}_{key}": row[key] for key in TRACKED if row.get(key) is not None}
        accelerator.log(values, step=row["step"])


def look_row(work: Work, state: State, validation: Look) -> dict[str, Any]:
    """Return the row of a look at the validation text."""
    return {
        "kind": "valid",
        "phase": work.phase.name,
        "step": state.step,
        "tokens": state.tokens,
        "loss": validation.loss,
        **validation.metrics,
    }


def diverged(work: Work, step: int, value: str, last_checkpoint: Path | None) -> TrainingError:
    """Return the error that stops a run whose numbers are not finite."""
    hint = "no checkpoint was due before"
    if last_checkpoint:
        hint = f"the last good checkpoint is {last_checkpoint}"
    phase, mend = work.phase, ""
    if not phase.optimizer.max_gradient_norm:
        mend = " or clip gradients (optimizer.max_gradient_norm, of a task clip)"
    return TrainingError(
        f"phase '{phase.name}': {value} at step {step}; {hint}; lower the "
        f"learning rate{mend} and run again with --update (a study: without); "
        "the phase then starts afresh"
    )
