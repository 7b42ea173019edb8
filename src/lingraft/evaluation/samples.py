"""Samples for people to look at.

Of a masked model sentences with its first guesses; of a causal model beginnings of documents with
what stock `generate()` writes behind them. Shape letters: B sequences, T tokens.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig

from lingraft.models.rows import padded
from lingraft.recipe.run import SAMPLE_TOKENS, SAMPLES_AT_ONCE
from lingraft.tokenizer.documents import before, end_of_text
from lingraft.tokenizer.frame import special_ids
from lingraft.tokenizer.state import BYTE_OF

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

    from lingraft.evaluation.intrinsic import MaskedTokens
    from lingraft.evaluation.scorer import Scorer

GUESSES = 5
BROKEN = "\N{REPLACEMENT CHARACTER}"
SHORTEST, LONGEST = 8, 40
CHARACTERS = 100
"""Length of the beginning of a document."""
PROMPTS, ANSWER_TOKENS = 200, 128
"""Prompts that are answered, and tokens of an answer, at most."""
PLAIN = {"skip_special_tokens": True}
TOP_P = 0.9
"""Share of the probability that a drawn continuation keeps to (Holtzman et al. 2020)."""
DRAWN = {"do_sample": True, "top_p": TOP_P, "top_k": 0}


def choose(text: MaskedTokens, number: int) -> list[int]:
    """Choose indices of sentences of a readable length, spread over the text."""
    fitting = [i for i, item in enumerate(text.items) if SHORTEST <= len(item.ids) <= LONGEST]
    return _spread(fitting or list(range(len(text.items))), number)


def _spread(items: list[Any], number: int) -> list[Any]:
    return items[:: max(1, len(items) // max(1, number))][:number]


def predictions(
    scorer: Scorer, tokenizer: PreTrainedTokenizerBase, text: MaskedTokens, indices: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the chosen sentences with the five likeliest tokens at each hidden place.

    Args:
        scorer: the model.
        tokenizer: turns ids into pieces.
        text: masked with scheme 'mask-only', so that what is hidden is seen to be hidden.
        indices: indices into `text.items`.
    """
    items = [text.items[index] for index in indices]
    guesses: dict[tuple[int, int], list[tuple[str, float]]] = {}
    for where, logits_MV in scorer.logits(items):
        best = torch.softmax(logits_MV, 1).topk(GUESSES)
        for row, (item, place) in enumerate(where):
            likeliest = zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
            top = [(readable(token, tokenizer), share) for token, share in likeliest]
            guesses[int(item), int(place)] = top
    rows = []
    for number, item in enumerate(items):
        gold = (item.ids if item.written is None else item.written).copy()
        gold[item.masked] = item.targets
        hidden = set(item.masked.tolist())
        pieces = [readable(token, tokenizer) for token in gold.tolist()]
        rows.append(
            {
                "text": tokenizer.decode(gold.tolist(), skip_special_tokens=True),
                "tokens": [[piece, index in hidden] for index, piece in enumerate(pieces)],
                "predictions": [
                    {"index": int(place), "gold": pieces[place], "top": guesses[number, order]}
                    for order, place in enumerate(item.masked.tolist())
                ],
            }
        )
    return rows


def readable(token: int, tokenizer: PreTrainedTokenizerBase) -> str:
    """Write a vocabulary piece as a person reads it: bytes decoded, a space in front as '▁'.

    Bytes that are no whole character are told apart: as ‹ed 95›, or <0xED> where they stand so.
    """
    piece = str(tokenizer.convert_ids_to_tokens(token))
    if token in tokenizer.all_special_ids or piece.startswith("##"):
        return piece
    text = str(tokenizer.decode([token])).strip()
    if BROKEN in text:
        whole = all(letter in BYTE_OF for letter in piece)
        return f"‹{bytes(BYTE_OF[letter] for letter in piece).hex(' ')}›" if whole else piece
    return ("▁" if piece[:1] in ("▁", "Ġ") else "") + text


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


def generation_settings(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, **more: Any
) -> GenerationConfig:
    """Return settings with only the checkpoint's special tokens; no id without a piece."""
    empty = {*range(int(model.config.vocab_size))} - {*tokenizer.get_vocab().values()}
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=0 if pad is None else pad,
        use_cache=True,
        suppress_tokens=sorted(empty) or None,
        **more,
    )


def ends_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Return the tokens that a model stops at: its checkpoint's and its tokenizer's."""
    stored: Any = model.generation_config.eos_token_id
    return {*(stored if isinstance(stored, list) else [stored]), tokenizer.eos_token_id} - {None}


def beginnings(documents: Sequence[str], number: int) -> list[tuple[str, str]]:
    """Return beginnings of documents and what stands behind them, the same for every tokenizer.

    Args:
        documents: held-out texts; those that are no longer than a beginning are passed over.
        number: how many at most, spread over the documents.
    """
    long = [text for text in documents if len(text) > CHARACTERS + 1]
    long = long or [text for text in documents if len(text) > 1]
    pairs = []
    for text in _spread(long, number):
        end = min(CHARACTERS, len(text) // 2)
        space = max(text.rfind(gap, end // 2, end) for gap in " \n")
        cut = space if space > 0 else end
        pairs.append((text[:cut], text[cut:]))
    return pairs


@torch.no_grad()
def continuations(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    begun: Sequence[tuple[str, str]],
    longest: int,
    seed: int,
) -> list[dict[str, str]]:
    """Go on with beginnings: with the likeliest token each time, and with drawn ones.

    Args:
        model: a causal model.
        tokenizer: of the model.
        begun: from `beginnings`.
        longest: tokens that the model reads at once.
        seed: of what is drawn.

    Returns:
        For each `beginning`, `greedy`, `drawn` (top-p 0.9, temperature 1) and `written`, what the
        author wrote there, as many characters as the longer continuation.
    """
    tokens, ends = min(SAMPLE_TOKENS, max(1, longest // 2)), {*end_of_text(tokenizer)}
    ends |= {tokenizer.eos_token_id} - {None}
    shared = {"max_new_tokens": tokens, "eos_token_id": sorted(ends) or None}
    modes = {
        "greedy": generation_settings(model, tokenizer, do_sample=False, **shared),
        "drawn": generation_settings(model, tokenizer, **DRAWN, **shared),
    }
    start = before(tokenizer)
    texts = [text for text, _ in begun]
    encoded = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    room = max(1, longest - tokens - len(start))
    prompts = [[*start, *ids[-room:]] for ids in encoded]
    rows: list[dict[str, str]] = []
    written = {
        mode: tokenizer.batch_decode(go_on(model, prompts, settings, seed), **PLAIN)
        for mode, settings in modes.items()
    }
    for number, (text, behind) in enumerate(begun):
        row = {mode: found[number] for mode, found in written.items()}
        most = max(map(len, row.values()))
        rows.append({"beginning": text} | row | {"written": behind[:most]})
    return rows


def go_on(
    model: PreTrainedModel,
    prompts: Sequence[list[int]],
    settings: GenerationConfig,
    seed: int = 0,
    at_once: int = SAMPLES_AT_ONCE,
) -> list[list[int]]:
    """Return the ids that a model writes behind each of the prompts; the seed is of what is drawn.

    What a prompt gets depends on those that are gone on with together with it, `at_once`.
    """
    generate: Any = model.generate
    devices = [model.device] if model.device.type == "cuda" else []
    written: list[list[int]] = []
    with stock_generation(model):
        for first in range(0, len(prompts), at_once):
            turned = [ids[::-1] for ids in prompts[first : first + at_once]]
            sides = padded(turned, int(settings.pad_token_id or 0))
            ids_BT, mask_BT = (side.flip(1).to(model.device) for side in sides)
            inputs = {"input_ids": ids_BT, "attention_mask": mask_BT.long()}
            with torch.random.fork_rng(devices=devices):
                torch.manual_seed(seed + first)
                output_BT = generate(**inputs, generation_config=settings)
            written += output_BT[:, ids_BT.shape[1] :].tolist()
    return written


@torch.no_grad()
def answers(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    longest: int,
) -> dict[str, Any]:
    """Answer prompts in the tokenizer's chat template, with the likeliest token each time.

    Args:
        model: a causal model.
        tokenizer: of the model, with a chat template.
        prompts: what users say.
        longest: tokens that the model reads at once.

    Returns:
        `prompts`, how many there are; the shares that `stopped` within `ANSWER_TOKENS`, and that
        are in `form`: some text, no other special token, and the end of a turn.
    """
    user = [{"role": "user", "content": prompt} for prompt in prompts]
    asked: list[Any] = [
        tokenizer.apply_chat_template([turn], add_generation_prompt=True, return_dict=False)
        for turn in user
    ]
    answered = [*user[:1], {"role": "assistant", "content": "0"}]
    ends = ends_of(model, tokenizer)
    turn: Any = tokenizer.apply_chat_template(answered, return_dict=False)
    tokens = min(ANSWER_TOKENS, max(1, longest // 2))
    settings = generation_settings(
        model, tokenizer, do_sample=False, max_new_tokens=tokens, eos_token_id=sorted(ends)
    )
    room, special = longest - tokens, special_ids(tokenizer)
    stopped = in_form = 0
    for ids in go_on(model, [prompt[-room:] for prompt in asked], settings):
        end = next((place for place, token in enumerate(ids) if token in ends), None)
        if end is not None:
            stopped += 1
            in_form += ids[end] in turn and end > 0 and special.isdisjoint(ids[:end])
    number = max(1, len(prompts))
    return {"prompts": len(prompts), "stopped": stopped / number, "form": in_form / number}
