"""An encoder, cut at a layer, as a folder that sentence-transformers and mteb open by themselves.

The folder is a stock checkpoint of transformers with `modules.json` and the modules' settings
beside it, in the form that sentence-transformers reads since version 2. Of the layers above the
chosen one the first stays, since many models put a last norm on whatever layer comes last; a module
picks the chosen layer's states.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import save_file
from transformers import AutoModel

from lingraft.crosslingual.encoder import LONGEST, encoder_config
from lingraft.crosslingual.layers import check_layer, fingerprint_of
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.files import check_free, removed_on_failure, use_umask, write_json, writing
from lingraft.models import modules as added
from lingraft.models.export import finish_config
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_model, longest_text
from lingraft.pretrained.tokenizers import check_rows, check_saved, load_tokenizer
from lingraft.report.row import RESULTS, read
from lingraft.rundir import Step
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel

    from lingraft.crosslingual.settings import Pool

POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
"""By our name: the switch in 1_Pooling/config.json."""
TYPES = "sentence_transformers.models."
"""Package of sentence-transformers' modules, also by its own account of old names."""
CLOSE = 1e-5
"""Largest difference of a state, relative to the largest state."""


def chosen_in(folder: Path, name: str) -> tuple[int, Pool]:
    """Return the layer and the pooling that `lingraft analyze retrieval` reports of a model.

    Args:
        folder: its --out.
        name: of the model.

    Raises:
        DataError: the folder holds no such results, or none of this model.
    """
    path, mark = folder / RESULTS, fingerprint_of(name)
    choices = {
        (int(str(row.axes["layer"])), cast("Pool", row.axes["pool"]))
        for row in (read(path) if Step(folder).is_of("retrieve") else ())
        if row.facts.get("model_fingerprint") == mark and row.reported
    }
    if len(choices) != 1:
        raise DataError(
            f"{folder}: reports {len(choices)} layers of {name}, as its weights are now; give the "
            "--out of lingraft analyze retrieval, or layer=N and pool=NAME"
        )
    return choices.pop()


def export(name: str, out: Path, layer: int | None = None, pool: Pool = "mean") -> dict[str, Any]:
    """Write a folder that sentence-transformers opens.

    Args:
        name: an encoder: directory or Hub id.
        out: the folder, made here.
        layer: whose states are pooled; None takes the last.
        pool: mean or cls.

    Returns:
        layer, depth (of the model), difference (largest of a state, between it and the folder).

    Raises:
        RecipeError: there is no such layer.
        DataError: the folder is not empty, or the checkpoint is broken.
        UnsupportedModelError: the model has modules, cannot be cut, or is no encoder.
    """
    source = folder_of(name)
    for module in () if source is None else added.in_folder(source):
        if not module.exportable:
            raise UnsupportedModelError(
                f"{name}: has {module.part}, which no stock class has, so sentence-transformers "
                "could not open it; export a model without them"
            )
    check_free(out)
    encoder_config(name)
    tokenizer = load_tokenizer(name)
    model, loading_info = load_model(AutoModel, name)
    check_rows(name, tokenizer, getattr(model.config, "vocab_size", None), every=True)
    model = model.train(mode=False)
    depth = int(model.config.num_hidden_layers)
    layer = depth if layer is None else check_layer(layer, depth, name)
    cut, expected = _cut(model, min(layer + 1, depth)), _states(model, layer)
    with removed_on_failure(out), writing(out):
        out.mkdir(parents=True, exist_ok=True)
        fresh = set(loading_info.get("missing_keys", ()))  # a pooler that the checkpoint never had
        tensors = {key: value for key, value in cut.state_dict().items() if key not in fresh}
        cut.save_pretrained(out, state_dict=tensors)
        tokenizer_files.save(tokenizer, out)
        finish_config(out, {"output_hidden_states": True} if layer < depth else {})
        check_saved(out)
        longest = min(LONGEST, longest_text(model.config, int(tokenizer.pad_token_id or 0)))
        picked = layer if layer < depth else None
        _write_modules(out, int(model.config.hidden_size), longest, pool, picked)
        use_umask(out)
        again, _ = load_model(AutoModel, str(out))
        found = _states(again.train(mode=False), layer)
        difference = float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
        if not difference <= CLOSE:
            raise UnsupportedModelError(
                f"{name}: models of type '{model.config.model_type}' cannot be cut: the states of "
                f"layer {layer} would be others; export the last layer"
            )
    return {"layer": layer, "depth": depth, "difference": difference}


def _cut(model: PreTrainedModel, kept: int) -> PreTrainedModel:
    """Return the model with so many layers."""
    depth = int(model.config.num_hidden_layers)
    if kept == depth:
        return model
    config = copy.deepcopy(model.config)
    for key, value in model.config.to_dict().items():
        if isinstance(value, list) and len(value) == depth and key.startswith("layer"):
            setattr(config, key, value[:kept])
    config.num_hidden_layers = kept
    cut = type(model)(config).train(mode=False)
    cut.load_state_dict(model.state_dict(), strict=False)  # what it lacks, its states tell
    return cut


@torch.inference_mode()
def _states(model: PreTrainedModel, layer: int) -> torch.Tensor:
    """Return the states of a layer on fixed ids, some padded."""
    generator = torch.Generator().manual_seed(0)
    ids_BT = torch.randint(5, int(model.config.vocab_size), (2, 12), generator=generator)
    mask_BT = torch.ones_like(ids_BT)
    pad = getattr(model.config, "pad_token_id", None)
    ids_BT[1, 8:] = pad if pad is not None else 0
    mask_BT[1, 8:] = 0
    output = model(input_ids=ids_BT, attention_mask=mask_BT, output_hidden_states=True)
    return output.hidden_states[layer][mask_BT.bool()]


def _write_modules(folder: Path, width: int, longest: int, pool: Pool, picked: int | None) -> None:
    """Write modules.json and what it names; `picked` is the layer whose states a module picks."""
    modules: dict[str, dict[str, Any]] = {"Transformer": {}}
    if picked is not None:
        layers = {"layer_start": picked, "num_hidden_layers": picked + 1}
        modules["WeightedLayerPooling"] = {"word_embedding_dimension": width, **layers}
    pooling = {switch: name == pool for name, switch in POOLING.items()}
    modules |= {"Pooling": {"word_embedding_dimension": width, **pooling}, "Normalize": {}}
    listed = []
    for number, (name, settings) in enumerate(modules.items()):
        path = f"{number}_{name}" if number else ""
        listed.append({"idx": number, "name": str(number), "path": path, "type": TYPES + name})
        if number:
            (folder / path).mkdir()
            write_json(folder / path / "config.json", settings)
        if name == "WeightedLayerPooling":
            weights = {"layer_weights": torch.tensor([1.0, 0.0])}
            save_file(weights, folder / path / "model.safetensors")
    write_json(folder / "modules.json", listed)
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False}
    )
