"""Grafting: a deeper model of the stock class, with the source's tensors, every one accounted for.

An implicit translation layer (ITL; Lee et al. 2021, §3.3) is an ordinary layer of the source's own
kind, placed before the first or after the last layer, or between them, so that the result is a
stock model and needs no code of ours.

Shape letters: V vocabulary, D embedding width.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from lingraft.errors import UnsupportedModelError
from lingraft.models.families.record import KINDS
from lingraft.models.modules import owners_of
from lingraft.models.parts import (
    IdentityLayer,
    check_identity,
    each_plan,
    goes_with_place,
    layer_index,
    nearest,
    tied_once,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.models.families import Family, LayerList
    from lingraft.models.parts import Plan, Plans

FATES = ("copied", "fresh", "resized", "dropped")


@dataclass(frozen=True)
class Entry:
    """Fate of one tensor."""

    tensor: str
    """Name in the target model; in the source for 'dropped'."""
    kind: str
    """copied, fresh, resized or dropped."""
    source: str | None
    """Name in the source model."""
    shape: tuple[int, ...]
    note: str = ""


@dataclass
class Account:
    """Every tensor of the target and of the source, once."""

    entries: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, dict[str, int]]:
        """Count tensors and parameters by kind."""
        tensors: Counter[str] = Counter()
        parameters: Counter[str] = Counter()
        for entry in self.entries:
            tensors[entry.kind] += 1
            parameters[entry.kind] += int(torch.Size(entry.shape).numel())
        return {kind: {"tensors": tensors[kind], "parameters": parameters[kind]} for kind in FATES}

    def rows(self) -> list[dict[str, Any]]:
        """Return plain data for account.json."""
        return [asdict(entry) for entry in self.entries]


def is_tied(model: PreTrainedModel) -> bool:
    """Return whether the output projection is the word embeddings.

    T5's and mT5's configurations say so in transformers 5 even where it is not.
    """
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


def deeper_config(
    config: PreTrainedConfig, family: Family, plan: Plans, changes: Mapping[str, Any]
) -> PreTrainedConfig:
    """Return the target's configuration: other depth and vocabulary settings, all else as it was.

    An inserted layer attends as its nearest source layer does: lists with an entry a layer
    (ModernBERT's and Gemma's local and global layers, SmolLM3's without rotary positions) are
    shifted with the layers, not made longer at the end.
    """
    target = copy.deepcopy(config)
    plans = each_plan(config, family, plan)
    for stack, layers in zip(family.lists, plans, strict=True):
        setattr(target, stack.depth_key, len(layers))
    neighbours = nearest(plans[0])
    for key in family.per_layer:
        if (entries := getattr(config, key)) is not None:
            setattr(target, key, [entries[index] for index in neighbours])
    for key, value in changes.items():
        if key in target or key not in KINDS[family.kind].kept_ids:  # else generate()'s alone
            setattr(target, key, value)
    target._name_or_path = ""
    return target


def build(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, seed: int
) -> PreTrainedModel:
    """Build a model with fresh weights, drawn as the family draws them, from `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(config)
    model.to(torch.float32)  # type: ignore[arg-type]  # its decorator hides the signature
    return model


def rebuild(
    source: PreTrainedModel,
    family: Family,
    plan: Plans,
    *,
    config_changes: Mapping[str, Any],
    seed: int,
    keep_source: bool = True,
    vocabulary: VocabularyTensors | None = None,
    missing: Collection[str] = (),
) -> tuple[PreTrainedModel, Account]:
    """Build a model whose layers are those of `plan`, and account for every tensor of both.

    Args:
        source: any stock model of `family`.
        family: its record.
        plan: for each target layer the source layer it starts from, or None (see `layer_plan`).
        config_changes: configuration values to set (vocabulary size, special ids).
        seed: fixes the fresh weights.
        keep_source: False leaves every weight fresh (method scratch, and the 'w/ random' ablation).
        vocabulary: another embedding matrix and output bias; None keeps the source's.
        missing: tensors that the source checkpoint did not hold; they start fresh.

    Returns:
        The target in fp32, on the CPU, its head tied or not as the source's; and the account.

    Raises:
        UnsupportedModelError: a tensor that the family's record does not foresee, or layers that
            add nothing in a family that has none.
    """
    for module in owners_of(source.state_dict()):
        raise UnsupportedModelError(f"the source has {module.part}, which cannot be grafted onto")
    target = build(type(source), deeper_config(source.config, family, plan, config_changes), seed)
    tensors, tied = source.state_dict(), is_tied(source)
    if not tied:
        untie(target)
    available = {
        name: tensors[name].detach()
        for name in tied_once(tensors, family, tied=tied)
        if name not in missing
    }
    account = Account()
    plans = each_plan(source.config, family, plan)
    if any(isinstance(index, IdentityLayer) for layers in plans for index in layers):
        check_identity(family, source.config.to_dict())
    filling = _Filling(target, available, family, plans, account, keep_source, frozenset(missing))
    with torch.no_grad():
        used = filling.run(vocabulary)
    if tied:
        target.tie_weights()
    if source.can_generate():
        target.generation_config = copy.deepcopy(source.generation_config)
        target.generation_config.update(**config_changes)
    for name in sorted(set(available) - used):
        account.entries.append(
            Entry(name, "dropped", name, tuple(available[name].shape), _why_dropped(name, family))
        )
    assert is_tied(target) == tied, f"tied in the source: {tied}, not so in the target"
    return target, account


def untie(model: PreTrainedModel) -> None:
    """Give a model an output projection of its own, and let transformers not tie it again."""
    head = model.get_output_embeddings()
    if is_tied(model):
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    tied = model.all_tied_weights_keys
    for name in [name for name in tied if model.get_parameter(name) is head.weight]:
        del tied[name]


@dataclass(frozen=True)
class VocabularyTensors:
    """Embedding rows and output bias of a target vocabulary."""

    embeddings_VD: torch.Tensor
    bias_V: torch.Tensor | None
    """None where the head has none."""
    note: str = ""
    decoder_VD: torch.Tensor | None = None
    """The output projection where it is not tied to the embeddings."""

    @classmethod
    def of(cls, model: PreTrainedModel, family: Family, note: str) -> VocabularyTensors:
        """Return the vocabulary of a model."""
        tensors, tied = model.state_dict(), is_tied(model)
        biases = [tensors[name].flatten() for name in family.output_bias]
        return cls(
            tensors[family.word_embeddings],
            # Of two names the first is read where the head is tied, the last where it is not.
            biases[0 if tied else -1] if biases else None,
            note,
            None if tied else tensors[family.decoder],
        )

    def tensors(self, family: Family) -> dict[str, torch.Tensor]:
        """Return the tensors by every name that they have in a model."""
        tensors = {family.word_embeddings: self.embeddings_VD}
        if self.bias_V is not None:
            tensors |= dict.fromkeys(family.output_bias, self.bias_V)
        if self.decoder_VD is not None:
            tensors[family.decoder] = self.decoder_VD
        return tensors


@dataclass
class _Filling:
    """Pass over the target's tensors."""

    target: PreTrainedModel
    available: Mapping[str, torch.Tensor]
    family: Family
    plans: Sequence[Plan]
    """Plan of each list of layers."""
    account: Account
    keep_source: bool
    missing: frozenset[str]

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the target's tensors, to write into."""
        return self.target.state_dict()

    def run(self, vocabulary: VocabularyTensors | None) -> set[str]:
        """Write every tensor; return the names of the source's tensors that were used."""
        used: set[str] = set()
        tensors = self.tensors
        replaced = vocabulary.tensors(self.family) if vocabulary else {}
        tied = is_tied(self.target)
        for name in tied_once(tensors, self.family, tied=tied):
            tensor = tensors[name]
            if name in replaced:
                tensor.copy_(replaced[name])
                self.add(name, "resized", name, vocabulary.note if vocabulary else "")
                used.add(name)
                continue
            origin = self.origin(name)
            if origin is not None and origin in self.available:
                used.add(origin)
            self.fill(name, origin, tensor)
        return used

    def fill(self, name: str, origin: str | None, tensor: torch.Tensor) -> None:
        """Write one tensor that is not the vocabulary's."""
        lacks, identity = self.family.first_layer_lacks, self.family.identity
        if identity and self.is_identity(name) and identity.owns(name):
            tensor.fill_(identity.value)
            self.add(name, "fresh", None, f"silent inserted layer, {identity.value:g}")
        elif origin is None:
            self.add(name, "fresh", None, "implicit translation layer")
        elif not self.keep_source:
            self.add(name, "fresh", None, "drawn anew")
        elif origin in self.missing:
            self.add(name, "fresh", None, "missing in the source checkpoint")
            self.account.notes.append(f"{name}: missing in the source checkpoint, starts fresh")
        elif origin in self.available and self.available[origin].shape == tensor.shape:
            tensor.copy_(self.available[origin])
            self.add(name, "copied", origin)
        elif lacks and origin.endswith(f".0.{lacks}"):
            self.stand_in_norm(name, tensor)
        else:
            shape = tuple(self.available[origin].shape) if origin in self.available else "nothing"
            raise UnsupportedModelError(
                f"tensor '{name}' {tuple(tensor.shape)} should come from '{origin}', where the "
                f"source has {shape}; the family's record does not fit this model"
            )

    def add(self, name: str, kind: str, source: str | None, note: str = "") -> None:
        shape = tuple(self.tensors[name].shape)
        self.account.entries.append(Entry(name, kind, source, shape, note))

    def start_of(self, name: str) -> tuple[LayerList, int, int | None]:
        """Return the list of layers of a layer's tensor, its layer's index there, and its plan."""
        number = layer_index(name, self.family)
        assert number is not None, f"{name} belongs to no layer"
        stack, plan = next(
            (stack, plan)
            for stack, plan in zip(self.family.lists, self.plans, strict=True)
            if name.startswith(stack.layers + ".")
        )
        return stack, number - stack.first, plan[number - stack.first]

    def is_identity(self, name: str) -> bool:
        """Return whether a tensor belongs to a layer that adds nothing."""
        of_layer = layer_index(name, self.family) is not None
        return of_layer and isinstance(self.start_of(name)[2], IdentityLayer)

    def origin(self, name: str) -> str | None:
        """Return the source's name for what a tensor starts from; None in a fresh layer."""
        if layer_index(name, self.family) is None or goes_with_place(name, self.family):
            return name
        stack, index, source = self.start_of(name)
        if source is None:
            return None
        return f"{stack.layers}.{source}.{name.removeprefix(f'{stack.layers}.{index}.')}"

    def stand_in_norm(self, name: str, tensor: torch.Tensor) -> None:
        """Give the old first layer, which had no attention norm, one that is near the identity.

        ModernBERT normalises its embeddings and leaves the norm before the first attention out.
        With a layer put in front, the stock class demands that norm. The hidden state there is the
        embedding norm's output g*z (z of unit scale) plus what the inserted layer adds; a norm with
        the constant weight rms(g) gives g*z back where the inserted layer adds nothing.
        """
        gain = self.tensors[self.family.embedding_norm[0] + "weight"].float()
        scale = 1.0 if gain.is_meta else float(gain.square().mean().sqrt())
        tensor.fill_(scale)
        self.add(name, "fresh", None, f"stand-in norm, constant {scale:.4g}")
        self.account.notes.append(
            f"{name}: the source's first layer has no attention norm, the stock class demands one; "
            f"it starts at {scale:.4g}, near the identity"
        )


def _why_dropped(name: str, family: Family) -> str:
    if family.first_layer_lacks and name.endswith(family.first_layer_lacks):
        return "the first layer of the stock class has no such norm"
    if layer_index(name, family) is not None:
        return "a layer that the target does not have"
    return f"not part of the {KINDS[family.kind].title}"
