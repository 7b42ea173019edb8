"""Tokens that a tokenizer puts around text: special tokens by role, and sentence templates."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.tokenizer.state import LANGUAGE_CODE, SENTINEL, sentinel_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

NO_LIMIT = int(1e30)  # transformers' own number for "no maximal length"
ROLES = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token", "unk_token", "mask_token")


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


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids of all special tokens, with a role or without one."""
    added = tokenizer.added_tokens_decoder.items()
    special = {index for index, token in added if token.special}
    return special | {*tokenizer.all_special_ids, *kept_ids(tokenizer).values()}


def languages(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the ids of the languages that `src_lang` and `tgt_lang` can name, in their spelling.

    M2M's token is `__ko__` and its code ko; its files need not list them as special tokens. Most
    tokenizers can be told none.
    """
    if not hasattr(tokenizer, "src_lang"):
        return {}
    tokens: dict[str, int] = getattr(tokenizer, "lang_token_to_id", language_codes(tokenizer))
    return {token.strip("_"): index for token, index in tokens.items()}


def spelt(tokenizer: PreTrainedTokenizerBase, code: str) -> str:
    """Return what `src_lang` calls one of `languages`: ko for M2M's class, else the token."""
    if hasattr(tokenizer, "lang_token_to_id"):
        return code
    return str(tokenizer.convert_ids_to_tokens(languages(tokenizer)[code]))


def with_code(tokenizer: Any, code: str) -> PreTrainedTokenizerBase:
    """Return a tokenizer with one more language; all other ids stay.

    It is the same one, or of M2M one of NLLB's class, for the languages of M2M's class are fixed.

    Args:
        tokenizer: of a model with language codes.
        code: as `languages` calls one: xyz_Latn for NLLB, xyz for M2M, xy_XX for mBART.

    Raises:
        RecipeError: the code is not spelt like the tokenizer's.
        UnsupportedModelError: pieces of M2M's tokenizer have no like in NLLB's class.
    """
    known = languages(tokenizer)
    one = tokenizer.convert_ids_to_tokens(next(iter(known.values())))
    token = f"__{code}__" if one.startswith("__") else code
    own, new = LANGUAGE_CODE.fullmatch(one), LANGUAGE_CODE.fullmatch(token)
    if own is None or new is None or own.lastindex != new.lastindex:
        few = ", ".join(list(known)[:3])
        raise RecipeError(f"codes: the new code {code!r} must be spelt as the tokenizer's: {few} …")
    if hasattr(tokenizer, "lang_token_to_id"):
        tokenizer = _as_nllb(tokenizer)
    tokens = {"extra_special_tokens": [token]}
    tokenizer.add_special_tokens(tokens, replace_extra_special_tokens=False)
    return tokenizer


def _as_nllb(m2m: Any) -> Any:
    """Return M2M's tokenizer as one of NLLB's class: the same pieces and codes, the same ids.

    Only a space at the end of a text is a piece here and none there.
    """
    from transformers import NllbTokenizer  # light commands read this file
    from transformers.convert_slow_tokenizer import SentencePieceExtractor

    from lingraft.pretrained.load import one_line
    from lingraft.pretrained.tokenizers import LINES

    name, pieces = m2m.name_or_path, m2m.encoder
    with one_line(f"{name}: its SentencePiece model cannot be read", "pip install protobuf"):
        parts: Any = SentencePieceExtractor(m2m.spm_file).extract(None)
    tokenizer = NllbTokenizer(
        vocab=pieces,
        merges=[pair for pair in parts.get("merges", ()) if {*pair, "".join(pair)} <= {*pieces}],
        mask_token=None,
        extra_special_tokens=list(m2m.lang_token_to_id),
        model_max_length=m2m.model_max_length,
        src_lang=m2m.get_lang_token(m2m.src_lang),
        _spm_precompiled_charsmap=parts["_spm_precompiled_charsmap"],
    )
    lines = map(str.strip, LINES)
    if any(tokenizer(line)["input_ids"] != m2m(line)["input_ids"] for line in lines):
        told = "M2M's tokenizer takes no new code, and NLLB's class gives other ids for its pieces"
        raise UnsupportedModelError(f"{name}: {told}; start from an NLLB model")
    return tokenizer


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
        """Return the same frame with the padding token at a given id, or as near as can be."""
        if pad_id is None or self.tokens.index(pad := self.roles["pad_token"]) == pad_id:
            return self
        others = [token for token in self.tokens if token != pad]
        return dataclasses.replace(self, tokens=(*others[:pad_id], pad, *others[pad_id:]))


def default_frame(kind: str, *, causal: bool = False) -> Frame:
    """Return RoBERTa's special tokens (Unigram, byte-level BPE) or BERT's (WordPiece).

    A causal model's are Llama's: a text begins with one and has none behind it, so that it can go
    on.
    """
    roles = {"bos": "<s>", "cls": "<s>", "pad": "<pad>", "eos": "</s>", "sep": "</s>"}
    roles |= {"unk": "<unk>", "mask": "<mask>"}
    single: tuple[str, ...] = ("<s>:0", "$A:0", "</s>:0")
    pair: tuple[str, ...] = (*single, "</s>:0", "$B:0", "</s>:0")
    if causal:
        roles = {role: roles[role] for role in ("bos", "pad", "eos", "unk")}
        single, pair = ("<s>:0", "$A:0"), ("<s>:0", "$A:0", "$B:0")
    elif kind == "wordpiece":
        roles = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
        single = ("[CLS]:0", "$A:0", "[SEP]:0")
        pair = (*single, "$B:1", "[SEP]:1")
    roles = {f"{role}_token": token for role, token in roles.items()}
    stripping = "<mask>" if "<mask>" in roles.values() else None
    return Frame(tuple(dict.fromkeys(roles.values())), roles, single, pair, stripping)


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
    roles = {role: str(token) for role, token in source.special_tokens_map.items() if role in ROLES}
    needed: Sequence[str] = ROLES[2:]
    if causal:
        needed = ("eos_token",) if kind == "byte-bpe" else ("eos_token", "unk_token")
    else:
        for role, alias in (("cls_token", "bos_token"), ("sep_token", "eos_token")):
            if role not in roles and alias in roles:
                roles[role] = roles[alias]
    if any(SENTINEL.fullmatch(token) for token in kept_tokens):  # sentinels stand for spans
        needed = ("eos_token", "pad_token", "unk_token")
        roles.pop("sep_token", None)
    single, pair = _templates(source)
    around = {piece.rpartition(":")[0] for piece in (*single, *pair)} - {"$A", "$B"}
    missing = [role for role in needed if role not in roles]
    missing += [f"role of {token}" for token in sorted(around - {*roles.values(), *kept_tokens})]
    if not around and not causal:
        missing.append("special tokens around a sentence")
    if missing:
        raise UnsupportedModelError(
            f"{name} has no {', '.join(missing)}; set the roles in its tokenizer_config.json, or "
            "save it with the model family's own tokenizer class"
        )
    mask = source.added_tokens_decoder.get(source.mask_token_id)
    return Frame(
        tokens=tuple(sorted(set(roles.values()), key=source.convert_tokens_to_ids)),
        roles=roles,
        single=single,
        pair=pair,
        stripping=mask.content if mask is not None and mask.lstrip else None,
        input_names=tuple(source.model_input_names),
        max_length=source.model_max_length,
        last=tuple(sorted(kept_tokens, key=lambda token: kept_tokens[token])),
    )


def _templates(source: PreTrainedTokenizerFast) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the templates of one sentence and of two, as the tokenizer lays them out."""
    backend = source.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    single, pair = _template(backend.encode("0")), _template(backend.encode("0", "0"))
    return (single, pair) if len(pair) > 2 else (("$A:0",), ("$A:0", "$B:0"))


def _template(encoding: Encoding) -> tuple[str, ...]:
    rows = zip(encoding.tokens, encoding.sequence_ids, encoding.type_ids, strict=True)
    pieces = (
        f"{token if sequence is None else ('$A', '$B')[sequence]}:{type_id}"
        for token, sequence, type_id in rows
    )
    return tuple(
        piece
        for name, group in itertools.groupby(pieces)
        for piece in ([name] if name.startswith(("$A:", "$B:")) else group)
    )


def code_of(frame: Frame) -> str | None:
    """Return the language code that stands around sentences; None where none does."""
    tokens = (piece.rpartition(":")[0] for piece in frame.single)
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
    import langcodes  # compiles a large expression

    codes = sorted(language_codes(source))
    before = code_of(frame_of(source)) if codes else None
    wanted = langcodes.get(language)
    names = {code: langcodes.get(code.strip("_").partition("_")[0]).language for code in codes}
    own = [code for code in codes if names[code] == wanted.language]
    script = f"_{wanted.maximize().script}"
    own.sort(key=lambda code: not code.endswith(script))
    code = setting or next(iter(own), None)
    if before is None:
        if setting is None:
            return None
        raise RecipeError("tokenizer.language_code: the source tokenizer has none; leave it out")
    if code is None or not LANGUAGE_CODE.fullmatch(code):
        raise RecipeError(
            f"tokenizer.language_code: the source tokenizer has no code for '{setting or language}'"
            f"; give one of its own ({', '.join(codes[:8])} …), a near language's, or a new one, "
            "spelt like them"
        )
    return code


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

    names = {piece.rpartition(":")[0] for piece in (*single, *pair)} - {"$A", "$B"}
    template: Any = processors.TemplateProcessing(
        single=list(single),
        pair=list(pair),
        special_tokens=[(name, backend.token_to_id(name)) for name in sorted(names)],
    )
    backend.post_processor = template
