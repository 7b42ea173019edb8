"""Text that a model writes itself, to be replayed where nobody has text of its language.

A causal model draws documents from its start on. A masked model fills sentences of hidden tokens in
a random order, some at each step (Ghazvininejad et al. 2019, but drawn and not by confidence).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import GenerationConfig

from lingraft.corpus.readers.columns import MODEL_PREFIX, model_parts
from lingraft.devices import device_for
from lingraft.errors import UnsupportedModelError
from lingraft.evaluation.samples import generation_settings
from lingraft.evaluation.scorer import HiddenItem, Scorer
from lingraft.files import write_rows
from lingraft.log import progress
from lingraft.models import source
from lingraft.pretrained.load import longest_text
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.documents import before
from lingraft.tokenizer.shards import special_ids_around
from lingraft.training.objectives.common import TokenIds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedTokenizerFast

    from lingraft.models.source import LoadedSource
    from lingraft.recipe import Stream

AT_ONCE = 64
"""Texts that are written together."""
LONGEST = 256
"""Tokens of a causal model's document."""
SENTENCE = (8, 40)
"""Fewest and most tokens of a masked model's sentence."""
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
    names = []
    for number, name in enumerate(stream.corpus.text):
        if name.startswith(MODEL_PREFIX):
            model, tokens = model_parts(name)
            name = str(folder / f"{stream.prefix}written-{number}.jsonl")
            write(model, tokens, Path(name), seed)
        names.append(name)
    column = {"text_column": "text"} if names != [*stream.corpus.text] else {}
    corpus = stream.corpus.model_copy(update={"text": tuple(names), **column})
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
    draw = {"causal": _documents, "masked": _sentences}.get(loaded.family.kind)
    if draw is None:
        raise UnsupportedModelError(
            f"{MODEL_PREFIX}{name}: an encoder–decoder writes no text of its own; give files"
        )

    def rows() -> Iterator[dict[str, str]]:
        left, batches = tokens, draw(loaded, tokenizer, np.random.default_rng(seed))
        while left > 0:
            batch = next(batches)
            written = max(1, sum(map(len, batch)))
            left -= written
            ticker.advance(written)
            yield from ({"text": text} for text in tokenizer.batch_decode(batch))

    gpus = [*range(torch.cuda.device_count())]
    with torch.random.fork_rng(gpus), torch.no_grad(), progress(name, tokens, "tokens") as ticker:
        torch.manual_seed(seed)
        write_rows(path, rows())


def _documents(
    loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast, _: np.random.Generator
) -> Iterator[list[Any]]:
    """Draw the ids of a causal model's documents, some at a time, without end."""
    model: Any = loaded.model.to(device_for())
    model.generation_config = GenerationConfig()
    end = tokenizer.eos_token_id
    start = before(tokenizer) or [end or 0]
    most = min(LONGEST, longest_text(model.config, 0)) - len(start)
    drawn: dict[str, Any] = {"do_sample": True, "top_k": 0, "max_new_tokens": most}
    settings = generation_settings(model, tokenizer, eos_token_id=end, **drawn)
    begun = torch.tensor([start] * AT_ONCE, device=model.device)
    while True:
        ids = model.generate(begun, generation_config=settings)[:, len(start) :].tolist()
        yield [row[: row.index(end)] if end in row else row for row in ids]


def _sentences(
    loaded: LoadedSource, tokenizer: PreTrainedTokenizerFast, numbers: np.random.Generator
) -> Iterator[list[Any]]:
    """Fill the ids of a masked model's sentences, some at a time, without end."""
    vocabulary = TokenIds.of(tokenizer)
    assert vocabulary.mask is not None
    scorer, special = Scorer(loaded.model, vocabulary.pad), list(vocabulary.special)
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
                drawn = torch.multinomial(logits_MV.softmax(1), 1).flatten().cpu().numpy()
                ids[where[:, 0], places[where[:, 0], where[:, 1]]] = drawn
        yield list(ids[:, len(first) : len(first) + size])
