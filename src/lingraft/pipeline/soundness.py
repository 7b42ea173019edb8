"""Whether a source's files belong together, before anything is made of them.

`lingraft check MODEL` says all that is wrong, and downloads nothing; a run refuses what cannot
work.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.errors import DataError, LingraftError
from lingraft.models import damage, source
from lingraft.models.graft import is_tied
from lingraft.models.kinds import KINDS
from lingraft.models.modules import in_folder
from lingraft.models.shapes import load_shapes, stored
from lingraft.pipeline.source_config import config_in
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import load_generation
from lingraft.pretrained.tokenizers import LINES
from lingraft.recipe import catalogue
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.state import dead_pattern, holds_tokenizer
from lingraft.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedTokenizerFast

    from lingraft.models.source import LoadedSource
    from lingraft.pipeline.source_config import SourceConfig
    from lingraft.recipe import Recipe

logger = logging.getLogger(__name__)

GENERATION = "generation_config.json"


def check_source(recipe: Recipe, *, download: bool = True) -> list[str]:
    """Build the recipe's source without its weights, as the graft will, and read its matrices.

    Args:
        recipe: names it.
        download: False looks at no source that is not on this machine.

    Returns:
        A line on each kind of damaged rows, which the graft mends.

    Raises:
        LingraftError: it could not be grafted onto, or too many of its rows are damaged.
    """
    section = recipe.source
    if section.model is None:
        return []
    if download or folder_of(section.model) is not None:
        source.load_model(section.model, section.revision, device_map="meta")
    known = config_in(section.model, section.revision)
    if known.folder is None or not holds_tokenizer(known.folder):
        return []  # of the Hub, and not downloaded yet
    return _damaged(section.model, known, tokenizer_files.load(str(known.folder)))


def _damaged(name: str, known: SourceConfig, tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """Look at the rows of pieces as they are stored; in formats other than safetensors at none."""
    assert known.folder is not None
    assert known.family is not None
    vocabulary, damaged = Vocabulary.of(tokenizer), dict[int, str]()
    matrices = (known.family.word_embeddings, known.family.decoder)
    for _, rows_VD in stored(known.folder, known.family, matrices):
        found = damage.find(rows_VD, vocabulary)
        damage.check_share(name, found, len(rows_VD))
        damaged |= found
    return damage.described(damaged, tokenizer)


def examine(name: str) -> tuple[dict[str, str], list[str]]:
    """What a checkpoint is, and what is wrong with it.

    Args:
        name: directory, Hub id whose files are in the cache, or a name of `lingraft show models`.

    Raises:
        DataError: it is not on this machine, or its configuration or weights cannot be read.
        UnsupportedModelError: no family has its record, or other sizes than config.json says.
    """
    known = config_in(catalogue.resolve(name), None, is_source=False)
    if known.folder is None:
        raise DataError(
            f"model '{name}': is not on this machine{catalogue.hint(name)}; give a folder, or "
            "download it first (check downloads nothing; a recipe's name ends in .toml)"
        )
    folder, loaded = str(known.folder), load_shapes(known.folder)
    model, title = loaded.model, KINDS[loaded.family.kind].title
    rows = len(model.get_parameter(loaded.family.word_embeddings))
    head = "its embeddings (tied)" if is_tied(model) else "a matrix of its own"
    facts = {
        "model": f"{loaded.family.model_type}, {title}, {model.num_parameters():,} parameters",
        "output projection": head,
    }
    if modules := [module.part for module in in_folder(known.folder)]:
        facts["not looked at"] = ", ".join(modules)
    wrong = list(_of_weights(loaded, known))
    try:
        tokenizer = tokenizer_files.load(folder)
        vocabulary = Vocabulary.of(tokenizer)
        pieces = sum(map(bool, vocabulary.pieces))
        used = sum(map(bool, vocabulary.within(rows).pieces))
        facts["tokenizer"] = f"{pieces:,} pieces, {tokenizer_files.kind_of(tokenizer)}"
        facts["rows"] = f"{rows:,}, {rows - used:,} of them without a piece"
        facts["special ids"] = ", ".join(f"{k} {v}" for k, v in vocabulary.specials.items())
        wrong += _damaged(folder, known, tokenizer)
        wrong += _of_ids(loaded, vocabulary, folder)
        dead = dead_pattern(tokenizer_files.state_of(tokenizer))
        wrong += [] if dead is None else [dead]
        facts["text"], lost = _round_trip(tokenizer)
        wrong += lost
    except LingraftError as error:
        wrong.append(str(error))
    return facts, wrong


def _of_weights(loaded: LoadedSource, known: SourceConfig) -> Iterator[str]:
    """What is wrong with the tensors, beside their sizes, which loading compares."""
    if loaded.missing:
        yield (
            f"the weights lack {len(loaded.missing)} tensors of a "
            f"{KINDS[loaded.family.kind].title} ({min(loaded.missing)} is one), which would be "
            "drawn at random; save the model with its head"
        )
    default = loaded.model.config.tie_word_embeddings
    if known.config.get("tie_word_embeddings", default) and not is_tied(loaded.model):
        yield (
            "config.json says that the output projection is the embeddings, but the weights hold "
            "two that differ; set tie_word_embeddings to false, or save the model again"
        )


def _of_ids(loaded: LoadedSource, vocabulary: Vocabulary, folder: str) -> Iterator[str]:
    """What is wrong with the special ids of config.json and generation_config.json.

    What a model begins with, and where it stops, the second alone decides where it is there: a chat
    model's names the end of a turn, and config.json may still be that of the base model. Padding
    behind an end, which the second names too, may be any special token.
    """
    config, kind = loaded.model.config, KINDS[loaded.family.kind]
    named = {"config.json": config.to_dict()}
    decides = dict.fromkeys(kind.special_ids, "config.json")
    if loaded.model.can_generate() and Path(folder, GENERATION).is_file():
        named[GENERATION] = load_generation(folder, config).to_dict()
        decides |= dict.fromkeys(("bos_token_id", "eos_token_id"), GENERATION)
    for file, settings in named.items():
        for key in (*kind.special_ids, *kind.kept_ids):
            if (value := settings.get(key)) is None:
                continue
            ids = value if isinstance(value, list) else [value]
            role = kind.special_ids[key] if decides.get(key) == file else ""
            if strays := [index for index in ids if index not in vocabulary.special_ids]:
                yield f"{file}: {key} {strays[0]} is no special token of the tokenizer; correct it"
            elif (own := vocabulary.specials.get(role)) is not None and own not in ids:
                yield f"{file}: {key} is {value}, but the tokenizer's is {own}; correct one of them"


def _round_trip(tokenizer: PreTrainedTokenizerFast) -> tuple[str, list[str]]:
    """Whether words whose pieces are all known come back from their ids.

    Case and spelling may be folded: what comes back must have the same ids.
    """
    words = " ".join(LINES).split()
    ids = {word: tokenizer.encode(word, add_special_tokens=False) for word in words}
    known = [word for word in words if tokenizer.unk_token_id not in ids[word]]
    lost = [
        word
        for word in known
        if tokenizer.encode(tokenizer.decode(ids[word]), add_special_tokens=False) != ids[word]
    ]
    fact = f"{len(known)} of {len(words)} sample words of several scripts have no unknown piece"
    if not lost:
        return f"{fact}; their ids give them back", []
    return fact, [
        f"the ids of {len(lost)} of {len(known)} sample words do not give them back ('{lost[0]}', "
        "say): the decoder in tokenizer.json is not that of its pre-tokenizer; correct it"
    ]
