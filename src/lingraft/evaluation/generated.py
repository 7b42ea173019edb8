"""What a causal model writes by stock `generate()`, and how fast it does so.

Speed is measured with a cache, greedily, a fixed number of tokens after a beginning of a fixed
length, and told in characters of the language: tokens a second times the characters that a token
of held-out text has. So a model that repeats itself is no faster, and a vocabulary of longer pieces
is. It is of this machine, while nothing else ran or something did: compare only what was measured
side by side.

Shape letters: B sequences, T tokens.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig

from lingraft.errors import DataError
from lingraft.models.padding import padded
from lingraft.recipe.evaluation import REPEATS, SAMPLES_AT_ONCE, TIMED
from lingraft.tokenizer.documents import before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PROMPT = 16
"""Tokens of a beginning whose continuation is timed."""
WARM_UP = 8
"""Tokens that are generated before the clock counts."""
PATIENCE = 20.0
"""Seconds after which a batch size is not timed again."""
CHARACTERS = 100
"""Of a sample's beginning."""
TOP_P = 0.9
"""Share of the probability that a drawn continuation keeps to (Holtzman et al. 2020)."""


@dataclass(frozen=True)
class Speed:
    """How fast a model writes in one size of batch."""

    batch: int
    tokens: int
    """That each sequence was given."""
    tokens_per_second: float
    """Of all sequences together; the median of the measurements."""
    measured: int
    """How many measurements."""


@contextlib.contextmanager
def stock_generation(model: PreTrainedModel) -> Iterator[None]:
    """Let a model that a `Scorer` has prepared for packed rows write as the stock one does.

    The checkpoint's own settings of generation are put aside: transformers takes them wherever a
    setting is at its default.
    """
    config: Any = model.config
    packed, own = config._attn_implementation, model.generation_config
    model.set_attn_implementation("sdpa" if model._supports_sdpa else "eager")
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.set_attn_implementation(packed)
        model.generation_config = own


def _settings(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, **more: Any
) -> GenerationConfig:
    """Nothing of the checkpoint's own settings but its special tokens; no id without a piece."""
    empty = {*range(int(model.config.vocab_size))} - {*tokenizer.get_vocab().values()}
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=0 if pad is None else pad,
        use_cache=True,
        suppress_tokens=sorted(empty) or None,
        **more,
    )


def _room(model: PreTrainedModel, longest: int, length: int) -> int:
    """Tokens that fit behind those read."""
    room = longest - length
    if room < 1:
        raise DataError(
            f"this {model.config.model_type} reads {longest} tokens, so none fits behind a "
            f"beginning of {length}; set evaluation.generated = 0"
        )
    return room


@torch.no_grad()
def speeds(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    documents: Sequence[str],
    tokens: int,
    longest: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Speed]:
    """Time how fast a model goes on with beginnings of documents.

    Args:
        model: a causal model, on its device.
        tokenizer: of the model.
        documents: held-out texts.
        tokens: to be given for each.
        longest: tokens that the model reads at once.
        clock: seconds.
    """
    prompts = _prompts(tokenizer, documents, min(PROMPT, max(1, longest // 2)))
    new = min(tokens, _room(model, longest, len(prompts[0])))
    settings, warming = (
        _settings(model, tokenizer, do_sample=False, max_new_tokens=n, min_new_tokens=n)
        for n in (new, min(new, WARM_UP))
    )
    generate: Any = model.generate
    results = []
    with stock_generation(model):
        for batch in TIMED:
            ids_BT = torch.tensor([prompts[i % len(prompts)] for i in range(batch)]).to(
                model.device
            )
            mask_BT = torch.ones_like(ids_BT)
            rates: list[float] = []
            generate(input_ids=ids_BT, attention_mask=mask_BT, generation_config=warming)
            begun = clock()
            for _ in range(REPEATS):
                start = clock()
                output_BT = generate(
                    input_ids=ids_BT, attention_mask=mask_BT, generation_config=settings
                )
                if model.device.type == "cuda":
                    torch.cuda.synchronize()
                seconds = max(clock() - start, 1e-9)
                count = output_BT.shape[1] - ids_BT.shape[1]
                rates.append(batch * count / seconds)
                if clock() - begun > PATIENCE:
                    break
            results.append(Speed(batch, new, statistics.median(rates), len(rates)))
    return results


def _prompts(
    tokenizer: PreTrainedTokenizerFast, documents: Sequence[str], length: int
) -> list[list[int]]:
    """Beginnings of equally many tokens, of documents that have as many; one at least."""
    start = before(tokenizer)
    encoded = tokenizer(list(documents), add_special_tokens=False, verbose=False)["input_ids"]
    rows = [[*start, *ids] for ids in encoded if ids]
    if not rows:
        raise DataError("the evaluation text holds no document with a token; give more text")
    length = min(length, max(map(len, rows)))
    return [row[:length] for row in rows if len(row) >= length][: max(TIMED)]


def beginnings(documents: Sequence[str], number: int) -> list[tuple[str, str]]:
    """Beginnings of documents and what stands behind them, the same for every tokenizer.

    Args:
        documents: held-out texts; those that are no longer than a beginning are passed over.
        number: how many at most, spread over the documents.
    """
    long = [text for text in documents if len(text) > CHARACTERS + 1]
    long = long or [text for text in documents if len(text) > 1]
    step = max(1, len(long) // max(1, number))
    pairs = []
    for text in long[::step][:number]:
        end = min(CHARACTERS, len(text) // 2)
        space = max(text.rfind(gap, end // 2, end) for gap in " \n")
        cut = space if space > 0 else end
        pairs.append((text[:cut], text[cut:]))
    return pairs


@torch.no_grad()
def samples(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    begun: Sequence[tuple[str, str]],
    tokens: int,
    longest: int,
    seed: int,
) -> list[dict[str, str]]:
    """Continuations: the likeliest token by token, and one that is drawn.

    Args:
        model: a causal model.
        tokenizer: of the model.
        begun: from `beginnings`.
        tokens: of a continuation, at most.
        longest: tokens that the model reads at once.
        seed: of what is drawn.

    Returns:
        For each `beginning`, `greedy`, `drawn` (top-p 0.9, temperature 1) and `written`, what the
        author wrote there, as many characters as the longer continuation.
    """
    generate: Any = model.generate
    tokens, eos = min(tokens, max(1, longest // 2)), tokenizer.eos_token_id
    shared = {"max_new_tokens": tokens, "eos_token_id": eos}
    modes = {
        "greedy": _settings(model, tokenizer, do_sample=False, **shared),
        "drawn": _settings(model, tokenizer, do_sample=True, top_p=TOP_P, top_k=0, **shared),
    }
    start = before(tokenizer)
    prompts = [
        [*start, *ids[-max(1, longest - tokens - len(start)) :]]
        for ids in tokenizer([text for text, _ in begun], add_special_tokens=False, verbose=False)[
            "input_ids"
        ]
    ]
    rows: list[dict[str, str]] = []
    devices = [model.device] if model.device.type == "cuda" else []
    with stock_generation(model):
        for first in range(0, len(begun), SAMPLES_AT_ONCE):
            some = slice(first, first + SAMPLES_AT_ONCE)
            turned, pad = [ids[::-1] for ids in prompts[some]], modes["greedy"].pad_token_id
            ids_BT, mask_BT = (side.flip(1).to(model.device) for side in padded(turned, pad))
            written: dict[str, list[str]] = {}
            for mode, settings in modes.items():
                with torch.random.fork_rng(devices=devices):
                    torch.manual_seed(seed + first)
                    output_BT = generate(
                        input_ids=ids_BT, attention_mask=mask_BT.long(), generation_config=settings
                    )
                written[mode] = tokenizer.batch_decode(
                    output_BT[:, ids_BT.shape[1] :], skip_special_tokens=True
                )
            for number, (text, behind) in enumerate(begun[some]):
                row = {mode: texts[number] for mode, texts in written.items()}
                most = max(map(len, row.values()))
                rows.append({"beginning": text} | row | {"written": behind[:most]})
    return rows
