"""Objectives: what a phase predicts. To add one, write a file and add a line to `OBJECTIVES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.training.objectives.ca_mlm import CA_MLM, PLUGGED
from lingraft.training.objectives.clm import CLM
from lingraft.training.objectives.denoise import DENOISE
from lingraft.training.objectives.mlm import MLM
from lingraft.training.objectives.tlm import TLM

if TYPE_CHECKING:
    from lingraft.recipe import Phase
    from lingraft.training.objectives.common import Objective

OBJECTIVES: dict[str, Objective] = {
    "mlm": MLM,
    "ca_mlm": CA_MLM,
    "tlm": TLM,
    "denoise": DENOISE,
    "clm": CLM,
}


def objective_for(name: str, phase: Phase) -> Objective:
    """Return one of `OBJECTIVES`, without terms that could move nothing that the phase trains."""
    return PLUGGED if name == CA_MLM.name and phase.crosses_alone else OBJECTIVES[name]
