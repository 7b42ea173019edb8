"""An encoder, cut at a layer, as a folder that sentence-transformers and mteb open by themselves.

The folder is a stock checkpoint of transformers with `modules.json` and the modules' settings
beside it, in the form that sentence-transformers reads since version 2. Layers above the chosen one
are left out. Where the model puts a last norm on whatever layer comes last (ModernBERT), the layer
after the chosen one stays, and a module picks the chosen layer's states; which of both it is, is
decided by comparing states, not by the architecture's name.

Shape letters: B sequences, T tokens.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import save_file
from transformers import AutoModel

from lingraft.crosslingual.encoder import LONGEST, encoder_config
from lingraft.crosslingual.layers import check_layer, fingerprint_of, is_of
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models import modules as added
from lingraft.models.export import finish_config
from lingraft.paths import use_umask
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_model, longest_text
from lingraft.pretrained.tokenizers import check_rows, check_saved, load_tokenizer
from lingraft.report.row import RESULTS, read
from lingraft.rundir import check_free, removed_on_failure, write_json, writing
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel

    from lingraft.crosslingual.layers import Pool


POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
"""By our name: the switch in 1_Pooling/config.json. The mean over text tokens alone has none."""
TYPES = "sentence_transformers.models."
"""Where sentence-transformers has its modules, also by its own account of old names."""
CLOSE = 1e-5
"""Largest difference of a state, relative to the largest state."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    layer: int
    kept: int
    """Layers in the checkpoint: one more than `layer` where a module picks the states."""
    depth: int
    """Layers of the model that was given."""
    difference: float
    """Largest difference of a state between the model and the reloaded folder."""


def chosen_in(folder: Path, name: str) -> tuple[int, Pool]:
    """The layer and the pooling that `lingraft analyze retrieval` reports of a model.

    Args:
        folder: its --out.
        name: of the model.

    Raises:
        DataError: the folder holds no such results, or none of this model.
    """
    path = folder / RESULTS
    if not is_of(folder, "retrieve") or not path.is_file():
        raise DataError(f"{folder}: holds no results of lingraft analyze retrieval; give its --out")
    mark, choices = fingerprint_of(name), set()
    for row in read(path):
        if row.facts.get("model_fingerprint") == mark and row.reported:
            choices.add((int(str(row.axes["layer"])), cast("Pool", row.axes["pool"])))
    if not choices:
        raise DataError(f"{folder}: holds no results of {name}, as its weights are now")
    if len(choices) > 1:
        layers = ", ".join(str(layer) for layer in sorted({layer for layer, _ in choices}))
        raise RecipeError(
            f"{folder}: each language has its own layer ({layers}); give one with layer=N "
            "instead of retrieval"
        )
    return choices.pop()


def export(name: str, out: Path, layer: int | None = None, pool: str = "mean") -> Exported:
    """Write a folder that sentence-transformers opens.

    Args:
        name: an encoder: directory or Hub id.
        out: the folder, made here.
        layer: whose states are pooled; None takes the last.
        pool: mean or cls.

    Raises:
        RecipeError: there is no such layer, or the pooling is none of sentence-transformers'.
        DataError: the folder is not empty, or the checkpoint is broken.
        UnsupportedModelError: the model has modules, cannot be cut, or is no encoder.
    """
    if pool not in POOLING:
        raise RecipeError(
            f"--pool {pool}: sentence-transformers has no such pooling; choose "
            f"{' or '.join(POOLING)}"
        )
    source = folder_of(name)
    own = [] if source is None else added.in_folder(source)
    if own := [module for module in own if not module.exportable]:
        raise UnsupportedModelError(
            f"{name}: has {own[0].part}, which no stock class has, so sentence-transformers could "
            "not open it; export a model without them"
        )
    check_free(out)
    encoder_config(name)
    tokenizer = load_tokenizer(name)
    model, loading_info = load_model(AutoModel, name)
    check_rows(name, tokenizer, getattr(model.config, "vocab_size", None), every=True)
    model = model.train(mode=False)
    depth = int(model.config.num_hidden_layers)
    layer = depth if layer is None else check_layer(layer, depth, name)
    cut, picks = _cut(model, layer, name)
    with removed_on_failure(out), writing(out):
        out.mkdir(parents=True, exist_ok=True)
        fresh = set(loading_info.get("missing_keys", ()))  # a pooler that the checkpoint never had
        tensors = {key: value for key, value in cut.state_dict().items() if key not in fresh}
        cut.save_pretrained(out, state_dict=tensors)
        tokenizer_files.save_as_it_is(tokenizer, out)
        finish_config(out, {"output_hidden_states": True} if picks else {})
        check_saved(out)
        pad = int(tokenizer.pad_token_id or 0)
        longest = min(LONGEST, longest_text(model.config, pad))
        _write_modules(out, int(model.config.hidden_size), longest, pool, layer if picks else None)
        use_umask(out)
        difference = _check(model, out, layer, picks)
    return Exported(layer, int(cut.config.num_hidden_layers), depth, difference)


def _cut(model: PreTrainedModel, layer: int, name: str) -> tuple[PreTrainedModel, bool]:
    """Return the model up to a layer, and whether one more is kept since it ends with a norm.

    Raises:
        UnsupportedModelError: with fewer layers its states are others.
    """
    depth, expected = int(model.config.num_hidden_layers), _states(model, layer)
    for kept in range(max(layer, 1), min(layer + 1, depth) + 1):
        cut = model
        if kept < depth:
            config = copy.deepcopy(model.config)
            for key, value in model.config.to_dict().items():
                if isinstance(value, list) and len(value) == depth and key.startswith("layer"):
                    setattr(config, key, value[:kept])
            config.num_hidden_layers = kept
            cut = type(model)(config).train(mode=False)
            cut.load_state_dict(model.state_dict(), strict=False)  # what it lacks, its states tell
        if _difference(expected, _states(cut, layer)) <= CLOSE:
            return cut, kept != layer
    raise UnsupportedModelError(
        f"{name}: models of type '{model.config.model_type}' cannot be cut: the states of layer "
        f"{layer} would be others; export the last layer"
    )


@torch.inference_mode()
def _states(model: PreTrainedModel, layer: int) -> torch.Tensor:
    """The states of a layer on fixed ids, some padded."""
    generator = torch.Generator().manual_seed(0)
    ids_BT = torch.randint(5, int(model.config.vocab_size), (2, 12), generator=generator)
    mask_BT = torch.ones_like(ids_BT)
    pad = getattr(model.config, "pad_token_id", None)
    ids_BT[1, 8:] = pad if pad is not None else 0
    mask_BT[1, 8:] = 0
    output = model(input_ids=ids_BT, attention_mask=mask_BT, output_hidden_states=True)
    return output.hidden_states[layer][mask_BT.bool()]


def _difference(expected: torch.Tensor, actual: torch.Tensor) -> float:
    return float((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


def _write_modules(folder: Path, width: int, longest: int, pool: str, picked: int | None) -> None:
    """Write modules.json and what it names; `picked` is the layer whose states a module picks."""
    pooling = {switch: name == pool for name, switch in POOLING.items()}
    settings: dict[str, dict[str, Any]] = {"Transformer": {}}
    if picked is not None:
        settings["WeightedLayerPooling"] = {
            "word_embedding_dimension": width,
            "layer_start": picked,
            "num_hidden_layers": picked + 1,
        }
    settings |= {"Pooling": {"word_embedding_dimension": width, **pooling}, "Normalize": {}}
    modules = []
    for number, (name, config) in enumerate(settings.items()):
        path = f"{number}_{name}" if number else ""
        modules.append({"idx": number, "name": str(number), "path": path, "type": TYPES + name})
        if number:
            (folder / path).mkdir()
            write_json(folder / path / "config.json", config)
        if name == "WeightedLayerPooling":
            weights = {"layer_weights": torch.tensor([1.0, 0.0])}
            save_file(weights, folder / path / "model.safetensors")
    write_json(folder / "modules.json", modules)
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False}
    )


def _check(model: PreTrainedModel, folder: Path, layer: int, picks: bool) -> float:
    """Reload as stock transformers does and compare the layer's states.

    Raises:
        DataError: they differ.
    """
    again, _ = load_model(AutoModel, str(folder))
    expected = _states(model, layer)
    difference = _difference(expected, _states(again.train(mode=False), layer))
    if not difference <= CLOSE or bool(again.config.output_hidden_states) != picks:
        raise DataError(
            f"{folder}: the exported model gives other states (largest difference "
            f"{difference:.2g}); nothing was kept"
        )
    return difference
