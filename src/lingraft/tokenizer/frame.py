"""Tokens that a tokenizer puts around text: special tokens by role, and sentence templates."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError
from lingraft.tokenizer.roles import completed, sentinel_ids, templates
from lingraft.tokenizer.state import LANGUAGE_CODE, code_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

NO_LIMIT = int(1e30)  # transformers' own number for "no maximal length"


def kept_ids(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the ids of tokens whose role is their name, which a new vocabulary keeps."""
    sentinels = enumerate(sentinel_ids(tokenizer.get_vocab()))
    ids = {f"<extra_id_{number}>": index for number, index in sentinels}
    return ids | language_codes(tokenizer)


def language_codes(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the ids of the special tokens that name a language."""
    return {
        token.content: index
        for index, token in tokenizer.added_tokens_decoder.items()
        if token.special and LANGUAGE_CODE.fullmatch(token.content)
    }


def languages(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the ids of the languages that `src_lang` and `tgt_lang` can name, in their spelling.

    M2M's token is `__ko__` and its code ko; its files need not list them as special tokens. Most
    tokenizers can be told none.
    """
    if not hasattr(tokenizer, "src_lang"):
        return {}
    tokens: dict[str, int] = getattr(tokenizer, "lang_token_to_id", language_codes(tokenizer))
    return {token.strip("_"): index for token, index in tokens.items()}


def target_setting(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the key of `generate()` that says the target language, by its id.

    The decoder of the first mBART starts with the language; in later models it comes next.
    """
    first = type(tokenizer).__name__ == "MBartTokenizer"
    return "decoder_start_token_id" if first else "forced_bos_token_id"


@dataclass(frozen=True)
class Frame:
    """Special tokens and how they stand around sentences."""

    tokens: tuple[str, ...]
    """Special tokens in the order of their ids, which are 0, 1, 2 …"""
    roles: dict[str, str]
    """transformers' role names (`cls_token`, …) and the token that has each."""
    single: tuple[str, ...]
    """Template of one sentence, as `TOKEN:TYPE_ID` and `$A:TYPE_ID`."""
    pair: tuple[str, ...]
    """Template of two sentences; the second is `$B`."""
    stripping: str | None
    """The token that takes the space before it along (the mask token, in most families)."""
    input_names: tuple[str, ...] = ("input_ids", "attention_mask")
    """Names of the inputs that the tokenizer returns for the model."""
    max_length: int = NO_LIMIT
    """Longest input of the model, in tokens."""
    last: tuple[str, ...] = ()
    """Special tokens behind all pieces: sentinels and language codes, kept by name."""

    @property
    def specials(self) -> int:
        """Return the number of special tokens."""
        return len(self.tokens) + len(self.last)

    def with_pad_at(self, pad_id: int | None) -> Frame:
        """Return the same frame with the padding token at a given id; the others keep their order.

        Raises:
            UnsupportedModelError: there are too few special tokens for that.
        """
        if pad_id is None or self.tokens.index(self.roles["pad_token"]) == pad_id:
            return self
        pad = self.roles["pad_token"]
        other_tokens = [token for token in self.tokens if token != pad]
        if not 0 <= pad_id <= len(other_tokens):
            raise UnsupportedModelError(
                f"the model's positions need the padding token at id {pad_id}, but the source "
                "tokenizer has only "
                f"{len(self.tokens)} special tokens ({', '.join(self.tokens)}); set pad_token_id "
                "in its config.json right"
            )
        return dataclasses.replace(
            self, tokens=(*other_tokens[:pad_id], pad, *other_tokens[pad_id:])
        )


def default_frame(kind: str, *, causal: bool = False) -> Frame:
    """Return RoBERTa's special tokens (Unigram, byte-level BPE) or BERT's (WordPiece).

    A causal model's are Llama's: a text begins with one and has none behind it, so that it can go
    on.
    """
    if causal:
        roles = {
            "bos_token": "<s>",
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
        }
        single = ("<s>:0", "$A:0")
        return Frame(tuple(roles.values()), roles, single, (*single, "$B:0"), None)
    if kind == "wordpiece":
        roles = {
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        }
        return Frame(
            tokens=tuple(roles.values()),
            roles=roles,
            single=("[CLS]:0", "$A:0", "[SEP]:0"),
            pair=("[CLS]:0", "$A:0", "[SEP]:0", "$B:1", "[SEP]:1"),
            stripping=None,
            input_names=("input_ids", "token_type_ids", "attention_mask"),
        )
    roles = {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    return Frame(
        tokens=tuple(dict.fromkeys(roles.values())),
        roles=roles,
        single=("<s>:0", "$A:0", "</s>:0"),
        pair=("<s>:0", "$A:0", "</s>:0", "</s>:0", "$B:0", "</s>:0"),
        stripping="<mask>",
    )


def frame_of(
    source: PreTrainedTokenizerFast,
    *,
    causal: bool = False,
    kind: str = "byte-bpe",
    name: str = "the source tokenizer",
) -> Frame:
    """Return the frame of a source tokenizer; ids are closed up to 0, 1, 2 …, in its order.

    Args:
        source: the tokenizer.
        causal: whether it is a causal model's, which hides nothing, need not pad, and may put
            nothing around a text.
        kind: of the new vocabulary; all but byte-level BPE need a token for what is unknown.
        name: what errors call it.

    Raises:
        UnsupportedModelError: a role has no token, or the source puts nothing around a sentence.
    """
    kept_tokens = kept_ids(source)
    roles = {role: str(token) for role, token in source.special_tokens_map.items()}
    roles = completed(roles, kept_tokens, causal=causal, kind=kind, name=name)
    processor = json.loads(source.backend_tokenizer.to_str())["post_processor"]
    tokens = sorted(set(roles.values()), key=source.convert_tokens_to_ids)
    single, pair = templates(processor, {*roles.values(), *kept_tokens}, name, bare=causal)
    mask = source.added_tokens_decoder.get(source.mask_token_id)
    return Frame(
        tokens=tuple(tokens),
        roles=roles,
        single=single,
        pair=pair,
        stripping=mask.content if mask is not None and mask.lstrip else None,
        input_names=tuple(source.model_input_names),
        max_length=source.model_max_length,
        last=tuple(sorted(kept_tokens, key=lambda token: kept_tokens[token])),
    )


def code_of(frame: Frame) -> str | None:
    """Return the language code that stands around sentences; None where none does."""
    tokens = (piece.rsplit(":", 1)[0] for piece in frame.single)
    return next((token for token in tokens if LANGUAGE_CODE.fullmatch(token)), None)


def code_for(source: PreTrainedTokenizerFast, setting: str | None, language: str) -> str | None:
    """Return the code that is to stand around the target's sentences; None where none does.

    Args:
        source: the source's tokenizer.
        setting: one of its codes or a new one; None takes that of the language.
        language: of the target, say ko.

    Raises:
        RecipeError: the language has no code here, or there are no codes at all.
    """
    codes = sorted(language_codes(source))
    return code_among(codes, code_of(frame_of(source)) if codes else None, setting, language)


def speak(tokenizer: PreTrainedTokenizerFast, code: str) -> None:
    """Let a language code stand around sentences in place of the one that does, in place."""
    from tokenizers import AddedToken  # light commands read this file

    frame, backend = frame_of(tokenizer), tokenizer.backend_tokenizer
    before = code_of(frame)
    backend.add_special_tokens([AddedToken(code, special=True, normalized=False)])
    single, pair = (
        [piece.replace(f"{before}:", f"{code}:") for piece in template]
        for template in (frame.single, frame.pair)
    )
    put_around(backend, single, pair)


def put_around(backend: Tokenizer, single: Sequence[str], pair: Sequence[str]) -> None:
    """Let templates in the short form (`Frame.single`) stand around sentences, in place."""
    from tokenizers import processors  # light commands read this file

    names = {piece.rsplit(":", 1)[0] for piece in (*single, *pair)} - {"$A", "$B"}
    template: Any = processors.TemplateProcessing(
        single=list(single),
        pair=list(pair),
        special_tokens=[(name, backend.token_to_id(name)) for name in sorted(names)],
    )
    backend.post_processor = template
