"""What a phase trains, as the files say it, is what autograd does with the model."""

import math

import pytest
import torch

from lingraft.models import lora
from lingraft.models.families import FAMILIES
from lingraft.models.selection import Selection
from lingraft.pipeline.source_files import grafted_sizes, tensor_shapes
from lingraft.pipeline.trainable import layers_of, trainable
from lingraft.recipe.methods import recipe_from
from lingraft.training import trained as training
from lingraft.training.compiling import encoder_layers

ROWS = {"kind": "extend", "new_pieces": 16}


@pytest.fixture
def graph(tiny_model, tiny_source):
    """What is counted of a phase, and what autograd says: layers with a graph, with gradients."""

    def of(family, train, low_rank):
        record, folder = FAMILIES[family], tiny_source(family)
        phase = {"name": "p", "train": train, "budget": {"value": 1}, "objective": "clm"}
        phase |= {"lora": low_rank} if low_rank else {}
        data = {"language": "ko", "source": {"model": str(folder)}, "corpus": {"text": ["a.txt"]}}
        data |= {"tokenizer": ROWS, "graft": {"layers_before": 0, "layers_after": 0}}
        recipe = recipe_from(data | {"phases": [phase]})
        shapes = tensor_shapes(folder)
        tied = record.decoder not in shapes
        sizes = grafted_sizes(shapes, record, recipe, tied=tied)
        made = trainable(recipe, recipe.phases[0], shapes, record, sizes, tied=tied)
        _, layout = layers_of(shapes, record, recipe, tied=True)
        layout = type(layout)(record, layout.itl, layout.depths, tied)
        selection = Selection(recipe.phases[0], layout)
        model = tiny_model(family)
        new = torch.arange(model.get_input_embeddings().num_embeddings) >= 300
        if low_rank:
            lora.insert(model, recipe.phases[0].lora, selection.adapts, "p", 0)
        training.select(model, selection, lambda: new)
        outputs = []
        for layer in encoder_layers(model):
            layer.register_forward_hook(lambda _, __, out: outputs.append(out))
        model(input_ids=torch.tensor([[5, 6, 7, 8]]))
        tensors = [out[0] if isinstance(out, tuple) else out for out in outputs]
        kept = sum(tensor.requires_grad for tensor in tensors)
        layers = encoder_layers(model)
        learning = sum(any(p.requires_grad for p in layer.parameters()) for layer in layers)
        still = sum(
            p.numel()
            for layer in layers
            for name, p in layer.named_parameters()
            if p.dim() == 2 and not p.requires_grad and not lora.is_low_rank(name)
        )
        return made, (kept, learning, still)

    return of


LORA = {"rank": 2, "parts": ["layers[-1]"]}


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize(
    ("train", "low_rank"),
    [
        (["all"], None),
        (["embeddings"], None),
        (["embeddings.new"], None),
        (["body"], None),
        (["layers[1:]"], None),
        (["layers[0]"], None),
        (["embeddings.new", "layers[1]"], None),
        ([], LORA),
        (["embeddings.new"], LORA),
    ],
    ids=str,
)
def test_the_depth_of_the_backward_pass_is_that_of_autograd(graph, family, train, low_rank):
    made, expected = graph(family, train, low_rank)
    assert (made.layers, made.learning, made.frozen_maps) == expected


def test_a_teacher_is_the_source_or_what_the_phase_names(tiny_source, tmp_path):
    record, shapes = FAMILIES["roberta"], tensor_shapes(tiny_source("roberta"))
    source = {"model": str(tiny_source("roberta"))}
    data = {"language": "en", "source": source, "corpus": {"text": ["a.txt"]}}

    def teacher(**distil):
        phase = {"name": "p", "train": ["all"], "budget": {"value": 1}, "distil": distil}
        recipe = recipe_from(data | {"phases": [phase]})
        sizes = grafted_sizes(shapes, record, recipe, tied=True)
        return trainable(recipe, recipe.phases[0], shapes, record, sizes, tied=True).teacher

    def parameters(folder):
        return sum(math.prod(shape) for shape in tensor_shapes(folder).values())

    assert teacher() == parameters(tiny_source("roberta"))
    assert teacher(teacher=str(tiny_source("modernbert"))) == parameters(tiny_source("modernbert"))
    assert teacher(teacher=str(tmp_path)) == 0
