"""A code for a language that the tokenizer of a translator lacks: NLLB, M2M and mBART."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import NllbTokenizer
from transformers.convert_slow_tokenizer import SentencePieceExtractor

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.pretrained.load import one_line
from lingraft.pretrained.tokenizers import LINES
from lingraft.tokenizer.frame import languages
from lingraft.tokenizer.state import LANGUAGE_CODE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def with_code(tokenizer: PreTrainedTokenizerBase, code: str) -> PreTrainedTokenizerBase:
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
    one = str(tokenizer.convert_ids_to_tokens(next(iter(known.values()))))
    token = f"__{code}__" if one.startswith("__") else code
    forms = [LANGUAGE_CODE.fullmatch(text) for text in (token, one)]
    if forms[0] is None or (forms[1] and forms[0].lastindex != forms[1].lastindex):
        raise RecipeError(
            f"codes: the new code {code!r} must be spelt like the tokenizer's: "
            f"{', '.join(list(known)[:3])} …"
        )
    if hasattr(tokenizer, "lang_token_to_id"):
        tokenizer = _as_nllb(tokenizer)
    tokenizer.add_special_tokens(
        {"extra_special_tokens": [token]}, replace_extra_special_tokens=False
    )
    return tokenizer


def _as_nllb(m2m: Any) -> NllbTokenizer:
    """Return M2M's tokenizer as one of NLLB's class: the same pieces and codes, the same ids.

    Only a space at the end of a text is a piece here and none there.
    """
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
        raise UnsupportedModelError(
            f"{name}: M2M's tokenizer takes no new code, and NLLB's class gives other ids for its "
            "pieces; start from an NLLB model"
        )
    return tokenizer
