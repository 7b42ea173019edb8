"""Objectives: what a phase predicts. To add one, write a file and add a line to `OBJECTIVES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.objectives.mlm import MLM

if TYPE_CHECKING:
    from lingraft.objectives.common import Objective

OBJECTIVES: dict[str, Objective] = {
    "mlm": MLM,
}
