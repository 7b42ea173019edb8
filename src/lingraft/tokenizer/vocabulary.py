"""A vocabulary as matching sees it: for each piece, whether it starts a word, and its bytes.

Differs from the paper (MetaXLM, Chi et al. 2021, §3.2): the paper compares pieces as strings and
does not say how it treats byte-level pieces. Here they are decoded to bytes first, so
that "Ġcafé", which byte-level BPE spells "ĠcafÃ©", is the "▁café" of SentencePiece, and pieces that
are a part of a character match byte for byte.
"""

from __future__ import annotations

import dataclasses
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lingraft.errors import UnsupportedModelError
from lingraft.tokenizer.files import kind_of
from lingraft.tokenizer.frame import kept_ids, language_codes, special_ids
from lingraft.tokenizer.state import BYTE_OF, BYTE_PIECE, LANGUAGE_CODE, PLACEHOLDER, WORD_START

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from transformers import PreTrainedTokenizerBase

    from lingraft.tokenizer.state import Kind

ROLES = {
    "cls": ("cls_token", "bos_token"),
    "sep": ("sep_token", "eos_token"),
    "bos": ("bos_token", "cls_token"),
    "pad": ("pad_token",),
    "eos": ("eos_token", "sep_token"),
    "unk": ("unk_token",),
    "mask": ("mask_token",),
}


class Canonical(NamedTuple):
    """A piece without its tokenizer's spelling."""

    word_start: bool
    text: bytes


@dataclass(frozen=True)
class Vocabulary:
    """Pieces by id, as they are spelt and in canonical form, and the special tokens by role."""

    size: int
    """Number of ids: one more than the highest."""
    pieces: list[str]
    """As the tokenizer spells them; empty for an id that it does not use."""
    canonical: list[Canonical | None]
    """None for what is never matched: special tokens, `<0x..>` bytes, placeholders, unused ids."""
    specials: dict[str, int]
    """Ids by role: cls, sep, bos, pad, eos, unk, mask. Where a tokenizer has bos alone or cls alone
    it has both roles, and so with eos and sep; another role without a token is left out."""
    special_ids: frozenset[int]
    """Ids of all special tokens, of these roles and of others."""
    kept: dict[str, int] = field(default_factory=dict)
    """Ids of the tokens that a new vocabulary keeps by name: sentinels and language codes."""

    code: int | None = None
    """Id of the language code that stands around sentences; None where none does."""

    alone: frozenset[int] = frozenset()
    """Ids of pieces that stand apart from letters around them: WordPiece's signs and Chinese."""

    @property
    def forms(self) -> dict[Canonical, int]:
        """Return the lowest id of each form under which pieces are looked for."""
        return {form: i for i in reversed(range(self.size)) for form in self.sought(i)}

    def sought(self, index: int) -> tuple[Canonical, ...]:
        """Return the forms under which a piece is looked for; both of what stands alone."""
        form = self.canonical[index]
        if form is None:
            return ()
        return (Canonical(False, form.text), form) if index in self.alone else (form,)

    @property
    def code_ids(self) -> frozenset[int]:
        """Return the ids of all language codes."""
        codes = (index for name, index in self.kept.items() if LANGUAGE_CODE.fullmatch(name))
        return frozenset(codes)

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> Vocabulary:
        """Return the vocabulary of a tokenizer.

        Raises:
            UnsupportedModelError: the tokenizer is of another kind than those of `state.Kind`.
        """
        kind = kind_of(tokenizer)
        ids: dict[str, int] = tokenizer.get_vocab()
        pieces = [""] * (max(ids.values()) + 1)
        for piece, index in ids.items():
            pieces[index] = piece
        added = tokenizer.added_tokens_decoder
        kept_tokens = kept_ids(tokenizer)
        special = special_ids(tokenizer)
        canonical = [
            None
            if index in special or not piece
            else _raw(piece)
            if index in added and kind == "byte-bpe"
            else canonical_form(piece, kind)
            for index, piece in enumerate(pieces)
        ]
        alone = _alone(tokenizer, pieces) if kind == "wordpiece" else frozenset()
        for index, piece in enumerate(pieces):  # no text is read by the form inside a word
            if alone and piece.startswith("##") and ids.get(piece[2:]) in alone:
                canonical[index] = None
        tokens = tokenizer.special_tokens_map
        specials = {
            role: ids[str(tokens[name])]
            for role, names in ROLES.items()
            if (name := next((name for name in names if name in tokens), None)) is not None
        }
        codes = set(language_codes(tokenizer).values())
        code = next((i for i in tokenizer("0")["input_ids"] if i in codes), None) if codes else None
        own = (specials, frozenset(special), kept_tokens, code, alone - special)
        return cls(len(pieces), pieces, canonical, *own)

    def unmatched(self, ids: Collection[int]) -> Vocabulary:
        """Return the same without a form of these ids' pieces, so that none is matched by them."""
        forms = [None if i in ids else form for i, form in enumerate(self.canonical)]
        return dataclasses.replace(self, canonical=forms)

    def within(self, rows: int) -> Vocabulary:
        """Return the pieces of a model with so many rows of embeddings.

        It may lack rows of special tokens without a role, which no text gives: Gemma 3's tokenizer
        has one for images, its small models have no row for it.

        Raises:
            UnsupportedModelError: it lacks a row of another piece.
        """
        optional = self.special_ids.difference(self.specials.values(), self.kept.values())
        if any(self.pieces[i] and i not in optional for i in range(rows, self.size)):
            raise UnsupportedModelError(
                f"the source tokenizer has {self.size} pieces but the model only {rows} embedding "
                "rows; they do not belong together, or the model's embeddings were never resized"
            )
        return dataclasses.replace(
            self,
            size=min(self.size, rows),
            pieces=self.pieces[:rows],
            canonical=self.canonical[:rows],
            special_ids=frozenset(index for index in self.special_ids if index < rows),
            alone=frozenset(index for index in self.alone if index < rows),
        )


def stands_alone(text: str, normalizer: Any, pre_tokenizer: Any) -> bool:
    """Return whether a tokenizer cuts a text off a letter before it, as signs and Chinese."""
    if pre_tokenizer is None:
        return False
    behind = f"a{text}" if normalizer is None else normalizer.normalize_str(f"a{text}")
    words: list[tuple[str, Any]] = pre_tokenizer.pre_tokenize_str(behind)
    return len(words) > 1 and words[0][0] == "a"


def _alone(tokenizer: PreTrainedTokenizerBase, pieces: Sequence[str]) -> frozenset[int]:
    """Return the ids of single signs that stand alone."""
    parts = tokenizer.backend_tokenizer.normalizer, tokenizer.backend_tokenizer.pre_tokenizer
    return frozenset(
        index
        for index, piece in enumerate(pieces)
        if ((len(piece) == 1 and not piece.isascii()) or piece in string.punctuation)
        and stands_alone(piece, *parts)
    )


def canonical_form(piece: str, kind: Kind) -> Canonical | None:
    """Return the canonical form of a piece that is no special token.

    Args:
        piece: as the tokenizer spells it.
        kind: the tokenizer's algorithm.

    Returns:
        None for placeholders, `<0x..>` byte pieces and pieces that byte-level BPE cannot have
        spelt.
    """
    if PLACEHOLDER.fullmatch(piece):
        return None
    if kind in ("unigram", "sp-bpe"):
        if BYTE_PIECE.fullmatch(piece):
            return None
        start = piece.startswith(WORD_START)
        return Canonical(start, piece[start:].replace(WORD_START, " ").encode())
    if kind == "wordpiece":
        continues = piece.startswith("##") and len(piece) > 2
        return Canonical(not continues, piece[2 * continues :].encode())
    if any(character not in BYTE_OF for character in piece):
        return None
    text = bytes(BYTE_OF[character] for character in piece)
    return Canonical(text.startswith(b" "), text.removeprefix(b" "))


def _raw(piece: str) -> Canonical:
    """Return the form of plain text: of a token added to byte-level pieces (spaces, say)."""
    return Canonical(piece.startswith(" "), piece.removeprefix(" ").encode())
