"""A tokenizer that exists already, for a model that another one was made for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.frame import frame_of, kept_ids, put_around
from lingraft.tokenizer.roles import check_padding, check_present
from lingraft.tokenizer.state import chat_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from lingraft import recipe

logger = logging.getLogger(__name__)
TYPES = "token_type_ids"


def take(
    section: recipe.Tokenizer,
    source: PreTrainedTokenizerFast | None,
    *,
    pad_id: int | None,
    causal: bool,
) -> PreTrainedTokenizerFast:
    """The tokenizer that the recipe names: its pieces, their ids, and how it cuts text.

    What the model reads is the source's: one that tells no first sentence from a second is given
    no types of tokens.

    Args:
        section: names it.
        source: the source's tokenizer; None where a model is trained from nothing.
        pad_id: the id that the padding token must have; None where it does not matter.
        causal: whether it is for a causal model.

    Raises:
        DataError: it is missing or broken.
        UnsupportedModelError: it lacks a token that the model needs, or has another padding id.
    """
    name = str(section.model)
    whose = f"tokenizer '{name}'"
    tokenizer = tokenizer_files.load(name, section.revision)
    frame = frame_of(tokenizer, causal=causal, kind=tokenizer_files.kind_of(tokenizer), name=whose)
    check_padding(tokenizer.pad_token_id, pad_id, whose)
    if tokenizer_files.lower_cases(tokenizer):
        logger.warning("%s lower-cases its text, and so does the model that gets it", whose)
    if source is None:
        return tokenizer_files.wrapped(tokenizer_files.state_of(tokenizer), tokenizer)
    present = tokenizer.get_vocab() | kept_ids(tokenizer)
    needed = (*kept_ids(source), *chat_tokens(str(source.chat_template or "")))
    check_present(present, needed, whose)
    state = tokenizer_files.state_of(tokenizer)
    new = tokenizer_files.wrapped(state, tokenizer, source.model_input_names)
    if source.chat_template and not new.chat_template:
        new.chat_template = source.chat_template
    templates = [
        [f"{piece.rsplit(':', 1)[0]}:0" for piece in template]
        for template in (frame.single, frame.pair)
    ]
    if TYPES not in source.model_input_names and templates[1] != list(frame.pair):
        put_around(new.backend_tokenizer, *templates)
    return new
