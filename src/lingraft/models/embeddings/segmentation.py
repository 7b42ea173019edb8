"""Any piece or word, given in canonical form, cut into the pieces of a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.models.embeddings.match import first_of_each
from lingraft.tokenizer.files import kind_of
from lingraft.tokenizer.state import BYTE_OF, BYTE_PIECE, WORD_START
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary, stands_alone

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}


class Segmenter:
    """Cuts canonical forms as the tokenizer cuts text, inside a word as well as at its start.

    The tokenizer itself always begins a word; here its model (merges, unigram scores or longest
    match) is given the piece in its own spelling. Byte-level models get bytes, so that half a
    character is cut as well as a whole one. The tokenizer's normaliser (lower case, say) is applied
    to whatever is whole characters.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        backend: Any = tokenizer.backend_tokenizer
        self.kind = kind_of(tokenizer)
        self.model, self.normalizer = backend.model, backend.normalizer
        self.pre_tokenizer = backend.pre_tokenizer
        vocabulary = Vocabulary.of(tokenizer)
        self.size = vocabulary.size
        self.special_ids = vocabulary.special_ids
        self.byte_ids = {
            int(piece[3:5], 16): index
            for index, piece in enumerate(vocabulary.pieces)
            if self.kind in ("unigram", "sp-bpe") and BYTE_PIECE.fullmatch(piece)
        }
        self.ids = first_of_each(vocabulary.canonical)
        self.bare = {index for form, index in self.ids.items() if not form.text}

    def __call__(self, form: Canonical) -> list[int]:
        """Return the ids of the pieces without unknown and other special ones; none where none fit.

        A bare word start is no piece of a word of which nothing else is known.
        """
        ids = self._pieces(form)
        return [] if form.text.strip(b" ") and self.bare.issuperset(ids) else ids

    def _pieces(self, form: Canonical) -> list[int]:
        try:
            text = self._normalised(form.text.decode())
        except UnicodeDecodeError:
            if self.kind == "byte-bpe":
                return self._learnt(_spelt(form))
            return [self.byte_ids[byte] for byte in form.text if byte in self.byte_ids]
        if self.kind == "wordpiece":
            parts = self.normalizer, self.pre_tokenizer
            begins = form.word_start or stands_alone(form.text.decode(), *parts)
            return self._longest_matches(begins, text)
        if self.kind == "byte-bpe":
            return self._learnt(_spelt(Canonical(form.word_start, text.encode())))
        return self._learnt(WORD_START * form.word_start + text.replace(" ", WORD_START))

    def _normalised(self, text: str) -> str:
        if self.normalizer is None:
            return text
        # Some normalisers put a word start before the text or a space around its characters.
        bare: str = self.normalizer.normalize_str(text)
        return bare.strip(" " + WORD_START) if text.strip(" " + WORD_START) else text

    def _learnt(self, spelt: str) -> list[int]:
        if not spelt:
            return []
        ids = [token.id for token in self.model.tokenize(spelt)]
        return [index for index in ids if index not in self.special_ids]

    def _longest_matches(self, word_start: bool, text: str) -> list[int]:
        """Cut into longest pieces first (WordPiece); a word that leaves a rest gives none."""
        words = [text]
        if self.pre_tokenizer is not None:
            words = [word for word, _ in self.pre_tokenizer.pre_tokenize_str(text)]
        ids: list[int] = []
        for number, word in enumerate(words):
            ids += self._longest(word_start or number > 0, word)
        return ids

    def _longest(self, word_start: bool, word: str) -> list[int]:
        ids: list[int] = []
        begin = 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                form = Canonical(word_start and begin == 0, word[begin:end].encode())
                if form in self.ids:
                    ids.append(self.ids[form])
                    begin = end
                    break
            else:
                return []
        return ids


def _spelt(form: Canonical) -> str:
    return "".join(CHARACTER_OF[byte] for byte in b" " * form.word_start + form.text)
