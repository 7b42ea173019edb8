"""Text that a model writes itself, to be replayed where nobody has text of its language.

A causal model draws documents from its start on; a chat model draws chats. A masked model fills
sentences of hidden tokens in a random order, some at each step (Ghazvininejad et al. 2019, but
drawn and not by confidence).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.corpus.readers.columns import model_parts
from lingraft.devices import device_for
from lingraft.errors import UnsupportedModelError
from lingraft.evaluation.samples import DRAWN, TOP_P, generation_settings, go_on
from lingraft.evaluation.scorer import HiddenItem, Scorer
from lingraft.files import write_rows
from lingraft.log import progress
from lingraft.models import source
from lingraft.pretrained.load import longest_text
from lingraft.recipe.streams import MODEL_PREFIX
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.documents import before
from lingraft.tokenizer.shards import special_ids_around
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transformers import PreTrainedTokenizerFast

    from lingraft.models.source import LoadedSource
    from lingraft.recipe import Stream

AT_ONCE = 64
"""Texts that are written together."""
LONGEST = 256
"""Tokens of a causal model's document."""
SENTENCE = (8, 40)
"""Fewest and most tokens of a masked model's sentence."""
MARK = "\N{WHITE SMILING FACE}"
"""Stands for what a user says, to find where that begins in a template."""
A_STEP = 3
"""Hidden tokens of a sentence that are drawn at once."""


def with_written(stream: Stream, folder: Path, seed: int) -> Stream:
    """Return a stream in which files stand for the models that write its text.

    Args:
        stream: as the recipe has it.
        folder: takes the files, JSON lines.
        seed: of what is drawn.

    Raises:
        UnsupportedModelError: a model does not write.
    """
    names, changes = list[str](), dict[str, Any]()
    for number, name in enumerate(stream.corpus.text):
        if name.startswith(MODEL_PREFIX):
            model, tokens = model_parts(name)
            name = str(folder / f"{stream.prefix}written-{number}.jsonl")
            write(model, tokens, Path(name), seed)
            changes = {"text_column": "text", "deduplicate": False}  # turns begin alike
        names.append(name)
    corpus = stream.corpus.model_copy(update={"text": tuple(names), **changes})
    return stream.model_copy(update={"corpus": corpus})


def write(name: str, tokens: int, path: Path, seed: int) -> None:
    """Have a model write a file of JSON lines: {"text": …} each.

    Args:
        name: directory or Hub id of a masked or causal model.
        tokens: its pieces that are written at least.
        path: the file.
        seed: of what is drawn.

    Raises:
        UnsupportedModelError: an encoder–decoder, which reads before it writes.
    """
    tokenizer, loaded = tokenizer_files.load(name), source.load_model(name)
    chats = _chats if tokenizer.chat_template else _documents
    draw = {"causal": chats, "masked": _sentences}.get(loaded.family.kind)
    if draw is None:
        raise UnsupportedModelError(
            f"{MODEL_PREFIX}{name}: an encoder–decoder writes no text of its own; give files"
        )

    def rows() -> Iterator[dict[str, str]]:
        left, batches = tokens, draw(loaded, tokenizer, np.random.default_rng(seed))
        while left > 0:
            texts = next(batches)
            written = max(1, sum(map(len, tokenizer(texts, verbose=False)["input_ids"])))
            left -= written
            ticker.advance(written)
            yield from ({"text": text} for text in texts)

    with torch.no_grad(), progress(name, tokens, "tokens") as ticker:
        write_rows(path, rows())


def _writer(
    loaded: LoadedSource,
    tokenizer: PreTrainedTokenizerFast,
    numbers: np.random.Generator,
    likeliest: float,
) -> Callable[[list[list[int]]], list[str]]:
    """Return a function that goes on with prompts, up to the end of a text or turn.

    Tokens are drawn from the `likeliest` share of the probability.
    """
    model: Any = loaded.model.to(device_for())
    most = min(LONGEST, longest_text(model.config, 0) // 2)
    limits = {"max_new_tokens": most, "eos_token_id": tokenizer.eos_token_id}
    drawn = {**DRAWN, "top_p": likeliest}
    settings = generation_settings(model, tokenizer, **drawn, **limits)

    def write(prompts: list[list[int]]) -> list[str]:
        ids = go_on(model, prompts, settings, int(numbers.integers(2**32)), AT_ONCE)
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return write


def _documents(
    loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast, numbers: np.random.Generator
) -> Iterator[list[str]]:
    """Draw documents of a causal model, some at a time, without end."""
    write = _writer(loaded, tokenizer, numbers, 1.0)
    start = before(tokenizer) or [tokenizer.eos_token_id or 0]
    while True:
        yield write([start] * AT_ONCE)


def _chats(
    loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast, numbers: np.random.Generator
) -> Iterator[list[str]]:
    """Draw what users say, and the answers, in the chat template, without end (Xu et al. 2024)."""
    write = _writer(loaded, tokenizer, numbers, TOP_P)
    template = tokenizer.apply_chat_template
    said = {"role": "user", "content": MARK}
    start = str(template([said], tokenize=False)).partition(MARK)[0]
    begun: Any = tokenizer(start, add_special_tokens=False)["input_ids"]
    while True:
        chats: Any = [[said | {"content": text}] for text in write([begun] * AT_ONCE)]
        asked: Any = template(chats, add_generation_prompt=True, return_dict=False)
        for chat, answer in zip(chats, write(asked), strict=True):
            chat.append({"role": "assistant", "content": answer})
        yield [str(template(chat, tokenize=False)) for chat in chats]


def _sentences(
    loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast, numbers: np.random.Generator
) -> Iterator[list[str]]:
    """Fill sentences of a masked model, some at a time, without end."""
    vocabulary = TokenIds.of(tokenizer)
    assert vocabulary.mask is not None
    scorer, special = Scorer(loaded.model, vocabulary.pad), list(vocabulary.special)
    generator = torch.Generator(scorer.device).manual_seed(int(numbers.integers(2**32)))
    first, last = special_ids_around(tokenizer.backend_tokenizer)
    room = longest_text(loaded.model.config, vocabulary.pad) - len(first) - len(last)
    while True:
        size = int(numbers.integers(*SENTENCE).clip(max=room))
        ids = np.tile([*first, *[vocabulary.mask] * size, *last], (AT_ONCE, 1))
        order = numbers.permuted(np.tile(np.arange(size), (AT_ONCE, 1)), axis=1) + len(first)
        for places in np.array_split(order, -(-size // A_STEP), axis=1):
            rows = zip(ids, places, strict=True)
            items = [HiddenItem(row.copy(), place, row[place]) for row, place in rows]
            for where, logits_MV in scorer.logits(items):
                logits_MV[:, special] = -torch.inf
                drawn = torch.multinomial(logits_MV.softmax(1), 1, generator=generator)
                ids[where[:, 0], places[where[:, 0], where[:, 1]]] = drawn.flatten().cpu().numpy()
        yield tokenizer.batch_decode(ids[:, len(first) : len(first) + size])
