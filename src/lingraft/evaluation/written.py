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
from lingraft.evaluation.samples import DRAWN, TOP_P, ends_of, generation_settings, go_on
from lingraft.evaluation.scorer import HiddenItem, Scorer
from lingraft.files import write_rows
from lingraft.log import progress
from lingraft.models import source
from lingraft.pretrained.load import longest_text
from lingraft.recipe.streams import MODEL_PREFIX
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.documents import as_lines, before, end_of_text
from lingraft.tokenizer.shards import special_ids_around
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transformers import PreTrainedTokenizerFast

    from lingraft.models.source import LoadedSource
    from lingraft.recipe import Stream

AT_ONCE = 64
"""Texts that are written together."""
LONGEST, TURN = 256, 512
"""Tokens of a causal model's document, and of a turn in its chats; longer turns are left out."""
MOST_DRY = 10
"""Times in a row that a model may write chats of which no turn ends."""
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
    kind = loaded.family.kind
    chats = kind == "causal" and _end_of_turn(loaded, tokenizer) is not None
    draw = {"causal": _chats if chats else _documents, "masked": _sentences}.get(kind)
    shown = as_lines if kind == "causal" else str
    if draw is None:
        raise UnsupportedModelError(
            f"{MODEL_PREFIX}{name}: an encoder–decoder writes no text of its own; give files"
        )

    def rows() -> Iterator[dict[str, str]]:
        left, batches = tokens, draw(loaded, tokenizer, np.random.default_rng(seed))
        dry = 0
        while left > 0:
            texts = next(batches)
            dry = 0 if texts else dry + 1
            if dry == MOST_DRY:
                problem = f"writes no turns of at most {TURN} tokens; give files"
                raise UnsupportedModelError(f"{MODEL_PREFIX}{name}: {problem}")
            written = sum(len(tokenizer(text, verbose=False)["input_ids"]) or 1 for text in texts)
            left -= written
            ticker.advance(written)
            yield from ({"text": shown(text)} for text in texts)

    with torch.no_grad(), progress(name, tokens, "tokens") as ticker:
        write_rows(path, rows())


def _writer(
    loaded: LoadedSource,
    tokenizer: PreTrainedTokenizerFast,
    numbers: np.random.Generator,
    longest: int,
    likeliest: float,
) -> Callable[[list[list[int]]], list[tuple[str, bool]]]:
    """Return a function that goes on with prompts, and says which text or turn came to its end.

    Tokens are drawn from the `likeliest` share of the probability.
    """
    model: Any = loaded.model.to(device_for())
    most = min(longest, longest_text(model.config, 0) // 2)
    ends = ends_of(model, tokenizer) | {*end_of_text(tokenizer)}
    limits = {"max_new_tokens": most, "eos_token_id": sorted(ends) or None}
    drawn = {**DRAWN, "top_p": likeliest}
    settings = generation_settings(model, tokenizer, **drawn, **limits)

    def write(prompts: list[list[int]]) -> list[tuple[str, bool]]:
        rows = go_on(model, prompts, settings, int(numbers.integers(2**32)), AT_ONCE)
        texts = (str(tokenizer.decode(row, skip_special_tokens=True)) for row in rows)
        return [(text, not ends.isdisjoint(row)) for text, row in zip(texts, rows, strict=True)]

    return write


def _end_of_turn(loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast) -> int | None:
    """Return the token behind an answer at which the model stops; None of a base model.

    Some base models have a chat template, too.
    """
    if not tokenizer.chat_template:
        return None
    said = [{"role": "user", "content": "0"}, {"role": "assistant", "content": MARK}]
    behind = str(tokenizer.apply_chat_template(said, tokenize=False)).rpartition(MARK)[2]
    ids: Any = tokenizer(behind, add_special_tokens=False)["input_ids"]
    ends = ends_of(loaded.model, tokenizer)
    return next((token for token in ids if token in ends), None)


def _documents(
    loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast, numbers: np.random.Generator
) -> Iterator[list[str]]:
    """Draw documents of a causal model, some at a time, without end."""
    write = _writer(loaded, tokenizer, numbers, LONGEST, 1.0)
    start = before(tokenizer) or [tokenizer.eos_token_id or 0]
    while True:
        yield [text for text, _ in write([start] * AT_ONCE)]


def _chats(
    loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast, numbers: np.random.Generator
) -> Iterator[list[str]]:
    """Draw what users say, and the answers, in the chat template, without end (Xu et al. 2024)."""
    write = _writer(loaded, tokenizer, numbers, TURN, TOP_P)
    template = tokenizer.apply_chat_template
    said = {"role": "user", "content": MARK}
    start = str(template([said], tokenize=False)).partition(MARK)[0]
    begun: Any = tokenizer(start, add_special_tokens=False)["input_ids"]
    first = str(tokenizer.decode(before(tokenizer)))  # comes before every document once more
    while True:
        asked = [[said | {"content": text}] for text, ended in write([begun] * AT_ONCE) if ended]
        prompts: Any = [
            template(chat, add_generation_prompt=True, return_dict=False) for chat in asked
        ]
        chats = [
            [*chat, {"role": "assistant", "content": answer}]
            for chat, (answer, ended) in zip(asked, write(prompts), strict=True)
            if ended
        ]
        yield [str(template(chat, tokenize=False)).removeprefix(first) for chat in chats]


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
