"""What `lingraft check` says of memory: what is counted, what fits, and what to change."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from lingraft.models import chunked, cross_attention
from lingraft.models.dropout import use_bits
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.objectives import OBJECTIVES
from lingraft.pipeline import memory, preflight
from lingraft.pipeline.fitting import remedies, training_for, verdict
from lingraft.pipeline.hardware import Machine
from lingraft.pipeline.memory import Layers, Target, need
from lingraft.pipeline.source_files import tensor_shapes
from lingraft.pipeline.trainable import Trained
from lingraft.recipe.methods import recipe_from
from lingraft.recipe.phase import Batch, Data, Distil, Masking, Mixture

GB = 10**9
CPU, GPU = Machine(16 * GB, is_gpu=False, bf16=False), Machine(16 * GB, is_gpu=True)
BY_PART = dict.fromkeys(("positions", "embedding_norm", "adapters", "cross_attention", "head"), 0)
BY_PART |= {"embeddings": 50_000 * 1_024, "output_bias": 0, "itl": 20_000_000, "body": 200_000_000}
LAYERS = Layers(
    number=12,
    width=1_024,
    heads=16,
    read=10_000,
    written=12_000,
    parameters=190_000_000,
    rows=50_000,
    attentions=12,
    dropout=0.0,
)
MATRIX, BODY = BY_PART["embeddings"], BY_PART["body"]
WHOLE = Trained(sum(BY_PART.values()), 0, 12, 12, 0)
NEW = Trained(MATRIX + BY_PART["itl"], 0, 12, 2, 180_000_000)
"""Of embeddings and two inserted layers."""


def recipe(*, train=("all",), objective="clm", **training):
    phase = {"name": "phase-1", "train": list(train), "objective": objective}
    phase |= {"budget": {"value": 10}}
    data = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["a.txt"]}}
    return recipe_from(data | {"phases": [phase], "training": training})


def needed(machine=CPU, trained=WHOLE, **changes):
    made = recipe(**changes)
    return need(Target(made, BY_PART, LAYERS, machine), made.phases[0], trained)


def test_what_is_certain_is_counted_exactly():
    whole, part = needed(), needed(trained=NEW, train=("embeddings", "itl"))
    total, trained = sum(BY_PART.values()), BY_PART["embeddings"] + BY_PART["itl"]
    assert (whole.weights, whole.gradients, whole.optimiser) == (4 * total, 4 * total, 8 * total)
    assert (part.weights, part.gradients, part.optimiser) == (4 * total, 4 * trained, 8 * trained)
    certain = whole.weights + whole.gradients + whole.optimiser
    assert whole.total == certain + whole.activations + whole.logits + whole.program


def test_a_matrix_of_which_rows_train_has_a_gradient_whole_and_moments_of_these_rows():
    rows = needed(train=("embeddings.new",), trained=Trained(MATRIX // 5, MATRIX, 12, 0, BODY))
    assert rows.optimiser == 8 * MATRIX // 5
    assert rows.gradients == 4 * (MATRIX + MATRIX // 5)


def test_layers_beneath_the_lowest_that_trains_keep_nothing():
    def activations(trained, *train):
        return needed(GPU, trained, train=train, precision="fp32").activations

    above, none = (activations(Trained(9, 0, n, n, BODY), "output_bias") for n in (3, 0))
    frozen = activations(Trained(9, 0, 12, 0, BODY), "embeddings")
    whole = activations(WHOLE, "all")
    outside = 8 * 1_024 * 4_096  # the rows that are looked up
    assert none == outside
    assert above - outside == (whole - outside) / 4
    assert above < frozen < whole  # frozen maps keep not what they read


def test_each_setting_that_saves_memory_saves_some():
    plain = needed()
    assert needed(gradient_checkpointing=True).activations < plain.activations / 3
    assert needed(micro_batch_tokens=1_024).activations < plain.activations / 3
    half = needed(precision="bf16")
    assert half.activations < plain.activations
    assert half.weights == plain.weights
    frozen = {"train": ("embeddings", "itl"), "precision": "bf16"}
    light = needed(trained=NEW, frozen_weights="bf16", **frozen)
    assert needed(trained=NEW, **frozen).weights - light.weights == 2 * NEW.frozen_maps
    assert needed(GPU, precision="fp32").activations < plain.activations  # fused attention


def test_logits_of_causal_models_are_those_of_a_chunk():
    assert chunked.LOGITS_AT_ONCE == memory.LOGITS_AT_ONCE
    whole = 4_096 * 50_000 * 12
    assert needed(train=("body",)).logits < whole / 5
    masked = needed(train=("body",), objective="mlm")
    assert masked.logits == int(4_096 * 0.15 * 50_000 * 12)


def of_pairs(objective="mlm", machine=GPU, layers=LAYERS, trained=WHOLE, **changes):
    """What a phase takes that may read text in one language ('ko') and pairs ('two')."""
    streams = [
        {"name": name, "language": language, "corpus": {"text": ["a.tsv"]}}
        for name, language in (("ko", "ko"), ("two", "en/ko"))
    ]
    training = {"precision": "fp32"} | changes.pop("training", {})
    phase = recipe(objective="mlm").phases[0].model_copy(update={"objective": objective})
    phase = phase.model_copy(update={"data": (Data(stream="ko"),), **changes})
    data = {"source": {"model": "m"}, "streams": streams, "training": training}
    made = recipe_from(data | {"phases": [{"name": "p", "train": ["all"], "budget": {"value": 1}}]})
    return need(Target(made, BY_PART, layers, machine), phase, trained)


def test_what_is_read_twice_and_what_a_decoder_writes_are_counted():
    plain, crossed = of_pairs(), of_pairs("ca_mlm")
    cross = 4_096 * 12 * 1_024 * (8 + 4 * 8)  # a norm, and what four maps read and write
    assert crossed.activations == 2 * plain.activations + cross
    assert crossed.logits == 2 * plain.logits
    pairs = Data(stream="two", objective="ca_mlm", masking=Masking(rate=0.3))
    both = of_pairs(data=(Data(stream="ko"), pairs))
    assert both.logits == pytest.approx(4 * plain.logits)
    assert of_pairs(data=(Data(stream="two", objective="tlm", also=("ca_mlm",)),)) == crossed
    all_written = of_pairs("denoise", masking=Masking(scheme="infilling")).logits
    assert all_written == pytest.approx(plain.logits / 0.15)
    spans = of_pairs("denoise", masking=Masking(scheme="spans")).logits
    assert plain.logits / 0.15 * 0.2 < spans < plain.logits / 0.15 * 0.3


def test_of_cross_attention_that_trains_alone_one_pass_keeps_something():
    frozen = Trained(12 * 4 * 1_024**2, 0, 12, 0, BODY)
    alone = of_pairs("ca_mlm", trained=frozen, train=("cross_attention",))
    both = of_pairs("ca_mlm", trained=frozen, train=("cross_attention", "embeddings"))
    assert alone.logits == both.logits / 2
    cross = 4_096 * 12 * 1_024 * (8 + 4 * 8)
    assert alone.activations - cross == (both.activations - cross) / 2


@pytest.mark.parametrize(
    ("row", "objective", "entry", "changes"),
    [
        (128, "mlm", {}, {}),
        (512, "mlm", {}, {"training": {"row_tokens": 512}}),
        (512, "mlm", {}, {"join_sentences": True}),
        (512, "clm", {}, {}),
        (1_024, "ca_mlm", {}, {}),  # neighbouring stretches are filled up
        (224, "ca_mlm", {"max_tokens": 100}, {}),
        (256, "ca_mlm", {"stream": "two"}, {}),  # sentences, each of which fits into a row
        (1_024, "ca_mlm", {"stream": "two", "max_tokens": 512}, {}),
        (256, "tlm", {"stream": "two"}, {}),
        (1_024, "tlm", {"stream": "two", "max_tokens": 512}, {}),
        (512, "tlm", {"stream": "two", "max_tokens": 512}, {"context": 512}),  # is cut to fit
        (1_024, "ca_mlm", {"stream": "two", "max_tokens": 512}, {"context": 512}),
        (512, "tlm", {"stream": "two"}, {"training": {"row_tokens": 512}, "context": 512}),
    ],
)
def test_rows_are_as_long_as_what_they_must_hold(row, objective, entry, changes):
    layers = dataclasses.replace(LAYERS, context=changes.get("context"))
    changes = {key: value for key, value in changes.items() if key != "context"}
    changes["data"] = (Data(**{"stream": "ko"} | entry),)
    cpu, gpu = (of_pairs(objective, machine, layers, **changes) for machine in (CPU, GPU))
    attentions = 12 * (3 if objective == "ca_mlm" else 1)
    maps = (
        4 * LAYERS.heads * row * (2 * attentions + 3)
    )  # probabilities, what went before; backward
    assert cpu.activations - gpu.activations == 4_096 * maps


def test_batches_of_translations_have_their_own_size():
    entry = Data(stream="two", objective="ca_mlm", max_tokens=32)
    small = {"batch": Batch(size=1_024, unit="tokens"), "data": (entry,)}
    mixture = Mixture(draw="alternate", bilingual_batch=2_048)
    plain, doubled = of_pairs(**small), of_pairs(**small, mixture=mixture)
    assert doubled.activations == 2 * plain.activations


def test_a_teacher_is_in_memory_too():
    taught = dataclasses.replace(WHOLE, teacher=BODY)
    assert of_pairs(trained=taught).weights == of_pairs().weights + 4 * BODY


@pytest.mark.parametrize("objective", ["tlm", "ca_mlm"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_torch_keeps_the_maps_that_are_counted(objective, dropout, tiny_model):
    row, heads, tokens = 64, 2, 128
    model = tiny_model("roberta", attention_probs_dropout_prob=dropout).train()
    cross_attention.insert(model, FAMILIES["roberta"], 2)
    packed = PackedModel(model, FAMILIES["roberta"])
    use_bits(model)
    sides = [np.full(row // 2, 7)] * 4
    masked, targets = [np.array([3])] * 4, [np.array([5])] * 4
    batch = assemble(sides, masked, targets, [[0, 1], [2, 3]], row, 1, objective)
    maps = {}

    def keep(tensor):
        if tensor.shape[-2:] == (row, row):
            maps[tensor.untyped_storage().data_ptr()] = tensor  # two that share one are one
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        terms = OBJECTIVES[objective].loss(packed, batch)
    assert all(term.nats > 0 for term in terms.values())
    kept = sum(tensor.numel() * tensor.element_size() for tensor in maps.values())

    layers = dataclasses.replace(LAYERS, heads=heads, dropout=dropout)
    settings = {"training": {"row_tokens": row, "micro_batch_tokens": tokens}}
    settings["data"] = (Data(stream="two", max_tokens=row // 2),)
    cpu, gpu = (of_pairs(objective, machine, layers, **settings) for machine in (CPU, GPU))
    passing = 4 * heads * row * tokens * ((3 if objective == "ca_mlm" else 1) * 12 + 3)
    assert kept * 12 / 2 == cpu.activations - gpu.activations - passing


def test_what_does_not_fit_is_told_what_to_change_and_then_it_fits():
    made = recipe()
    _, said = verdict(Target(made, BY_PART, LAYERS, Machine(100 * GB, is_gpu=False)), [WHOLE])
    assert said.endswith("it fits")
    small = Machine(9 * GB, is_gpu=False, bf16=False)
    needs, said = verdict(Target(made, BY_PART, LAYERS, small), [WHOLE])
    assert "does not fit; with training.gradient_checkpointing=true it needs" in said
    settings = dict(needs)
    assert settings["phase-1"].total > 0.9 * 9 * GB
    again = recipe(gradient_checkpointing=True)
    _, then = verdict(Target(again, BY_PART, LAYERS, small), [WHOLE])
    assert then.endswith("it fits")


def test_every_remedy_needs_less_than_the_one_before_it():
    made = recipe(train=("embeddings", "itl"), precision="bf16")
    found = remedies(Target(made, BY_PART, LAYERS, CPU), made.phases[0], NEW)
    totals = [entry.total for _, entry in found]
    assert len(totals) == 5
    assert totals == sorted(totals, reverse=True)


def test_what_no_setting_makes_fit_names_fewer_parts_and_more_processes():
    _, said = verdict(Target(recipe(), BY_PART, LAYERS, Machine(2 * GB, is_gpu=True)), [WHOLE])
    assert "this GPU has 2.0 GB: it does not fit, nor with" in said
    assert "LoRA" in said
    assert "training.sharding=fsdp2" in said


def test_what_needs_nearly_all_of_the_memory_is_told_how_much_of_it_counts():
    needs, _ = verdict(Target(recipe(), BY_PART, LAYERS, CPU), [WHOLE])
    size = int(1.01 * needs["phase-1"].total)
    tight = Machine(size, is_gpu=False, bf16=False)
    _, said = verdict(Target(recipe(), BY_PART, LAYERS, tight), [WHOLE])
    usable = f"{tight.usable / 1e9:.1f} GB"
    assert f"has {size / 1e9:.1f} GB, of which {usable} can be filled: it does not fit" in said


def test_a_gpu_with_memory_to_spare_takes_more_tokens_at_once():
    batch = {"size": 20_000, "unit": "tokens"}

    def made(machine, batch=batch, **training):
        plain = recipe(**training)
        phase = plain.phases[0].model_copy(update={"batch": Batch(**batch)})
        return Target(plain.model_copy(update={"phases": (phase,)}), BY_PART, LAYERS, machine)

    def count(*arguments, **training):
        target = made(*arguments, **training)
        return training_for(target, target.recipe.phases[0], WHOLE).at_once

    wide, narrow = Machine(400 * GB, is_gpu=True), Machine(32 * GB, is_gpu=True)
    assert count(wide) == 32_768  # all of a batch
    assert count(narrow) == 8_192
    assert count(wide, {"size": 4_096, "unit": "tokens"}) == 4_096
    assert count(wide, micro_batch_tokens=4_096) == 4_096  # as was asked for
    assert count(Machine(400 * GB, is_gpu=False)) == 4_096
    target = made(wide)
    taught = target.recipe.phases[0].model_copy(update={"distil": Distil()})
    assert training_for(target, taught, WHOLE).at_once == 4_096  # a teacher, which nobody counts

    needs, said = verdict(made(narrow), [WHOLE])
    asked, _ = verdict(made(narrow, micro_batch_tokens=8_192), [WHOLE])
    assert needs == asked
    assert needs["phase-1"].total <= narrow.usable / 2
    assert said.endswith("it fits, with 8,192 tokens at once")
    assert verdict(made(narrow, micro_batch_tokens=8_192), [WHOLE])[1].endswith("it fits")


@pytest.mark.parametrize(
    ("family", "dropout"),
    [
        ("llama", "attention_dropout"),
        ("gpt2", "attn_pdrop"),
        ("roberta", "attention_probs_dropout_prob"),
        ("modernbert", "attention_dropout"),
        ("t5", "dropout_rate"),
    ],
)
def test_layers_are_read_from_the_files(family, dropout, tiny_source, tiny_model):
    folder, record = tiny_source(family), FAMILIES[family]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | {dropout: 0.3}
    config |= {"n_positions": 64} if family in ("gpt2", "t5") else {}
    data = {"language": "ko", "source": {"model": str(folder)}, "corpus": {"text": ["a.txt"]}}
    made = recipe_from(data | {"graft": {"layers_after": 0}})
    found = Layers.of(tensor_shapes(folder), config, record, made)
    model = tiny_model(family)
    last = f"{record.lists[-1].layers}.1."
    maps = [p for n, p in model.named_parameters() if n.startswith(last) and p.dim() == 2]
    assert found.width == 32
    assert found.heads == 2
    assert found.number == 3 * len(record.lists)
    assert found.attentions == found.number + (3 if family == "t5" else 0)  # two a decoder's layer
    assert found.dropout == 0.3
    assert Layers.of(tensor_shapes(folder), config | {dropout: None}, record, made).dropout == 0
    assert found.context == (64 if family == "gpt2" else config.get("max_position_embeddings"))
    assert found.parameters == found.number * sum(p.numel() for p in maps)
    up = max(math.prod(p.shape) for p in maps)
    assert found.read >= 32
    assert found.written * 32 >= up


@pytest.mark.parametrize(
    ("family", "key", "fused", "steps"),
    [
        ("gpt2", "activation_function", "gelu", "gelu_new"),
        ("t5", "feed_forward_proj", "relu", "gated-gelu"),  # mt5's config.json names nothing else
    ],
)
def test_an_activation_that_is_written_out_keeps_its_steps(
    family, key, fused, steps, tiny_source, tiny_model
):
    folder, record = tiny_source(family), FAMILIES[family]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    made = recipe_from(
        {"language": "ko", "source": {"model": str(folder)}, "corpus": {"text": ["a.txt"]}}
    )
    one, several = (
        Layers.of(tensor_shapes(folder), config | {key: name}, record, made).written
        for name in (fused, steps)
    )
    up = {"gpt2": "n_inner", "t5": "d_ff"}[family]
    assert several == one + 3 * (getattr(tiny_model(family).config, up) or 4 * 32)


def test_the_plan_of_a_source_has_all_of_it(tiny_source, korean_text):
    data = {"language": "ko", "source": {"model": str(tiny_source("llama"))}}
    data |= {"method": {"preset": "xpt2021"}}
    plan = preflight.check(recipe_from(data | {"corpus": {"text": [str(korean_text)]}}))
    assert set(plan.memory) == {phase["name"] for phase in plan.phases}
    assert "needs about" in plan.fits
