"""A tiny causal model whose every weight is known: `save`.

Nothing is trained here, and the weights are from a generator that numpy keeps as it is, so that the
same model can be made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("the", "he", "was", "it", "and", "because", "rain", "ing", "door", "dog")
BOS, EOS = "<s>", "</s>"
LONGEST = 96


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, and the merges that spell WORDS with and without a space before them."""
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges: list[tuple[str, str]] = []
    for word in [*WORDS, *(f"Ġ{word}" for word in WORDS)]:
        left = word[0]
        for letter in word[1:]:
            if (left, letter) not in merges:
                merges.append((left, letter))
                pieces.append(left + letter)
            left += letter
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    backend = Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(one, special=True) for one in (BOS, EOS)])
    first = [(BOS, backend.token_to_id(BOS))]
    backend.post_processor = processors.TemplateProcessing(f"{BOS} $A", f"{BOS} $A $B", first)
    roles = {"bos_token": BOS, "eos_token": EOS, "pad_token": EOS}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)


def model(seed: int = 32) -> LlamaForCausalLM:
    """Two layers of 32, weights from numpy's frozen generator; with 32 the four scores differ."""
    made = tokenizer()
    ids = {f"{role}_token_id": getattr(made, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    shape |= {"num_hidden_layers": 2, "max_position_embeddings": LONGEST}
    config = LlamaConfig(vocab_size=len(made), tie_word_embeddings=False, **ids, **shape)
    built = LlamaForCausalLM(config).float().eval()
    drawn = np.random.RandomState(seed)
    with torch.no_grad():
        for name, parameter in sorted(built.named_parameters()):
            scale = 0.02 if "norm" in name else 0.35
            values = scale * drawn.standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(values + ("norm" in name)).float())
    return built


def save(folder: Path, seed: int = 32) -> Path:
    """A checkpoint that stock transformers loads."""
    model(seed).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
