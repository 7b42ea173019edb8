"""A recipe: everything that decides what a run does, as frozen data.

There is no inheritance, no interpolation and no import path. The docstring under a field is its
documentation. `lingraft.recipe.decoding` reads recipes from TOML and writes them.
"""

from lingraft.recipe.base import (
    PARTS,
    STAGE_NAMES,
    Decay,
    Embeddings,
    Initializer,
    Names,
    Objective,
    Part,
    Section,
    Share,
    stage_order,
)
from lingraft.recipe.phase import (
    Baseline,
    Batch,
    Budget,
    Distil,
    Lora,
    Masking,
    Mixture,
    Optimizer,
    Phase,
    PhaseData,
    Schedule,
    Training,
    Validation,
)
from lingraft.recipe.run import Evaluation, Export, Graft, Hardware, Recipe, Source, Tokenizer
from lingraft.recipe.streams import Corpus, Stream
