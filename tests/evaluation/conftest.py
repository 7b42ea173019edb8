"""Scorers whose answers are known."""

import numpy as np
import pytest
import torch


@pytest.fixture
def known_scorer():
    """Builds a scorer from a function (item, which of its hidden tokens) -> logits [V]."""

    class Known:
        def __init__(self, function):
            self.function = function

        def logits(self, items):
            for index, item in enumerate(items):
                if len(item.targets):
                    rows = [self.function(item, place) for place in range(len(item.targets))]
                    where = [(index, place) for place in range(len(item.targets))]
                    yield np.array(where), torch.tensor(rows, dtype=torch.float32)

    return Known
