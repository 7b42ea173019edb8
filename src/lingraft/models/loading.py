"""The one place where models are loaded and saved, and their stock classes found.

No stock class has the tensors of `modules.MODULES`. They lie in a file of their own. Unless the
module is exportable, the stock tensors lie in `model.without-MODULE.safetensors`, a name under
which transformers does not look unless it is told to: `AutoModel.from_pretrained` stops with an
error instead of loading another model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.utils import GENERATION_CONFIG_NAME

from lingraft.files import write_json
from lingraft.models.families import FAMILIES, family_of
from lingraft.models.families.record import KINDS
from lingraft.models.modules import MODULES, owner_of, owners_of
from lingraft.pretrained.checkpoints import place_of
from lingraft.pretrained.load import find_file, load_config, load_model, one_line
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.models.modules import Module


def auto_class(config: PreTrainedConfig) -> Any:
    """Return the class of transformers that loads an architecture with its head.

    An encoder without a record is asked for as a masked language model.
    """
    family = FAMILIES.get(config.model_type)
    kind = family.kind if family else "seq2seq" if config.is_encoder_decoder else "masked"
    return getattr(transformers, KINDS[kind].auto_class)


def stock_class(config: PreTrainedConfig) -> Any:
    """Return an architecture's stock class; None where transformers has none with such a head."""
    return auto_class(config)._model_mapping.get(type(config), None)


def variant_of(modules: Sequence[Module]) -> str | None:
    """Return the addition to the name of the stock tensors' file; None for the usual name."""
    parts = [module.part for module in modules if not module.exportable]
    return f"without-{'-'.join(parts)}" if parts else None


def own_tensors(model: PreTrainedModel, module: Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters by name; none where the model does not have it."""
    return {name: value.detach() for name, value in model.named_parameters() if module.owns(name)}


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write configuration and stock tensors, and in files of their own what modules add."""
    modules = owners_of(model.state_dict())
    if not modules or model.config.is_encoder_decoder:  # whose cross-attention is the stock class's
        _write(model, folder, state_dict=_stored(model))
        return
    stock = {name: value for name, value in model.state_dict().items() if owner_of(name) is None}
    variant = variant_of(modules)
    _write(model, folder, state_dict=stock, variant=variant)
    for module in modules:
        module_tensors = own_tensors(model, module)
        tensors = {name: value.cpu().contiguous() for name, value in module_tensors.items()}
        save_file(tensors, folder / module.tensors_file)
        name = f"model.{variant}.safetensors" if variant else "model.safetensors"
        settings = module.code.settings(module_tensors) | {"stock_tensors": name}
        write_json(folder / module.settings_file, settings)


def _write(model: PreTrainedModel, folder: Path, **options: Any) -> None:
    """Write a stock model, also one whose generation_config says what has no effect.

    Published ones do (a temperature where nothing is sampled); transformers writes such a one as it
    was loaded, but refuses it where an id was changed.
    """
    if not model.can_generate():
        model.save_pretrained(folder, **options)
        return
    own, model.generation_config = model.generation_config, transformers.GenerationConfig()
    try:
        model.save_pretrained(folder, **options)
    finally:
        model.generation_config = own
    own.to_json_file(folder / GENERATION_CONFIG_NAME, keys_to_pop=["compile_config"])


def _stored(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return a model's tensors; what stacks share and the stock class does not, once for each."""
    tensors = model.state_dict()
    tied, parameter_ids = set(model.all_tied_weights_keys), set[int]()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name not in tied and id(parameter) in parameter_ids:
            tensors[name] = tensors[name].clone()
        parameter_ids.add(id(parameter))
    return tensors


def load(
    name: str,
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Load a model with its head, and with the modules that the checkpoint has.

    Args:
        name: directory or Hub id.
        revision: branch, tag or commit on the Hub.
        settings: configuration values to change.
        options: of `from_pretrained`.

    Returns:
        The model in fp32 on the CPU, and what transformers says of the loading.

    Raises:
        DataError: the checkpoint or a module's files are broken, or do not fit each other.
        UnsupportedModelError: as `pretrained.load.load_model`.
    """
    config = load_config(name, revision)
    place = place_of(name, revision)[:2]
    files = {part: find_file(place[0], MODULES[part].settings_file, place[1]) for part in MODULES}
    paths = {part: path for part, path in files.items() if path is not None}
    model, info = load_model(
        auto_class(config),
        name,
        revision,
        settings,
        variant=variant_of([MODULES[part] for part in paths]),
        **options,
    )
    embeddings: Any = model.get_input_embeddings()
    ends = model.config.eos_token_id
    if getattr(embeddings, "padding_idx", None) in (ends if isinstance(ends, list) else [ends]):
        embeddings.padding_idx = None  # the token is read, too, so that its row has to learn
    for part, path in paths.items():
        module = MODULES[part]
        size = int(read_json(path)[module.size_key])
        module.code.insert(model, family_of(model.config.model_type), size)
        _fill(model, module, find_file(place[0], module.tensors_file, place[1]), name)
        model.eval()
    return model, info


def _fill(model: PreTrainedModel, module: Module, path: Path | None, name: str) -> None:
    broken = f"model '{name}': {module.tensors_file} does not hold the {module.part}"
    with one_line(broken, "copy the whole folder again"), torch.no_grad():
        stored = load_file(str(path))
        for key, tensor in own_tensors(model, module).items():
            tensor.copy_(stored[key])
