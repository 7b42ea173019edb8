"""A pretrained model with a new head: the stock classes, or the parser; saved and put back."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.finetuning import causal, dropout, last_layer, plugged
from lingraft.finetuning.coders.common import Shape
from lingraft.finetuning.coders.parsing import ParseCoder, Parser
from lingraft.finetuning.coders.spans import SpanCoder
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.finetuning.coders.texts import MARKERS, LabelCoder, RelationCoder, ScoreCoder
from lingraft.finetuning.coders.translation import TranslationCoder
from lingraft.finetuning.plugged import Plugged
from lingraft.models import damage, export
from lingraft.models.encoder_decoder import tie_embeddings
from lingraft.models.modules import MODULES, in_folder
from lingraft.models.source import load_model
from lingraft.pretrained import checksums
from lingraft.pretrained.checkpoints import WEIGHTS, files_digest, folder_of
from lingraft.pretrained.load import load_config, load_generation, one_line
from lingraft.pretrained.load import load_model as load_pretrained
from lingraft.pretrained.tokenizers import load_tokenizer
from lingraft.recipe import catalogue
from lingraft.rundir import write_json, writing
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.finetuning.coders.common import Coder
    from lingraft.finetuning.recipe import PlugIn
    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

HEADS: dict[str, Any] = {
    "sequence": AutoModelForSequenceClassification,
    "score": AutoModelForSequenceClassification,
    "token": AutoModelForTokenClassification,
    "span": AutoModelForQuestionAnswering,
    "parser": AutoModel,
    "translation": AutoModelForSeq2SeqLM,
}
SEE_PADDING = ("convbert", "fnet", "nystromformer", "yoso")
"""Architectures without a mask, or whose mask does not hide padding from all of their layers."""
SHIFT = ("bart", "bigbird_pegasus", "led", "mbart", "mvp", "plbart")
"""Encoder–decoders whose decoder reads the encoder's text where it is given none."""
CODERS: dict[str, type[Coder]] = {
    "classification": LabelCoder,
    "pair": LabelCoder,
    "regression": ScoreCoder,
    "tagging": TagCoder,
    "relation": RelationCoder,
    "parsing": ParseCoder,
    "span": SpanCoder,
    "translation": TranslationCoder,
}
"""By a task's kind."""
PARSER_TENSORS, PARSER_SETTINGS = "parser.safetensors", "parser.json"
PATTERNS = ["*.json", "*.txt", "*.model", "*.spm", "*.codes", "*.safetensors"]
SETTINGS = (
    *("config.json", "tokenizer*.json", "vocab.*", "merges.txt"),
    *(module.settings_file for module in MODULES.values()),
    *("special_tokens_map.json", "added_tokens.json", "*.model", "*.spm"),
    *("target_vocab.json", "vocab-*.json", "dict.txt", "*.codes"),  # Marian, FSMT, BARTpho, XLM
)


def resolve(name: str, base: Path) -> Path:
    """Return the folder of a checkpoint; download one that is on the Hub.

    Args:
        name: directory, Hub id, or a name of `lingraft show models`.
        base: the folder that a relative path starts from.

    Raises:
        DataError: it is neither here nor on the Hub, or holds no weights.
    """
    folder = base / ((name.startswith("~") and folder_of(name)) or name)
    if not folder.is_dir():
        name = catalogue.resolve(name)
        load_config(name)  # says what is wrong, with names of what is allowed
        with one_line(f"model '{name}': cannot be downloaded", "go online, or try again"):
            folder = Path(snapshot_download(name, allow_patterns=PATTERNS))
            if not any(folder.glob(WEIGHTS[0])):
                folder = Path(snapshot_download(name, allow_patterns=[*PATTERNS, WEIGHTS[1]]))
    load_config(str(folder))
    if not any(path for pattern in WEIGHTS for path in folder.glob(pattern)):
        raise DataError(f"model '{name}': {folder} holds no weights (*.safetensors)")
    return folder


def settings_fingerprint(folder: Path) -> str:
    """Compute SHA-256 of configuration and tokenizer."""
    return files_digest({path for pattern in SETTINGS for path in folder.glob(pattern)})


def tokenizer_for(folder: Path, task: Task) -> PreTrainedTokenizerFast:
    """Load the model's tokenizer; what the task needs otherwise is changed in memory."""
    if task.kind == "translation":  # needs no offsets, so any kind will do
        return cast("PreTrainedTokenizerFast", load_tokenizer(str(folder)))
    tokenizer = tokenizer_files.load(folder)
    if causal.is_causal(config := load_config(str(folder))):
        causal.prepare_tokenizer(tokenizer, config)
    if task.kind == "span":  # windows are counted from the beginning of a passage
        tokenizer.truncation_side = "right"
    if task.kind == "relation":
        tokenizer.add_special_tokens({"extra_special_tokens": list(MARKERS)})
    return tokenizer


def build(
    folder: Path,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
    plug_in: PlugIn | None = None,
) -> PreTrainedModel | Parser | Plugged:
    """Build the pretrained model in fp32 with a new head; what is new depends on the seed alone.

    Args:
        folder: of the checkpoint.
        task: its kind says which head, its labels how wide.
        tokenizer: of `tokenizer_for`; rows for tokens that it has more are added.
        seed: of the head and of added rows.
        plug_in: plugs cross-attention in, with these settings; None leaves it out.

    Raises:
        DataError: the checkpoint is broken, or is not an encoder's.
        UnsupportedModelError: the architecture has no such head, or no such dropout.
    """
    head, config = CODERS[task.kind].head, load_config(str(folder))
    settings = dropout.settings_for(task, config, head) | last_layer.settings(head, task.labels)
    outputs = last_layer.OUTPUTS.get(head, len(task.labels))
    rows = last_layer.places(config, task.labels) if head in last_layer.NAMED else []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if plug_in is not None:
            return plugged.built(folder, head, outputs, settings, plug_in, rows)
        if any(not module.exportable for module in in_folder(folder)):
            model = _with_modules(folder, head, settings)
        else:
            model = _stock(folder, head, settings, rows)
        embeddings: Any = model.get_input_embeddings()
        damage.tell(str(folder), damage.find(embeddings.weight), tokenizer, damage.AS_IT_IS)
        if (more := len(tokenizer) - embeddings.num_embeddings) > 0:
            if lacking := more - sum(marker in tokenizer.get_vocab() for marker in MARKERS):
                logger.warning(
                    "%s: %d pieces of its tokenizer have no row of embeddings; they start at "
                    "random; if that is news to you, its tokenizer belongs to another model",
                    folder,
                    lacking,
                )
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        if causal.is_causal(model.config):
            causal.finish_model(model, tokenizer, task)
        if head == "parser":
            if getattr(model, "pooler", None) is not None:
                model.pooler = None  # type: ignore[assignment] # the parser has no use for it
            return Parser(model, len(task.labels))
    if head != "translation":
        last_layer.predict_in_fp32(model, outputs)
    return model


def _translator(folder: Path, settings: dict[str, Any]) -> PreTrainedModel:
    model, _ = load_pretrained(HEADS["translation"], str(folder), settings=settings)
    unsaved = model._keys_to_ignore_on_save or ()  # Marian's sinusoids, which must stay as they are
    for name, parameter in model.named_parameters():
        if ".pooler." in name or name in unsaved:  # no loss reaches a pooler
            parameter.requires_grad_(False)
    if tie_embeddings(model):
        logger.info("%s: encoder and decoder share their embeddings", folder)
    return model


def _stock(
    folder: Path, head: str, settings: dict[str, Any], rows: Sequence[int] | None = ()
) -> PreTrainedModel:
    if head == "translation":
        return _translator(folder, settings)
    model, info = load_pretrained(
        HEADS[head],
        str(folder),
        settings=settings,
        may_lack=lambda _: True,  # a new head; the encoder is looked at below
        ignore_mismatched_sizes=True,  # a head for other labels gives way to a new one
    )
    prefix = "" if head == "parser" else f"{model.base_model_prefix}."
    mismatched = {name for name, *_ in info["mismatched_keys"]}
    lacking = sorted(
        name
        for name in {*info["missing_keys"], *mismatched}
        if name.startswith(prefix) and not name.removeprefix(prefix).startswith("pooler.")
    )
    if head == "span" and _named_otherwise(model) and len(lacking) == _size(model.base_model):
        setattr(model, model.base_model_prefix, _stock(folder, "parser", settings))
        return model
    if lacking:
        raise DataError(
            f"{folder}: the checkpoint lacks {len(lacking)} tensors of the encoder that its "
            f"config.json speaks of ('{lacking[0]}' is one); save or download the model again"
        )
    new = {*info["missing_keys"], *mismatched}
    if head == "parser" or any(not name.startswith(prefix) for name in new):
        return model
    return model if last_layer.keep(model, rows, folder) else _under_new(head, model)


def _named_otherwise(model: PreTrainedModel) -> bool:
    """Return whether a class names what is under its head otherwise than pretraining did.

    Llama's and Qwen's for questions do: transformers would read nothing of a pretrained model.
    """
    base = HEADS["parser"]._model_mapping[type(model.config)]
    return bool(base.base_model_prefix != model.base_model_prefix)


def _size(module: nn.Module) -> int:
    return len(list(module.named_parameters()))


def _with_modules(folder: Path, head: str, settings: dict[str, Any]) -> PreTrainedModel:
    """Put the encoder of a model that has modules under a new head."""
    pretrained = load_model(str(folder), settings=settings).model
    encoder: Any = pretrained.base_model
    return encoder if head == "parser" else _under_new(head, pretrained)


def _under_new(head: str, pretrained: PreTrainedModel) -> PreTrainedModel:
    """Put a model's encoder under a head that is drawn."""
    encoder: Any = pretrained.base_model
    model: PreTrainedModel = HEADS[head].from_config(pretrained.config, trust_remote_code=False)
    pooler = getattr(model.base_model, "pooler", None)
    if pooler is not None and getattr(encoder, "pooler", None) is None:
        encoder.pooler = pooler
    setattr(model, model.base_model_prefix, encoder)
    return model.float()


def save(
    model: PreTrainedModel | Parser | Plugged, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    """Write a checkpoint that stock transformers loads; of a parser, the encoder is one.

    Of a model that is plugged in `lingraft.load` loads all but the head, and `build` that too.

    Raises:
        DataError: it cannot be written.
    """
    stock: Any = model
    head: nn.Module | None = None
    name = ""
    if isinstance(model, Parser):
        stock, head, name = model.encoder, model.head, PARSER_TENSORS
    elif isinstance(model, Plugged):
        stock, head, name = model.model, model.head, plugged.TENSORS
    with writing(folder):
        export.write_model(stock, folder)
        if head is not None:
            tensors = {key: value.contiguous() for key, value in head.state_dict().items()}
            save_file(tensors, folder / name)
        if isinstance(model, Parser):
            relations = len(model.head.relations.bias)
            write_json(folder / PARSER_SETTINGS, {"relations": relations})
        checksums.write(folder)
        tokenizer_files.save_as_it_is(tokenizer, folder)


def restore(model: PreTrainedModel | Parser | Plugged, folder: Path) -> None:
    """Put saved weights back into the model that wrote them.

    Raises:
        DataError: the files do not hold all of its tensors.
    """
    checksums.check(folder, "delete its folder and run the same command again")
    stored = _stored(folder)
    if isinstance(model, Parser):
        _fill(model.head, load_file(folder / PARSER_TENSORS), folder)
        _fill(model.encoder, stored, folder)
    elif isinstance(model, Plugged):
        _fill(model.head, load_file(folder / plugged.TENSORS), folder)
        start = f"{model.model.base_model_prefix}."  # the head for masked words is as it was
        stored = {name.removeprefix(start): tensor for name, tensor in stored.items()}
        _fill(model.model.base_model, stored, folder)
    else:
        _fill(model, stored, folder)


def _stored(folder: Path) -> dict[str, torch.Tensor]:
    stored: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name not in (PARSER_TENSORS, plugged.TENSORS):
            stored |= load_file(path)
    return stored


def _fill(module: nn.Module, stored: dict[str, torch.Tensor], folder: Path) -> None:
    parameters = {  # Marian does not store its sinusoids, which do not train
        name: parameter
        for name, parameter in module.named_parameters()
        if parameter.requires_grad or name in stored
    }
    if set(parameters) - set(stored):
        raise DataError(
            f"{folder}: lacks the tensor '{min(set(parameters) - set(stored))}'; "
            "delete the folder of this seed and fine-tune it again"
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(stored[name])


def shape_of(folder: Path, task: Task, tokenizer: PreTrainedTokenizerFast) -> Shape:
    """Return what a coder must know of a checkpoint.

    Raises:
        UnsupportedModelError: the architecture has no head for the task, or it cannot be padded.
    """
    config, head = load_config(str(folder)), CODERS[task.kind].head
    shape = Shape.of(tokenizer, config, forward_of(config, head), task.settings.max_length)
    if head != "translation":
        return shape
    return replace(shape, generation=load_generation(str(folder), config))


def forward_of(config: PreTrainedConfig, head: str) -> Any:
    """Return the forward function of the class that a head has for an architecture.

    Raises:
        UnsupportedModelError: it has none, or one that reads a text where padding stands, or none
            without a second text.
    """
    name, advice = HEADS[head].__name__, "an encoder such as BERT, RoBERTa or ModernBERT"
    wrong = ""
    if config.model_type in SEE_PADDING:
        wrong = "let padding change what they say of a text, so scores would depend on the batch"
    elif head in ("sequence", "score") and getattr(config, "summary_type", None) == "last":
        wrong = "classify a text at its end, where a batch has padding (summary_type 'last')"
    elif head == "parser" and config.is_encoder_decoder and config.model_type not in SHIFT:
        wrong = "read no text without another one for their decoder, which a parse has not"
    elif type(config) not in HEADS[head]._model_mapping:
        wrong = f"have no {name} in transformers"
        if head == "translation":
            wrong = "are not an encoder and a decoder, as a translation needs"
            advice = "BART, T5, mBART or M2M100, or make one of it with `lingraft convert seq2seq`"
        elif causal.is_causal(config):
            advice = "a model that has one, such as Llama, Qwen, Mistral or GPT-2, or an encoder"
    if wrong:
        raise UnsupportedModelError(
            f"models of type '{config.model_type}' {wrong}; choose {advice}"
        )
    return HEADS[head]._model_mapping[type(config)].forward
