"""A pretrained model with a new head: the stock classes, or the parser; saved and put back."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from huggingface_hub import snapshot_download
from safetensors.torch import load_file, save_file

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.files import writing
from lingraft.finetuning import head_settings, plugged
from lingraft.finetuning.coders.common import InputShape
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
from lingraft.pretrained import checkpoints
from lingraft.pretrained.checkpoints import WEIGHTS, files_digest, folder_of, weight_files
from lingraft.pretrained.load import (
    load_config,
    load_generation,
    load_model as load_pretrained,
    one_line,
)
from lingraft.pretrained.tokenizers import load_tokenizer
from lingraft.recipe import catalogue
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.finetuning.coders.common import Coder
    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

HEADS: dict[str, Any] = {
    "sequence": transformers.AutoModelForSequenceClassification,
    "score": transformers.AutoModelForSequenceClassification,
    "token": transformers.AutoModelForTokenClassification,
    "span": transformers.AutoModelForQuestionAnswering,
    "parser": transformers.AutoModel,
    "translation": transformers.AutoModelForSeq2SeqLM,
}
SEE_PADDING = ("convbert", "fnet", "mobilebert", "nystromformer", "yoso")
"""Architectures without a mask, or whose mask does not hide padding from all of their layers."""
POOL_PADDING = ("funnel",)
"""Architectures whose mask does not hide it from the states of single tokens."""
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
    if not weight_files(folder):
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
    if head_settings.is_causal(config := load_config(str(folder))):
        head_settings.prepare_tokenizer(tokenizer, config)
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
    *,
    is_plugged: bool = False,
) -> PreTrainedModel | Parser | Plugged:
    """Build the pretrained model in fp32 with a new head; what is new depends on the seed alone.

    Args:
        folder: of the checkpoint.
        task: its kind says which head, its labels how wide.
        tokenizer: of `tokenizer_for`; rows for tokens that it has more are added.
        seed: of the head and of added rows.
        is_plugged: whether cross-attention is plugged in.

    Raises:
        DataError: the checkpoint is broken, or is not an encoder's.
        UnsupportedModelError: the architecture has no such head, or no such dropout.
    """
    head, config = CODERS[task.kind].head, load_config(str(folder))
    settings = head_settings.dropout_settings(task, config, head)
    settings |= head_settings.label_settings(head, task.labels)
    outputs = head_settings.OUTPUTS.get(head, len(task.labels))
    is_kept = head_settings.has_labels(config, head, task.labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if is_plugged:
            return plugged.build(folder, head, outputs, settings)
        if any(not module.exportable for module in in_folder(folder)):
            model = load_model(str(folder), settings=settings).model
            body: Any = model.base_model
            model = body if head == "parser" else _under_new(head, model)
        else:
            model = _stock(folder, head, settings, is_kept=is_kept)
        embeddings: Any = model.get_input_embeddings()
        damage.tell(str(folder), damage.find(embeddings.weight), tokenizer, damage.AS_IT_IS)
        if (more := len(tokenizer) - len(embeddings.weight)) > 0:
            logger.info("%s: %d pieces have no row of embeddings and start at random", folder, more)
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        if head_settings.is_causal(model.config):
            head_settings.finish_model(model, tokenizer, task)
        if head == "parser":
            if getattr(model, "pooler", None) is not None:
                model.pooler = None  # type: ignore[assignment] # the parser has no use for it
            return Parser(model, len(task.labels))
    if head != "translation":
        head_settings.predict_in_fp32(model, outputs)
    return model


def _stock(
    folder: Path, head: str, settings: dict[str, Any], *, is_kept: bool = True
) -> PreTrainedModel:
    if head == "translation":
        model, _ = load_pretrained(HEADS[head], str(folder), settings=settings)
        unsaved = model._keys_to_ignore_on_save or ()  # Marian's sinusoids, which must stay
        for name, parameter in model.named_parameters():
            if ".pooler." in name or name in unsaved:  # no loss reaches a pooler
                parameter.requires_grad_(False)
        tie_embeddings(model)
        return model
    model, info = load_pretrained(
        HEADS[head],
        str(folder),
        settings=settings,
        may_lack=lambda _: True,  # a new head; the encoder is looked at below
        ignore_mismatched_sizes=True,  # a head for other labels gives way to a new one
    )
    prefix = "" if head == "parser" else f"{model.base_model_prefix}."
    new = {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])}
    pooler = f"{prefix}pooler."
    lacking = [name for name in new if name.startswith(prefix) and not name.startswith(pooler)]
    if head == "span" and len(lacking) == len(list(model.base_model.parameters())):
        # Llama's and Qwen's for questions name what is under their head otherwise
        setattr(model, model.base_model_prefix, _stock(folder, "parser", settings))
        return model
    if lacking:
        raise DataError(
            f"{folder}: the checkpoint lacks {len(lacking)} tensors, such as '{min(lacking)}'; "
            "save or download the model again"
        )
    if head == "parser" or any(not name.startswith(prefix) for name in new):
        return model
    logger.info("%s: has a head, which %s", folder, "goes on" if is_kept else "is drawn anew")
    return model if is_kept else _under_new(head, model)


def _under_new(head: str, pretrained: PreTrainedModel) -> PreTrainedModel:
    """Put a model's encoder under a head that is drawn."""
    encoder: Any = pretrained.base_model
    model: PreTrainedModel = HEADS[head].from_config(pretrained.config, trust_remote_code=False)
    pooler = getattr(model.base_model, "pooler", None)
    if pooler is not None and getattr(encoder, "pooler", None) is None:
        encoder.pooler = pooler
    setattr(model, model.base_model_prefix, encoder)
    return model.float()


def _parts(model: PreTrainedModel | Parser | Plugged) -> tuple[Any, nn.Module | None, str]:
    """Return the stock model of a model, its own head, and the file of that."""
    if isinstance(model, Parser):
        return model.encoder, model.head, "parser.safetensors"
    if isinstance(model, Plugged):
        return model.model, model.head, plugged.TENSORS
    return model, None, ""


def save(
    model: PreTrainedModel | Parser | Plugged, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    """Write a checkpoint that stock transformers loads; of a parser, the encoder is one.

    Of a model that is plugged in `lingraft.load` loads all but the head, and `build` that too.

    Raises:
        DataError: it cannot be written.
    """
    stock, head, name = _parts(model)
    with writing(folder):
        export.write_model(stock, folder)
        if head is not None:
            tensors = {key: value.contiguous() for key, value in head.state_dict().items()}
            save_file(tensors, folder / name)
            checkpoints.write(folder, folder / name)
        tokenizer_files.save(tokenizer, folder)


def restore(model: PreTrainedModel | Parser | Plugged, folder: Path) -> None:
    """Put saved weights back into the model that wrote them.

    Raises:
        DataError: the files are not those that were written.
    """
    checkpoints.check(folder, "delete its folder and run the same command again")
    stock, head, name = _parts(model)
    stored: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != name:
            stored |= load_file(path)
    stock.load_state_dict(stored, strict=False)  # tied tensors are stored once, under one name
    if head is not None:
        head.load_state_dict(load_file(folder / name))


def coder_for(folder: Path, task: Task) -> Coder:
    """Return the coder of a task for a checkpoint, with its tokenizer.

    Raises:
        UnsupportedModelError: the architecture has no head for the task, or it cannot be padded.
    """
    tokenizer, kind = tokenizer_for(folder, task), CODERS[task.kind]
    config = load_config(str(folder))
    shape = InputShape.of(
        tokenizer, config, forward_of(config, kind.head), task.settings.max_length
    )
    if kind.head == "translation":
        shape = replace(shape, generation=load_generation(str(folder), config))
    return kind(task, shape)


def forward_of(config: PreTrainedConfig, head: str) -> Any:
    """Return the forward function of the class that a head has for an architecture.

    Raises:
        UnsupportedModelError: it has none, or one that reads a text where padding stands, or none
            without a second text.
    """
    wrong = ""
    of_tokens = head not in ("sequence", "score")
    if config.model_type in SEE_PADDING or (of_tokens and config.model_type in POOL_PADDING):
        wrong = "let padding change what they say of a text, so scores would depend on the batch"
    elif head in ("sequence", "score") and getattr(config, "summary_type", None) == "last":
        wrong = "classify a text at its end, where a batch has padding (summary_type 'last')"
    elif head == "parser" and config.is_encoder_decoder and config.model_type not in SHIFT:
        wrong = "read no text without another one for their decoder, which a parse has not"
    elif type(config) not in HEADS[head]._model_mapping:
        wrong = f"have no {HEADS[head].__name__} in transformers"
    if wrong:
        raise UnsupportedModelError(f"models of type '{config.model_type}' {wrong}")
    return HEADS[head]._model_mapping[type(config)].forward
