"""A recipe: everything that decides what a run does, as frozen data.

There is no inheritance, no interpolation and no import path. The docstring under a field is its
documentation. `lingraft.recipe.decoding` reads recipes from TOML and writes them.
"""

from lingraft.recipe.base import (
    PARTS,
    STAGE_NAMES,
    Decay,
    Initializer,
    Names,
    Objective,
    Section,
    Share,
    stage_order,
)
from lingraft.recipe.embeddings import Embeddings
from lingraft.recipe.phase import (
    Batch,
    Budget,
    Data,
    Distil,
    Lora,
    Masking,
    Mixture,
    Optimizer,
    Phase,
    Schedule,
    Validation,
)
from lingraft.recipe.run import Evaluation, Export, Graft, Hardware, Recipe, Source, Tokenizer
from lingraft.recipe.selectors import Part
from lingraft.recipe.streams import Corpus, Stream
from lingraft.recipe.training import Baseline, Training
