"""Small tokenizers as causal models have them, built in memory: `build(family)`."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import tokenizers as tk
from tiny_tokenizers import TEXT
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

if TYPE_CHECKING:
    from collections.abc import Callable

ENGLISH = [*TEXT[:3], "In 2024 there were 365 days, 12 months and 100 dogs."] * 9
PIECES = 330
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")
CHAT = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"


def _byte_level(pattern: str | None, **settings: Any) -> tk.Tokenizer:
    learner = tk.Tokenizer(models.BPE())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is not None:
        words = pre_tokenizers.Split(tk.Regex(pattern), behavior="isolated")
        split = pre_tokenizers.Sequence([words, split])
    learner.pre_tokenizer = split
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=PIECES, initial_alphabet=alphabet, show_progress=False)
    learner.train_from_iterator(ENGLISH, trainer)
    state = json.loads(learner.to_str())
    state["model"] |= settings
    backend = tk.Tokenizer.from_str(json.dumps(state))
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    return backend


def _added(backend: tk.Tokenizer, *tokens: str) -> tk.Tokenizer:
    backend.add_special_tokens([tk.AddedToken(t, special=True, normalized=False) for t in tokens])
    return backend


def _template(backend: tk.Tokenizer, first: str) -> None:
    single, pair = f"{first} $A", f"{first} $A {first} $B"
    ids = [(first, backend.token_to_id(first))]
    backend.post_processor = processors.TemplateProcessing(single, pair, ids)


def _gpt2() -> PreTrainedTokenizerFast:
    end = "<|endoftext|>"
    roles = {"bos_token": end, "eos_token": end, "unk_token": end}
    return PreTrainedTokenizerFast(tokenizer_object=_added(_byte_level(None), end), **roles)


def _llama3() -> PreTrainedTokenizerFast:
    """Whole words of the vocabulary go before merges; reserved tokens behind the pieces."""
    reserved = [f"<|reserved_special_token_{i}|>" for i in range(5)]
    names = ("<|begin_of_text|>", "<|end_of_text|>", *reserved[:2], "<|eot_id|>", *reserved[2:])
    backend = _added(_byte_level(LLAMA3, ignore_merges=True), *names)
    _template(backend, names[0])
    roles = {"bos_token": names[0], "eos_token": names[1], "pad_token": reserved[0]}
    chat = "{{ messages[0].content }}<|eot_id|>"
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=chat, **roles)


def _qwen() -> PreTrainedTokenizerFast:
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    backend = _added(_byte_level(QWEN), *names)
    backend.normalizer = normalizers.NFC()
    roles = {"eos_token": names[2], "pad_token": names[0]}
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=CHAT, **roles)


def _sentencepiece(specials: list[str]) -> tk.Tokenizer:
    """SentencePiece's BPE: bytes behind the special tokens, digits apart, `▁` for a space."""
    fixed = [*specials, *(f"<0x{byte:02X}>" for byte in range(256))]
    learner = tk.Tokenizer(models.BPE())
    apart = [pre_tokenizers.Metaspace(), pre_tokenizers.Digits(individual_digits=True)]
    learner.pre_tokenizer = pre_tokenizers.Sequence(apart)
    options = {"vocab_size": len(fixed) + 120, "special_tokens": fixed, "show_progress": False}
    learner.train_from_iterator(ENGLISH, trainers.BpeTrainer(**options))
    state = json.loads(learner.to_str())
    state["model"] |= {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}
    state |= {"added_tokens": [], "pre_tokenizer": None}
    backend = _added(tk.Tokenizer.from_str(json.dumps(state)), *specials)
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(parts)
    return backend


def _llama2() -> PreTrainedTokenizerFast:
    backend = _sentencepiece(["<unk>", "<s>", "</s>"])
    spaces = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    backend.normalizer = normalizers.Sequence(spaces)
    backend.decoder = decoders.Sequence([backend.decoder, decoders.Strip(" ", 1, 0)])
    _template(backend, "<s>")
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)


def _gemma() -> PreTrainedTokenizerFast:
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    backend = _sentencepiece([*names, *(f"<unused{i}>" for i in range(4))])
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    _template(backend, "<bos>")
    roles = {f"{name.strip('<>')}_token": name for name in names[:4]}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)


BUILDERS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {"gpt2": _gpt2, "llama-3": _llama3}
BUILDERS |= {"qwen": _qwen, "llama-2": _llama2, "gemma": _gemma}


OF_FAMILY = {
    **dict.fromkeys(("mistral", "helium", "phi3", "xglm"), "llama-2"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text"), "gemma"),
    **dict.fromkeys(("llama", "smollm3", "cohere2", "nanochat"), "llama-3"),
    **dict.fromkeys(("qwen2", "qwen3", "bloom", "granite", "apertus", "exaone4"), "qwen"),
    **dict.fromkeys(("ministral", "ministral3", "hyperclovax"), "llama-3"),
    **dict.fromkeys(("gpt2", "gpt_neox", "olmo", "olmo2", "olmo3", "opt", "phi"), "gpt2"),
}
"""Which of them a causal family of `lingraft.models.families` has in tests."""


@functools.cache
def build(family: str) -> PreTrainedTokenizerFast:
    return BUILDERS[family]()
