"""Freezes whole parts of a model, for tests that have no phase."""

from lingraft.models.parts import part_of


def freeze(model, family, itl, train):
    """Let only the named parts have gradients; the number of parameters that train."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part_of(name, family, itl) in train)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
