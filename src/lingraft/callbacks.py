"""Hooks into a run, for those who call it from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lingraft.rundir import Run


class Callback:
    """Told of what a run does; these methods do nothing. Subclass it and give it to `adapt`.

    The main process alone calls it. An error of yours stops the run with its own traceback; the
    same call to `adapt` then goes on from the last checkpoint.
    """

    def on_step(self, run: Run, row: dict[str, Any]) -> None:
        """Read a logged step: the first of a phase and every `log_steps`-th.

        Args:
            run: the run, or a baseline's (in RUN/baselines/METHOD).
            row: phase, step, tokens (of the phase so far), loss (nats a predicted token),
                learning_rate, gradient_norm, tokens_per_second, mfu (None where it is not known).
        """

    def on_validation(self, run: Run, row: dict[str, Any]) -> None:
        """Read a validation: phase, step, tokens and loss, as `on_step`."""

    def on_stage(self, run: Run, name: str, result: dict[str, Any]) -> None:
        """Read what a stage counted when it has been made; one that is kept is not told again.

        Args:
            run: as `on_step`.
            name: corpus, tokenizer, graft, the name of a phase, evaluation or model.
            result: its counts, as done.json has them.
        """
