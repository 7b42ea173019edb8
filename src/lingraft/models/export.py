"""Writing a checkpoint that stock transformers, 4.57 included, loads, and proving that it does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.files import writing
from lingraft.models import loading
from lingraft.models.families import FAMILIES, family_of, older
from lingraft.models.families.record import BOTH_ENDS, KINDS
from lingraft.models.graft import is_tied
from lingraft.pretrained import checkpoints
from lingraft.pretrained.tokenizers import check_saved

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from transformers import PreTrainedConfig, PreTrainedModel

    from lingraft.tokenizer.vocabulary import Vocabulary


OF_PIECES = (
    "bad_words_ids",
    "begin_suppress_tokens",
    "force_words_ids",
    "sequence_bias",
    "suppress_tokens",
)
"""Keys of a generation configuration that hold ids of ordinary pieces."""


def special_ids(model_type: str, specials: Mapping[str, int]) -> dict[str, int | None]:
    """Return configuration keys of the special tokens; None where the vocabulary lacks the role."""
    keys = KINDS[family_of(model_type).kind].special_ids
    return {key: specials.get(role) for key, role in keys.items()}


def vocabulary_settings(
    config: PreTrainedConfig, vocabulary: Vocabulary, origin: Vocabulary | None = None
) -> dict[str, Any]:
    """Return configuration values that follow from a vocabulary; ids empty in the source stay so.

    Args:
        config: of the source.
        vocabulary: of the target.
        origin: of the source, to find the roles of ids that only the model gives one.
    """
    changes: dict[str, Any] = {"vocab_size": vocabulary.size, "tokenizer_class": None}
    present, keys = config.to_dict(), KINDS[family_of(config.model_type).kind].special_ids
    changes |= _moved(present, keys, vocabulary, origin or vocabulary)
    changes.setdefault("pad_token_id", vocabulary.specials.get("pad"))
    changes |= _kept(config.model_type, present, vocabulary, origin or vocabulary)
    if vocabulary.code is not None:  # mBART's first checkpoints leave it to the language
        changes.setdefault("decoder_start_token_id", vocabulary.code)
    return changes


def generation_settings(
    model: PreTrainedModel, vocabulary: Vocabulary, origin: Vocabulary
) -> dict[str, Any]:
    """Return values of the generation configuration that follow from a vocabulary."""
    if not model.can_generate():
        return {}
    present = model.generation_config.to_dict()
    return _kept(model.config.model_type, present, vocabulary, origin)


def generation_ids(
    present: Mapping[str, Any], vocabulary: Vocabulary, origin: Vocabulary
) -> dict[str, Any]:
    """Return the special ids of a generation configuration, for another vocabulary.

    Roles stay roles. Of several ids at which writing stops (Llama 3, Gemma), those stay whose
    tokens the new vocabulary has. Lists of ids that are favoured or forbidden lose their meaning
    and go; ids without a piece are forbidden.

    Args:
        present: the source's values.
        vocabulary: of the target.
        origin: of the source.
    """
    settings = _moved(present, BOTH_ENDS, vocabulary, origin)
    if vocabulary.pieces[: origin.size] != origin.pieces:
        settings |= dict.fromkeys(key for key in OF_PIECES if present.get(key) is not None)
    if empty := [index for index, piece in enumerate(vocabulary.pieces) if not piece]:
        held = settings.get("suppress_tokens", present.get("suppress_tokens")) or []
        settings["suppress_tokens"] = sorted({*held, *empty})
    return settings


def _moved(
    present: Mapping[str, Any], keys: Mapping[str, str], vocabulary: Vocabulary, origin: Vocabulary
) -> dict[str, Any]:
    """Return ids of special tokens in another vocabulary, of those keys that are not empty.

    An id gets its role's; where the tokenizer has no such role, that of the same special token. Of
    several ids each gets that of its own token, and those without one go.
    """
    ids = {piece: index for index, piece in enumerate(vocabulary.pieces) if piece}
    places = {index: ids.get(piece) for index, piece in enumerate(origin.pieces)}
    places |= {index: vocabulary.specials.get(role) for role, index in origin.specials.items()}
    settings: dict[str, Any] = {}
    for key, role in keys.items():
        if (old := present.get(key)) is None:
            continue
        if isinstance(old, list):
            new_ids = dict.fromkeys(places.get(index) for index in old)
            new_ids.pop(None, None)
            settings[key] = list(new_ids) or vocabulary.specials.get(role)
        else:
            same = places.get(old) if old in origin.special_ids else None
            settings[key] = vocabulary.specials.get(role, same)
    return settings


def _kept(
    model_type: str, present: Mapping[str, Any], vocabulary: Vocabulary, origin: Vocabulary
) -> dict[str, Any]:
    """Return ids whose role depends on the model; a language gives way to the target's."""
    new, settings = vocabulary.specials | vocabulary.kept, dict[str, Any]()
    roles = (origin.specials | origin.kept).items()
    for key in KINDS[family_of(model_type).kind].kept_ids:
        if (old := present.get(key)) is None:
            continue
        same = [new[role] for role, index in roles if index == old and role in new]
        if old in origin.code_ids and vocabulary.code is not None:
            same = [vocabulary.code]
        if not same:
            raise UnsupportedModelError(
                f"the source's config.json has {key} {old}, no special token of its tokenizer"
            )
        settings[key] = same[0]
    return settings


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write weights and configuration: a stock checkpoint, unless the model has modules.

    Raises:
        DataError: they cannot be written; the disk is full, say.
    """
    with writing(folder):
        loading.save(model, folder)
    checkpoints.write(folder)


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtype_of(config: PreTrainedConfig, asked: str = "source") -> torch.dtype:
    """Return in what numbers a model is stored: those asked for, or of its source's config.json."""
    own = config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32
    return DTYPES.get(asked, own)


def write_model(model: PreTrainedModel, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write weights and configuration so that transformers 4.57 reads them too.

    Args:
        model: a stock model, with any head; its weights are rounded to `dtype`.
        folder: takes them.
        dtype: of the numbers in the file.
    """
    has_head = model.config.model_type in FAMILIES and model.get_output_embeddings() is not None
    for parameter in model.parameters():  # buffers, such as rotary frequencies, are not rounded
        parameter.data = parameter.data.to(dtype)
    save(model, folder)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.float32)
    # in transformers 5 T5 1.1 and mT5 say that they are tied
    finish_config(folder, {"tie_word_embeddings": False} if has_head and not is_tied(model) else {})


def finish_config(folder: Path, more: dict[str, Any]) -> None:
    """Add to a checkpoint's config.json what transformers 4.57 looks for, and more."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    family = FAMILIES.get(str(config.get("model_type")))
    settings = older.flat if family is None else family.older
    config |= (settings(config) if settings else {}) | more
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


@torch.no_grad()
def check_reload(model: PreTrainedModel, folder: Path) -> None:
    """Reload as stock transformers does: nothing missing, nothing unexpected, equal logits.

    A model with modules is reloaded as `lingraft.load` does it: there is no stock class for it.
    Where a tokenizer lies beside it, it must give the same ids as its tokenizer.json.

    Raises:
        DataError: the written checkpoint is not the model.
    """
    check_saved(folder)
    again, info = loading.load(str(folder))
    strays = {key: value for key, value in info.items() if value}
    if strays:
        raise DataError(f"{folder}: the exported checkpoint does not load cleanly: {strays}")
    ids = torch.randint(
        0, model.config.vocab_size, (2, 12), generator=torch.Generator().manual_seed(0)
    )
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids.flip(1)
    model.eval()
    expected = model(**{key: value.to(model.device) for key, value in inputs.items()}).logits.cpu()
    difference = float((again.eval()(**inputs).logits - expected).abs().max())
    if not difference <= 1e-4:
        raise DataError(
            f"{folder}: the exported checkpoint gives other logits "
            f"(largest difference {difference:.2g})"
        )
