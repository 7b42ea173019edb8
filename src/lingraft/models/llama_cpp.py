"""A causal model as one file for llama.cpp, in GGUF; its families are a table of facts.

Names of tensors are those of the package gguf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lingraft.errors import UnsupportedModelError
from lingraft.files import check_output, replacing, writing
from lingraft.models import loading, modules as added
from lingraft.models.export import dtype_of
from lingraft.models.graft import is_tied
from lingraft.optional import require
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_config
from lingraft.tokenizer import files as tokenizer_files, llama_cpp as vocabulary

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedConfig

KEYS, FAMILIES = vocabulary.TABLES["keys"], vocabulary.TABLES["families"]
NUMBERS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def export(name: str, out: Path, dtype: str = "source") -> dict[str, Any]:
    """Write a causal model and its tokenizer as one GGUF file.

    Args:
        name: directory or Hub id.
        out: the file.
        dtype: of the matrices, as `export.dtype_of`; norms, biases and positions are fp32.

    Returns:
        arch, pre (llama.cpp's name of how words are cut), dtype, tensors (their number).

    Raises:
        DataError: `out` is there, or cannot be written.
        UnsupportedModelError: llama.cpp does not know the family, one of its settings or the
            vocabulary.
    """
    gguf = require("gguf", "a file for llama.cpp", "gguf")
    check_output(out, [])
    source, config = folder_of(name), load_config(name)
    if config.model_type not in FAMILIES or (source is not None and added.in_folder(source)):
        raise UnsupportedModelError(
            f"{name}: has modules of its own or is none of {', '.join(FAMILIES)}; use transformers"
        )
    settings, number = _settings(config), NUMBERS[dtype_of(config, dtype)]
    words = vocabulary.metadata(tokenizer_files.load(name), int(config.vocab_size))
    tensors = _tensors(gguf, loading.load(name)[0])
    settings["feed_forward_length"] = tensors["blk.0.ffn_down.weight"].shape[1]
    arch = gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH[FAMILIES[config.model_type]["arch"]]]
    kind = gguf.LlamaFileType["ALL_F32" if number == "F32" else f"MOSTLY_{number}"]
    values = {f"{arch}.{key}": value for key, value in settings.items()}
    values |= {f"tokenizer.{key}": value for key, value in words.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    with writing(out), replacing(out) as partial:
        writer = gguf.GGUFWriter(partial, arch)
        put = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
        put |= {str: writer.add_string, list: writer.add_array}
        for key, value in (values | {"general.file_type": int(kind)}).items():
            put[type(value)](key, value)
        for key, tensor in tensors.items():
            small = tensor.dim() < 2 or key == "position_embd.weight"
            stored = gguf.GGMLQuantizationType["F32" if small else number]
            array = gguf.quantize(tensor.contiguous().numpy(), stored)
            writer.add_tensor(key, array, raw_dtype=stored)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return {"arch": arch, "pre": words["ggml.pre"], "dtype": number, "tensors": len(tensors)}


def _refused(config: PreTrainedConfig, key: str, value: object) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"llama.cpp's {config.model_type} cannot have {key} {value}; use the model in transformers"
    )


def _settings(config: PreTrainedConfig) -> dict[str, Any]:
    """Return the values of GGUF that follow from config.json."""
    facts, rope = FAMILIES[config.model_type], getattr(config, "rope_parameters", None)
    usual = type(config).from_dict({"num_hidden_layers": config.num_hidden_layers})
    wanted = facts["config"] | {key: getattr(usual, key) for key in facts.get("usual", ())}
    for key, value in wanted.items():
        if getattr(config, key) != getattr(config, str(value), value):
            raise _refused(config, key, getattr(config, key))
    found = [(key, getattr(config, name, None)) for name, keys in KEYS.items() for key in keys]
    settings: dict[str, Any] = {key: value for key, value in found if value is not None}
    slides = [kind == "sliding_attention" for kind in getattr(config, "layer_types", None) or ()]
    if "windows" in facts:
        settings["attention.sliding_window_pattern"] = slides
    elif any(slides):
        raise _refused(config, "layer_types", config.layer_types)
    elif window := settings.get("attention.sliding_window"):  # so far both compute the same
        settings["context_length"] = min(window, settings["context_length"])
    if rope:
        full, local = rope.get("full_attention", rope), rope.get("sliding_attention", {})
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        settings["rope.dimension_count"] = int(size * (full.get("partial_rotary_factor") or 1))
        settings["rope.freq_base"] = float(full["rope_theta"])
        settings["rope.freq_base_swa"] = float(local.get("rope_theta", full["rope_theta"]))
        if full["rope_type"] == "linear":
            factor = float(full["factor"])
            settings |= {"rope.scaling.type": "linear", "rope.scaling.factor": factor}
        elif full["rope_type"] not in ("default", facts.get("rope")):
            raise _refused(config, "rope_type", full["rope_type"])
    return settings


def _tensors(gguf: Any, model: Any) -> dict[str, torch.Tensor]:
    """Return the tensors by their names in GGUF, laid out as llama.cpp reads them."""
    config, facts = model.config, FAMILIES[model.config.model_type]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[facts["arch"]], config.num_hidden_layers)
    tensors: dict[str, torch.Tensor] = {}
    for key, tensor in model.state_dict().items():
        if key.startswith("lm_head.") and is_tied(model) and "output" not in facts:
            continue
        if (name := names.get_name(key, (".weight", ".bias"))) is None:
            raise _refused(config, "the tensor", key)
        how = next((how for part, how in facts.get("layout", {}).items() if part in key), "")
        heads = config.num_key_value_heads if "k_proj" in key else config.num_attention_heads
        tensors[name] = _laid_out(tensor, how, heads)
    rope = getattr(config, "rope_parameters", None) or {}
    if "rope" in facts and rope["rope_type"] == facts["rope"]:
        scaled = model.base_model.rotary_emb.inv_freq  # of Llama 3.1: the others divided by these
        powers = torch.arange(len(scaled)) / len(scaled)
        tensors["rope_freqs.weight"] = rope["rope_theta"] ** -powers / scaled
    return tensors


def _laid_out(tensor: torch.Tensor, how: str, heads: int) -> torch.Tensor:
    """Return a tensor as `layout` of the table says."""
    if not how or how == "transposed":
        return tensor.T if how else tensor
    if how == "plus-one":
        return tensor + 1
    parts = tensor.view(heads, 2 if how == "pairs" else 3, -1, *tensor.shape[1:])
    return parts.transpose(*((1, 2) if how == "pairs" else (0, 1))).reshape(tensor.shape)
