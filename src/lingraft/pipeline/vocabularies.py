"""What `lingraft check` says of the vocabulary, from the source's files alone: no torch."""

from __future__ import annotations

import functools
import importlib.util
import json
from typing import TYPE_CHECKING, Any

import tokenizers as backends

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.pretrained.checkpoints import folder_of
from lingraft.recipe import Tokenizer
from lingraft.recipe.joining import FEWEST
from lingraft.recipe.run import KEEPING, RUN_MODEL, UNSIZED, learns_vectors
from lingraft.rundir import checkpoint_digests
from lingraft.tokenizer.roles import ROLES, check_frame, check_padding, check_present, kept_in
from lingraft.tokenizer.state import (
    LANGUAGE_CODE,
    MERGING,
    PLACEHOLDER,
    chat_tokens,
    check_chat,
    check_continues,
    check_holds_tokenizer,
    code_among,
    continues,
    dead_pattern,
    kind_of_state,
    outside,
    pieces_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.models.families import Family
    from lingraft.pipeline.source_files import SourceFiles
    from lingraft.recipe import Graft, Recipe, Resources

FOLLOWING = ("extend", "append", "add", "trim", "replace")
"""Kinds of vocabulary that are made of the source's tokenizer.json."""
WEIGHTS = (".safetensors", ".bin")
BYTES = 256
GENERAL = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes of tokenizers that know no role but those their files name."""
OWN_TEMPLATE = {"add_bos_token", "add_eos_token"}
"""Settings by which such a class puts other tokens around a text than tokenizer.json says."""


def check_initialisers(recipe: Recipe, family: Family) -> None:
    """Refuse an initialiser that cannot run this source.

    Raises:
        UnsupportedModelError: one asks for a causal language model, and the source is none.
    """
    for name in recipe.graft.initialisers:
        if name in RUN_MODEL and family.kind != "causal":
            raise UnsupportedModelError(
                f"graft: '{name}' is for causal language models, and the source is a "
                f"{family.model_type} model; use 'mean' or 'focus'"
            )


def lacks_source_words(resources: Resources, initialiser: str) -> bool:
    """Whether an initialiser needs vectors of the source's words, and nothing gives them."""
    given = resources.source_vectors or resources.source_text
    return initialiser == "wechsel" and not given


def check_vectors(recipe: Recipe, grafts: Sequence[Graft]) -> None:
    """Refuse what static vectors lack before text and vocabulary are made.

    Raises:
        RecipeError: there is nothing to learn the source's from, or gensim is not installed.
    """
    resources = recipe.resources
    if recipe.tokenizer.kind == "keep":
        return
    for graft, name in ((one, name) for one in grafts for name in one.initialisers):
        if lacks_source_words(resources, name):
            key = "embeddings" if graft.embeddings == name else "output_embeddings"
            raise RecipeError(
                f"resources.source_vectors: is not set, and graft.{key} = '{name}' needs word "
                "vectors of the source language; set it to a .vec file, or set "
                "resources.source_text to learn them from"
            )
        if learns_vectors(resources, name) and importlib.util.find_spec("gensim") is None:
            raise RecipeError(
                f"graft: '{name}' learns static vectors, which needs gensim; "
                'pip install "lingraft[vectors]", or set resources.target_vectors (and '
                "resources.source_vectors) to .vec files"
            )


def check_tokens(recipe: Recipe, folder: Path) -> None:
    """Refuse a source whose chat would fall into pieces, or that has no code of the language.

    Raises:
        UnsupportedModelError: as `tokenizer.state.check_chat`.
        RecipeError: as `tokenizer.frame.code_for`.
    """
    state = _readable(folder)
    if state is not None:
        tokens = pieces_of(state) | outside(state)
        check_chat(_template(folder), tokens, recipe.tokenizer.kind)
        around = [token for token in _around(state) if LANGUAGE_CODE.fullmatch(token)]
        codes = sorted(filter(LANGUAGE_CODE.fullmatch, kept_in(state)))
        if codes and around:
            code_among(codes, around[0], recipe.tokenizer.language_code, recipe.languages[0])


def check_reused(recipe: Recipe, source: SourceFiles) -> None:
    """Refuse a tokenizer that exists already and does not suit the source's model.

    That is one that is given, or the source's where its pieces stay. What files do not say, such as
    roles that a class of transformers knows by itself, the run finds out.

    Raises:
        UnsupportedModelError: as `take` and `make` of `tokenizer.extension`.
    """
    section, family = recipe.tokenizer, source.family
    given = None if section.model is None else f"tokenizer '{section.model}'"
    own = source.folder if section.kind in KEEPING else None
    folder = own if section.model is None else folder_of(section.model)
    state = None if folder is None else _readable(folder)
    if family is None or folder is None or state is None:
        return
    causal, roles = family.kind == "causal", _roles(folder)
    ids = pieces_of(state) | outside(state)
    pad = 1 if recipe.source.architecture is not None else source.config.get("pad_token_id")
    settings = _settings(folder, "tokenizer_config.json")
    says_all = settings.get("tokenizer_class") in GENERAL and not {*settings} & OWN_TEMPLATE
    if says_all and (given is not None or not causal):
        name = {} if given is None else {"name": given}
        check_frame(state, roles, causal=causal, kind=kind_of_state(state), **name)
    if family.pad_decides_positions and (token := roles.get("pad_token")) in ids:
        check_padding(ids[token], pad, given)
    if given is None or source.folder is None:
        return
    if (theirs := _readable(source.folder)) is not None:
        needed = (*kept_in(theirs), *chat_tokens(_template(source.folder)))
        check_present({*ids, *kept_in(state), *_added(settings)}, needed, given)


def _roles(folder: Path) -> dict[str, str]:
    """Special tokens by role, as far as the files of a tokenizer name them."""
    files = ("special_tokens_map.json", "tokenizer_config.json")
    named = {role: t for name in files for role, t in _settings(folder, name).items()}
    named = {role: t.get("content") if isinstance(t, dict) else t for role, t in named.items()}
    return {role: t for role, t in named.items() if role in ROLES and isinstance(t, str)}


def _added(settings: dict[str, Any]) -> list[str]:
    """Tokens that tokenizer_config.json adds to those of tokenizer.json."""
    keys = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
    tables = [settings.get(key) for key in keys]
    lists = [list(one.values()) if isinstance(one, dict) else one for one in tables]
    tokens = [token for one in lists if isinstance(one, list) for token in one]
    return [str(t.get("content") if isinstance(t, dict) else t) for t in tokens]


def _around(state: dict[str, Any]) -> list[str]:
    """The special tokens that a template puts around a sentence."""
    processor = state.get("post_processor") or {}
    steps = processor.get("processors", [processor])
    pieces = [piece for step in steps for piece in step.get("single", ())]
    return [piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece]


def check_source(recipe: Recipe) -> None:
    """Refuse a source without a tokenizer; of one of the Hub nobody knows before the run.

    Raises:
        DataError: it has none.
    """
    folder = None if recipe.source.model is None else folder_of(recipe.source.model)
    if folder is not None:
        check_holds_tokenizer(folder)


def with_its_size(recipe: Recipe) -> Recipe:
    """The recipe with the size of a tokenizer that is given; others as they are.

    Raises:
        DataError: there is no such tokenizer, or it is broken.
    """
    section = recipe.tokenizer
    if section.model is None:
        return recipe
    folder = folder_of(section.model)
    if folder is None:
        return recipe  # of the Hub, which nobody asks before the run
    check_holds_tokenizer(folder)
    state = _state(folder / "tokenizer.json")
    if state is None:
        return recipe
    ids = (pieces_of(state) | outside(state)).values()
    section = section.model_copy(update={"vocab_size": max(ids) + 1})
    return recipe.model_copy(update={"tokenizer": section})


def decisive(section: Tokenizer) -> list[Any]:
    """What of [tokenizer] decides a vocabulary: of a given one its files, and not where they are.

    Raises:
        DataError: there is no such folder.
    """
    folder = None if section.model is None else folder_of(section.model)
    if folder is None:
        return [section]
    files = [entry for entry in checkpoint_digests(folder) if not entry[0].endswith(WEIGHTS)]
    return [section.model_copy(update={"model": None}), files]


def sizes_of(recipe: Recipe, model: Path) -> tuple[int, int]:
    """Pieces of a finished run's vocabulary, and the fewest that another of its kind can have.

    Of a vocabulary that was not trained `vocab_size` says nothing: what 'extend' adds counts, else
    what is there, but no more than a new one has that nobody gives a size.

    Args:
        recipe: the run's.
        model: the folder of its model.
    """
    section = recipe.tokenizer
    state = _state(model / "tokenizer.json")
    if state is None:
        return section.vocab_size, FEWEST
    pieces = pieces_of(state) | outside(state)
    fewest = FEWEST
    if not continues(state):  # a whole vocabulary is trained
        has_bytes = kind_of_state(state) in MERGING or state["model"].get("byte_fallback")
        fewest += len(state["added_tokens"]) + (BYTES if has_bytes else 0)
    if section.kind == "extend":
        return section.new_pieces, fewest
    if section.kind in (*UNSIZED, "given"):
        return min(len(pieces), Tokenizer().vocab_size), fewest
    return section.vocab_size, fewest


def _template(folder: Path) -> str:
    """The source's chat template, from either place where it can lie; empty without one."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8", errors="replace")
    return str(_settings(folder, "tokenizer_config.json").get("chat_template") or "")


def _settings(folder: Path, name: str) -> dict[str, Any]:
    """What one of a tokenizer's smaller files holds; nothing where it is missing or broken."""
    path = folder / name
    try:
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (ValueError, RecursionError):
        return {}  # whoever loads the tokenizer says so
    return settings if isinstance(settings, dict) else {}


def notes(recipe: Recipe, folder: Path, rows: int, *, tied: bool) -> list[str]:
    """What the vocabulary will be, a sentence each.

    Args:
        recipe: says what becomes of the source's vocabulary.
        folder: the source's.
        rows: of its embeddings.
        tied: whether its output projection is the word embeddings.

    Raises:
        DataError: tokenizer.json is broken.
        UnsupportedModelError: 'extend' with a tokenizer that has no merges.
    """
    section, messages = recipe.tokenizer, list[str]()
    messages += [
        f"graft.{key} is without effect: the source's output projection is tied to its word "
        "embeddings"
        for key in (recipe.graft.of_output if tied else ())
    ]
    state = _state(folder / "tokenizer.json") if section.kind in FOLLOWING else None
    if state is None:
        return messages
    if section.kind == "extend":
        check_continues(state)
    messages += [f"the source's {dead}"] if (dead := dead_pattern(state)) else []
    pieces = pieces_of(state) | outside(state)
    empty = rows - len(pieces)
    reserved = sum(PLACEHOLDER.fullmatch(piece) is not None for piece in pieces)
    messages.append(
        f"the source's tokenizer is {kind_of_state(state)} with {len(pieces):,} pieces, "
        f"{reserved:,} of them in reserve, and {max(empty, 0):,} rows have no piece"
    )
    kind = section.kind
    if kind == "add":
        kind = "extend" if continues(state) else "append"
        section = section.model_copy(update={"new_pieces": section.vocab_size})
    at_most = "the sizes given are those where it is as large as it can be"
    messages.append(
        {
            "extend": f"{section.new_pieces:,} pieces and rows are added at most; {at_most}",
            "append": f"{section.vocab_size:,} pieces and rows are added at most; how many the "
            f"source lacks, and how many cannot be reached, is known once they are trained; "
            f"{at_most}",
            "trim": f"pieces that the text does not use are left out; {at_most}",
            "replace": f"of its tokens {len(state['added_tokens']):,} stay: the special and the "
            "added ones",
        }[kind]
    )
    return messages


def _readable(folder: Path) -> dict[str, Any] | None:
    """As `_state`; None too where whoever loads the tokenizer will say what is wrong with it."""
    try:
        return _state(folder / "tokenizer.json")
    except (DataError, UnsupportedModelError):
        return None


@functools.lru_cache(maxsize=8)
def _check_form(path: str, changed: int) -> None:
    """Read a tokenizer.json as whoever loads it will, once while it stays as it is."""
    backends.Tokenizer.from_file(path)


def _state(path: Path) -> dict[str, Any] | None:
    """What tokenizer.json holds; None where there is none (an older format)."""
    if not path.is_file():
        return None
    try:
        _check_form(str(path), path.stat().st_mtime_ns)
        state = json.loads(path.read_text(encoding="utf-8"))
        pieces_of(state), outside(state), kind_of_state(state)
    except UnsupportedModelError:
        raise
    except Exception as error:  # tokenizers has no class of its own
        reason = " ".join(str(error).split())[:100]
        raise DataError(
            f"{path}: no tokenizer that can be read ({type(error).__name__}: {reason}); "
            "save the tokenizer again"
        ) from None
    return state if isinstance(state, dict) else None
