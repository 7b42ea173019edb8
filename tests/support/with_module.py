"""Modules in tiny models, with weights that matter."""

import torch

from lingraft.models.families import FAMILIES
from lingraft.models.loading import own_tensors
from lingraft.models.modules import MODULES


def with_module(model, family, part="cross_attention", size=2):
    """Put a module into a model, in place, and draw its weights."""
    MODULES[part].code.insert(model, FAMILIES[family], size, 0)
    generator = torch.Generator().manual_seed(9)
    for tensor in own_tensors(model, MODULES[part]).values():
        tensor.normal_(0.0, 0.3, generator=generator)
    return model.eval()
