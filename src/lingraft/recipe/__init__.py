"""A recipe: everything that decides what a run does, as frozen data.

There is no inheritance, no interpolation and no import path. The docstring under a field is its
documentation. `lingraft.recipe.decoding` reads recipes from TOML and writes them.
"""

from lingraft.recipe.base import (
    PARTS,
    STAGE_NAMES,
    Decay,
    Initialiser,
    Names,
    Objective,
    Part,
    Section,
    Share,
)
from lingraft.recipe.phase import (
    Batch,
    Budget,
    Masking,
    Optimiser,
    Phase,
    Schedule,
    Validation,
)
from lingraft.recipe.run import (
    Baseline,
    Corpus,
    Evaluation,
    Export,
    Graft,
    Method,
    Recipe,
    Resources,
    Source,
    Tokenizer,
    Training,
)

__all__ = [
    "PARTS",
    "STAGE_NAMES",
    "Baseline",
    "Batch",
    "Budget",
    "Corpus",
    "Decay",
    "Evaluation",
    "Export",
    "Graft",
    "Initialiser",
    "Masking",
    "Method",
    "Names",
    "Objective",
    "Optimiser",
    "Part",
    "Phase",
    "Recipe",
    "Resources",
    "Schedule",
    "Section",
    "Share",
    "Source",
    "Tokenizer",
    "Training",
    "Validation",
]
