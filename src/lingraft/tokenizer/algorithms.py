"""Training the four kinds of vocabulary, each the same in every process for one text and seed."""

from __future__ import annotations

import io
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import sentencepiece
from tokenizers import models, pre_tokenizers

from lingraft.errors import DataError, RecipeError
from lingraft.tokenizer.merges import (
    LONGEST_PIECE,
    MIN_FREQUENCY,
    Sample,
    count_characters,
    cut,
    fitting,
    repeated,
    train_bpe,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft import recipe
    from lingraft.tokenizer.frame import Frame

logger = logging.getLogger(__name__)

# A special token is no spelling: at this score Unigram segmentation prefers "<", "s", ">" to "<s>".
SPECIAL_SCORE = -1_000.0
# From here on sentencepiece needs 64-bit suffix arrays (twice the memory).
LARGE_CORPUS_CHARACTERS = 1_000_000_000
# Stock BERT gives up on words above 100 characters; scripts without spaces (Thai, kana) have such
# "words" all the time.
MAX_WORD_CHARACTERS = 1_000
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def train_model(
    kind: str,
    sample: Sample,
    normaliser: Any,
    pre_tokenizer: Any,
    section: recipe.Tokenizer,
    frame: Frame,
) -> models.Model:
    """Train a vocabulary of one of the kinds that read words as a pre-tokenizer cuts them.

    Args:
        kind: unigram (which cuts words itself), byte-bpe or wordpiece.
        sample: sentences to train on.
        normaliser: of the tokenizer.
        pre_tokenizer: likewise.
        section: size and coverage.
        frame: special tokens.
    """
    if kind == "unigram":
        return _train_unigram(sample, normaliser, section, frame)
    train = _train_byte_bpe if kind == "byte-bpe" else _train_wordpiece
    return train(sample, normaliser, pre_tokenizer, section, frame)


def _train_unigram(
    sample: Sample, normaliser: Any, section: recipe.Tokenizer, frame: Frame
) -> models.Model:
    """Train Unigram pieces by `sentencepiece` (Kudo 2018), on one thread, over normalised text.

    Raises:
        DataError: sentencepiece finds nothing to learn, or `vocab_size` is less than the number of
            characters to cover.
    """
    written = io.BytesIO()
    logger.info(f"tokenizer: learns pieces from {sample.size:,} sentences; no bar can show how far")
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sample.normalised(normaliser, "reading"),
            model_writer=written,
            model_type="unigram",
            vocab_size=section.vocab_size - frame.specials + 1,  # with sentencepiece's own <unk>
            hard_vocab_limit=False,
            character_coverage=section.character_coverage,
            normalization_rule_name="identity",
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            input_sentence_size=0,
            shuffle_input_sentence=False,
            max_sentence_length=2**30,
            max_sentencepiece_length=LONGEST_PIECE,
            train_extremely_large_corpus=sample.characters > LARGE_CORPUS_CHARACTERS,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(
            f"tokenizer: sentencepiece cannot train on this text ({' '.join(str(error).split())}); "
            "give more text or another tokenizer.vocab_size"
        ) from error
    learnt = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    ids = [index for index in range(learnt.get_piece_size()) if not learnt.is_unknown(index)]
    pieces = [(learnt.id_to_piece(index), learnt.get_score(index)) for index in ids]
    special = [(token, SPECIAL_SCORE) for token in frame.tokens]
    spelt = [(piece, score) for piece, score in pieces if piece not in frame.tokens]
    unk_id = frame.tokens.index(frame.roles["unk_token"])
    return models.Unigram(special + spelt, unk_id, byte_fallback=False)


def _train_byte_bpe(
    sample: Sample, normaliser: Any, pre_tokenizer: Any, section: recipe.Tokenizer, frame: Frame
) -> models.Model:
    """Train byte-level BPE (Radford et al. 2019): every byte is a piece, so no text is unknown."""
    learnt = train_bpe(
        lambda: sample.normalised(normaliser, "reading"),
        pre_tokenizer,
        max(0, section.vocab_size - len(frame.last)),
        fitting(in_bytes=True),
        min_frequency=MIN_FREQUENCY,
        special_tokens=list(frame.tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    return models.BPE(*learnt)


def train_sp_bpe(
    words: Counter[str], digits: bool, section: recipe.Tokenizer, frame: Frame
) -> models.BPE:
    """Train BPE with byte fallback, as SentencePiece has it.

    Characters beyond `character_coverage` are left to their bytes.

    Args:
        words: how often each occurs, `▁` at its start.
        digits: whether every digit is a piece of its own.
        section: size and coverage.
        frame: special tokens.
    """
    allowed = _common_characters(count_characters(words), section.character_coverage)
    parts: Counter[str] = Counter()
    for word, count in words.items():
        spelt = [char if char in allowed else UNKNOWN for char in word]
        for part in cut(spelt, digits, UNKNOWN):
            if part != [UNKNOWN]:
                parts["".join(part)] += count
    learnt = train_bpe(
        lambda: repeated(parts),
        pre_tokenizers.WhitespaceSplit(),
        section.vocab_size,
        fitting(),
        min_frequency=MIN_FREQUENCY,
        special_tokens=[*frame.tokens, *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=sorted(allowed),
    )
    return models.BPE(*learnt)


def _train_wordpiece(
    sample: Sample, normaliser: Any, pre_tokenizer: Any, section: recipe.Tokenizer, frame: Frame
) -> models.Model:
    """Train WordPiece by byte-pair merges with `##`, as `tokenizers` does, but reproducibly.

    Characters beyond `character_coverage` are left out, with the words that they stand in. A first
    training without merges finds which characters continue a word; the second gets all of them in
    sorted order, so that ids, and with them the breaking of ties, do not depend on the order of a
    hash table.
    """
    counts: Counter[str] = Counter()
    for sentence in sample.normalised(normaliser, "counting characters"):
        counts.update("".join(sentence.split()))
    rare = set(counts) - _common_characters(counts, section.character_coverage)

    def common(sentence: str) -> str:
        return " ".join(word for word in sentence.split() if rare.isdisjoint(word))

    def learn(title: str, size: int, specials: list[str], min_frequency: int) -> dict[str, int]:
        def text() -> Iterable[str]:
            sentences = sample.normalised(normaliser, title)
            return map(common, sentences) if rare else sentences

        return train_bpe(
            text,
            pre_tokenizer,
            size,
            fitting(mark="##"),
            min_frequency=min_frequency,
            special_tokens=specials,
            continuing_subword_prefix="##",
        )[0]

    alphabet = sorted(learn("finding characters", 0, [], 1))
    learnt = learn("reading", section.vocab_size - frame.specials, alphabet, MIN_FREQUENCY)
    pieces = sorted(learnt, key=lambda piece: learnt[piece])
    vocabulary = [*frame.tokens, *(piece for piece in pieces if piece not in frame.tokens)]
    return models.WordPiece(
        {piece: index for index, piece in enumerate(vocabulary)},
        unk_token=frame.roles["unk_token"],
        max_input_chars_per_word=MAX_WORD_CHARACTERS,
    )


def _common_characters(counts: Counter[str], coverage: float) -> set[str]:
    """Return the commonest characters that make up a share of a text."""
    allowed, covered, total = set(), 0, counts.total()
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= coverage * total:
            break
        allowed.add(character)
        covered += count
    return allowed


def check_size(pieces: int, section: recipe.Tokenizer) -> None:
    """Refuse a vocabulary that is larger than was asked for.

    Raises:
        RecipeError: so it is: bytes, characters and special tokens alone are more.
    """
    if pieces > section.vocab_size:
        raise RecipeError(
            f"tokenizer.vocab_size: {section.vocab_size} is too small; the characters of this text "
            f"and the special tokens alone are {pieces}; raise it"
        )
