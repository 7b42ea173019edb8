"""Objectives: what a phase predicts. To add one, write a file and add a line to `OBJECTIVES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.objectives.ca_mlm import CA_MLM, PLUGGED
from lingraft.objectives.clm import CLM
from lingraft.objectives.denoise import DENOISE
from lingraft.objectives.mlm import MLM
from lingraft.objectives.tlm import TLM

if TYPE_CHECKING:
    from collections.abc import Collection

    from lingraft.objectives.common import Objective

OBJECTIVES: dict[str, Objective] = {
    "mlm": MLM,
    "ca_mlm": CA_MLM,
    "tlm": TLM,
    "denoise": DENOISE,
    "clm": CLM,
}
MODULE = "cross_attention"


def objective_for(name: str, trained: Collection[str]) -> Objective:
    """An objective as a phase has it: without terms that could move nothing that trains.

    Args:
        name: a key of `OBJECTIVES`.
        trained: the parts that the phase trains.
    """
    return PLUGGED if name == CA_MLM.name and set(trained) == {MODULE} else OBJECTIVES[name]
