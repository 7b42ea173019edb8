"""Objectives: what a phase predicts. To add one, write a file and add a line to `OBJECTIVES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.objectives.ca_mlm import CA_MLM, PLUGGED
from lingraft.objectives.clm import CLM
from lingraft.objectives.denoise import DENOISE
from lingraft.objectives.mlm import MLM
from lingraft.objectives.tlm import TLM

if TYPE_CHECKING:
    from lingraft.objectives.common import Objective
    from lingraft.recipe import Phase

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
