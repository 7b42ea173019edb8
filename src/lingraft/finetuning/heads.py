"""A pretrained encoder with a new head: the stock classes, or the parser; saved and put back."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.finetuning.coders.biaffine import Parser
from lingraft.finetuning.coders.parsing import ParseCoder
from lingraft.finetuning.coders.spans import SpanCoder
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.finetuning.coders.texts import LabelCoder, RelationCoder, ScoreCoder
from lingraft.models import export
from lingraft.models.modules import MODULES, in_folder
from lingraft.models.source import load_model
from lingraft.pretrained.checkpoints import WEIGHTS, files_digest, folder_of
from lingraft.pretrained.load import load_config, one_line
from lingraft.pretrained.load import load_model as load_pretrained
from lingraft.recipe import catalogue
from lingraft.rundir import write_json, writing
from lingraft.tasks.markers import MARKERS
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.finetuning.coders.common import Coder
    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

HEADS: dict[str, Any] = {
    "sequence": AutoModelForSequenceClassification,
    "score": AutoModelForSequenceClassification,
    "token": AutoModelForTokenClassification,
    "span": AutoModelForQuestionAnswering,
    "parser": AutoModel,
}
CODERS: dict[str, type[Coder]] = {
    "classification": LabelCoder,
    "pair": LabelCoder,
    "regression": ScoreCoder,
    "tagging": TagCoder,
    "relation": RelationCoder,
    "parsing": ParseCoder,
    "span": SpanCoder,
}
"""By a task's kind."""
DROPOUT_KEYS = (
    "classifier_dropout",
    "classifier_dropout_prob",
    "cls_dropout",
    "seq_classif_dropout",
)
"""What architectures call the dropout before the last layer."""
PARSER_TENSORS, PARSER_SETTINGS = "parser.safetensors", "parser.json"
PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors"]
SETTINGS = (
    *("config.json", "tokenizer*.json", "vocab.*", "merges.txt"),
    *(module.settings_file for module in MODULES.values()),
    *("special_tokens_map.json", "added_tokens.json", "*.model"),
)


def resolve(name: str, base: Path) -> Path:
    """The folder of a checkpoint; one on the Hub is downloaded.

    Args:
        name: directory, Hub id, or a name of `lingraft list models`.
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
    """SHA-256 of configuration and tokenizer."""
    return files_digest({path for pattern in SETTINGS for path in folder.glob(pattern)})


def tokenizer_for(folder: Path, task: Task) -> PreTrainedTokenizerFast:
    """The model's tokenizer; with the entity markers where the task needs them."""
    tokenizer = tokenizer_files.load(folder)
    if task.kind == "relation":
        tokenizer.add_special_tokens({"extra_special_tokens": list(MARKERS)})
    return tokenizer


def build(
    folder: Path, task: Task, tokenizer: PreTrainedTokenizerFast, seed: int
) -> PreTrainedModel | Parser:
    """The pretrained encoder in fp32 with a new head; what is new depends on the seed alone.

    Args:
        folder: of the checkpoint.
        task: its kind says which head, its labels how wide.
        tokenizer: of `tokenizer_for`; rows for tokens that it has more are added.
        seed: of the head and of added rows.

    Raises:
        DataError: the checkpoint is broken, or is not an encoder's.
        UnsupportedModelError: the architecture has no such head, or no such dropout.
    """
    head = CODERS[task.kind].head
    settings = _settings(task, load_config(str(folder)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if any(not module.exportable for module in in_folder(folder)):
            model = _with_modules(folder, head, settings)
        else:
            model = _stock(folder, head, settings)
        embeddings: Any = model.get_input_embeddings()
        if len(tokenizer) > embeddings.num_embeddings:
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        if head == "parser":
            if getattr(model, "pooler", None) is not None:
                model.pooler = None  # type: ignore[assignment] # the parser has no use for it
            return Parser(model, len(task.labels))
    return model


def _settings(task: Task, config: PreTrainedConfig) -> dict[str, Any]:
    head = CODERS[task.kind].head
    settings: dict[str, Any] = {}
    if head in ("sequence", "token"):
        settings["id2label"] = dict(enumerate(task.labels))
        settings["label2id"] = {label: index for index, label in enumerate(task.labels)}
    if head == "score":
        settings |= {"num_labels": 1, "problem_type": "regression"}
    dropout = task.settings.classifier_dropout
    if dropout is not None and head in ("sequence", "score", "token"):
        key = next((key for key in DROPOUT_KEYS if hasattr(config, key)), None)
        if key is None:
            raise UnsupportedModelError(
                f"models of type '{config.model_type}' have no classifier dropout that {task.name} "
                "could set; choose another model"
            )
        settings[key] = dropout
    return settings


def _stock(folder: Path, head: str, settings: dict[str, Any]) -> PreTrainedModel:
    model, info = load_pretrained(
        HEADS[head],
        str(folder),
        settings=settings,
        ignore_mismatched_sizes=True,  # a head for other labels gives way to a new one
    )
    prefix = "" if head == "parser" else f"{model.base_model_prefix}."
    mismatched = {name for name, *_ in info["mismatched_keys"]}
    lacking = sorted(
        name
        for name in {*info["missing_keys"], *mismatched}
        if name.startswith(prefix) and not name.removeprefix(prefix).startswith("pooler.")
    )
    if lacking:
        raise DataError(
            f"{folder}: the checkpoint lacks {len(lacking)} tensors of the encoder that its "
            f"config.json speaks of ('{lacking[0]}' is one); save or download the model again"
        )
    if head != "parser" and not any(not name.startswith(prefix) for name in info["missing_keys"]):
        logger.info("%s: has a head for as many labels already, which is trained further", folder)
    return model


def _with_modules(folder: Path, head: str, settings: dict[str, Any]) -> PreTrainedModel:
    """The same for a model that has modules: its encoder is put under a new head."""
    pretrained = load_model(str(folder), settings=settings).model
    encoder: Any = pretrained.base_model
    if head == "parser":
        return encoder
    model: PreTrainedModel = HEADS[head].from_config(pretrained.config, trust_remote_code=False)
    pooler = getattr(model.base_model, "pooler", None)
    if pooler is not None:
        encoder.pooler = pooler
    setattr(model, model.base_model_prefix, encoder)
    return model.float()


def save(model: PreTrainedModel | Parser, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a checkpoint that stock transformers loads; of a parser, the encoder is one.

    Raises:
        DataError: it cannot be written.
    """
    with writing(folder):
        if isinstance(model, Parser):
            export.save(model.encoder, folder)
            tensors = {name: value.contiguous() for name, value in model.head.state_dict().items()}
            save_file(tensors, folder / PARSER_TENSORS)
            relations = len(model.head.relations.bias)
            write_json(folder / PARSER_SETTINGS, {"relations": relations})
        else:
            export.save(model, folder)
        tokenizer.save_pretrained(folder)


def restore(model: PreTrainedModel | Parser, folder: Path) -> None:
    """Put saved weights back into the model that wrote them.

    Raises:
        DataError: the files do not hold all of its tensors.
    """
    if isinstance(model, Parser):
        _fill(model.head, load_file(folder / PARSER_TENSORS), folder)
        restore(model.encoder, folder)
        return
    stored: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != PARSER_TENSORS:
            stored |= load_file(path)
    _fill(model, stored, folder)


def _fill(module: nn.Module, stored: dict[str, torch.Tensor], folder: Path) -> None:
    wanted = dict(module.named_parameters())
    if set(wanted) - set(stored):
        raise DataError(
            f"{folder}: lacks the tensor '{min(set(wanted) - set(stored))}'; "
            "delete the folder of this seed and fine-tune it again"
        )
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(stored[name])


def forward_of(config: PreTrainedConfig, head: str) -> Any:
    """The forward function of the class that a head has for an architecture.

    Raises:
        UnsupportedModelError: it has none.
    """
    try:
        return HEADS[head]._model_mapping[type(config)].forward
    except KeyError:
        raise UnsupportedModelError(
            f"transformers has no {HEADS[head].__name__} for models of type "
            f"'{config.model_type}'; choose an encoder such as BERT, RoBERTa, ELECTRA or ModernBERT"
        ) from None
