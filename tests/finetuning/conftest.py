"""A tiny model on examples of a task, as a problem of the training loop."""

import pytest
import torch

from lingraft.finetuning import heads
from lingraft.finetuning.problem import Finetuning, SelectionSplit


@pytest.fixture
def finetuning():
    """A model without dropout on examples: `finetuning(folder, task, examples, tokens)`."""

    def made(folder, task, examples, tokens=4_096, encode=None, **how):
        coder = heads.coder_for(folder, task)
        model = heads.build(folder, task, coder.shape.tokenizer, seed=0, **how)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        items = encode(coder) if encode else coder.encode(examples)
        dev = [SelectionSplit("dev", task, examples, items)]
        return Finetuning(model, coder, items, dev, tokens)

    return made
