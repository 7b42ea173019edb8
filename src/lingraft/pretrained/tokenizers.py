"""Load tokenizers that read text as their files say, whatever class those name.

The classes of transformers 5 build normaliser and pre-tokenizer anew from constants of their own,
and leave aside what tokenizer.json says of them. Here the file is followed, and a class gives what
a file does not say: roles of special tokens, inputs of the model, sides, the template of a file
without one. That the ids are the file's is proved on `LINES` whenever a tokenizer is loaded.
"""

from __future__ import annotations

import functools
import json
import logging
from typing import TYPE_CHECKING, Any

import sentencepiece
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.models.auto.tokenization_auto import (
    get_tokenizer_config,
    tokenizer_class_from_name,
)

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.pretrained.checkpoints import folder_of, place_of, refuse_code
from lingraft.pretrained.load import find_file, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

LINES = (
    "In 2024, 12,345,678 people (3.5 %) said: don't!\n\nTwo  spaces,\ta tab\nand  Ünïcödé.  ",
    " a space first; naïve CAFÉ, ﬁne ½ x², ＦＵＬＬ width, e\u0301 and é; so▁so, I'LL've",
    "Быстрая лиса прыгает через 25 собак. Ёлка, й и и\u0306!",
    "Η γρήγορη αλεπού, 1984· Ώρα ΑΘΗΝΑ",
    "שלום עולם, מה שלומך? שָׁלוֹם",
    "مرحبا بالعالم، ١٢٣٤ كتابًا؛ کتاب\u200cها",
    "नमस्ते दुनिया, हिन्दी भाषा १२३ क़",
    "ภาษาไทยไม่มีช่องว่าง ๑๒๓",
    "나는 학교에 갔다. 한국어",
    "東京は晴れ。カタカナ、ｶﾅ １２３",
    "中文没有空格，今天天气很好。𠮷野家 🙂👩‍👩‍👧",
    "தமிழ் மொழி ብርሃን ქართული Հայերեն",
)
"""Text that pipelines cut differently: scripts, digits, case, forms, spaces, contractions, line
ends."""
EVERY_BYTE = "".join(
    map(chr, (*range(0x20, 0xC0), *range(0xC0, 0x800, 0x40), *range(0x800, 0xD000, 0x800)))
)
"""A text with nearly all bytes of UTF-8, and characters that hardly any vocabulary has."""
PIECES = 500
"""Number of pieces of the vocabulary, roughly, that make up one more line."""
OTHER_MODEL = "choose a model with a tokenizer.json that transformers loads"
SETTINGS = "tokenizer_config.json"
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")


def load_tokenizer(name: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint, with the ids of its tokenizer.json.

    Raises:
        DataError: there is none, or it is broken.
        UnsupportedModelError: it needs Python code of its own, gives other ids than its files say,
            or has tokens that its model has no row of embeddings for.
    """
    name, revision, _ = place_of(name, revision, own=SETTINGS)
    where = str(folder_of(name) or name)
    with one_line(
        f"{name}: its tokenizer cannot be loaded",
        "check the name and the files, or save the tokenizer again",
    ):
        tokenizer_config = get_tokenizer_config(where, revision=revision)
        kind = tokenizer_config.get("tokenizer_class")
        stock = isinstance(kind, str) and tokenizer_class_from_name(kind) is not None
        refuse_code(name, tokenizer_config, stock)
        if file := find_file(where, "tokenizer.json", revision):
            tokenizer = _as_stored(name, file, where, revision)
        else:
            tokenizer = _by_class(name, where, revision)
        if isinstance(tokenizer, PreTrainedTokenizerFast):
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        if config := find_file(where, "config.json", revision):
            check_rows(name, tokenizer, json.loads(config.read_bytes()).get("vocab_size"))
    return tokenizer


def padding_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint that reads texts of several lengths at once.

    Raises:
        DataError: there is none, it is broken, or it cannot pad.
        UnsupportedModelError: as `load_tokenizer`.
    """
    tokenizer = load_tokenizer(name)
    if tokenizer.pad_token_id is None:
        raise DataError(f"{name}: its tokenizer has no padding token, so texts cannot be padded")
    return tokenizer


def stored_backend(file: Path) -> Tokenizer:
    """Read tokenizer.json; nothing is cut or padded."""
    backend = Tokenizer.from_file(str(file))
    backend.no_truncation()
    backend.no_padding()
    return backend


def check_saved(folder: Path) -> None:
    """Prove that AutoTokenizer gives the ids of a tokenizer.json that lingraft wrote.

    Args:
        folder: where it lies; nothing is proved of one without the file.

    Raises:
        DataError: it gives others.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return
    stock = _stock(str(folder), None)
    if _unequal(stock, stored_backend(file)):
        raise DataError(
            f"{folder}: AutoTokenizer gives other ids than tokenizer.json, for transformers "
            f"loads a {type(stock).__name__} beside this config.json; choose another source"
        )


def _as_stored(name: str, file: Path, where: str, revision: str | None) -> PreTrainedTokenizerBase:
    """Load tokenizer.json as it is, with what the class knows beside it.

    Raises:
        DataError: it contradicts itself, or stops at text that its vocabulary lacks.
        UnsupportedModelError: what transformers makes of the files gives other ids.
    """
    backend = stored_backend(file)
    for token in json.loads(file.read_bytes())["added_tokens"]:
        if (index := backend.token_to_id(token["content"])) != token["id"]:
            raise DataError(
                f"{name}: tokenizer.json puts '{token['content']}' at id {token['id']}, where its "
                f"vocabulary has it at {index}; put back the file that belongs to the model"
            )
    broken = f"{name}: tokenizer.json contradicts itself, or has no unknown token for some text"
    with one_line(broken, "name one that the model has, or choose another model"):
        backend.encode_batch([*LINES, EVERY_BYTE])
    try:
        known = _stock(where, revision)
    except Exception as error:
        logger.debug("%s: %s", name, error)
        known = None
    speaks = hasattr(known, "src_lang")  # the class alone puts a language's code around a text
    bare = speaks or backend.post_processor is None
    is_equal = known is not None and not _unequal(known, backend, special=not bare)
    if known is not None and (speaks or (is_equal and type(known) is PreTrainedTokenizerFast)):
        tokenizer = known
    else:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(
            where, revision=revision or "main", trust_remote_code=False, **_of_class(known, backend)
        )
        if backend.post_processor is None and isinstance(known, PreTrainedTokenizerFast):
            around = known("")["input_ids"]
            if around == tokenizer.convert_tokens_to_ids(known.convert_ids_to_tokens(around)):
                template = known.backend_tokenizer.post_processor
                tokenizer.backend_tokenizer.post_processor = template
    if _unequal(tokenizer, backend, special=not bare):
        raise UnsupportedModelError(
            f"{name}: transformers ({type(tokenizer).__name__}, tokenizer_config.json) gives other "
            f"ids than its tokenizer.json; save the tokenizer again, or {OTHER_MODEL}"
        )
    if not is_equal and type(known) is not PreTrainedTokenizerFast:
        _warn_once(
            f"{name}: its text is read as tokenizer.json says; AutoTokenizer of transformers gives "
            f"other ids ({type(known).__name__}), so read it with PreTrainedTokenizerFast elsewhere"
        )
    return tokenizer


def _of_class(known: PreTrainedTokenizerBase | None, backend: Tokenizer) -> dict[str, Any]:
    """Return what a class sets where the files say nothing; roles, of tokens that there are."""
    if known is None:
        return {}
    named = known.SPECIAL_TOKENS_ATTRIBUTES
    roles = {role: str(token) for role in named if (token := getattr(known, role)) is not None}
    return {
        "model_input_names": known.model_input_names,
        "padding_side": known.padding_side,
        "truncation_side": known.truncation_side,
        **{r: token for r, token in roles.items() if backend.token_to_id(token) is not None},
    }


def _by_class(name: str, where: str, revision: str | None) -> PreTrainedTokenizerBase:
    """Load a tokenizer without a tokenizer.json, whose pipeline is that of its class.

    Raises:
        UnsupportedModelError: its pieces are not those of the SentencePiece model beside it.
    """
    tokenizer = _stock(where, revision)
    files = (find_file(where, file, revision) for file in SENTENCEPIECE)
    file = next(filter(None, files), None)
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or file is None:
        return tokenizer  # reads its files by their own library
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    for line in LINES:
        ids = tokenizer(line, add_special_tokens=False, verbose=False)["input_ids"]
        theirs = [
            tokenizer.unk_token if i == model.unk_id() else model.id_to_piece(i)
            for i in model.encode(line)
        ]
        if tokenizer.convert_ids_to_tokens(ids) != theirs:
            raise UnsupportedModelError(
                f"{name}: {type(tokenizer).__name__} of transformers gives other pieces than "
                f"{file.name}, and there is no tokenizer.json; add it, or {OTHER_MODEL}"
            )
    return tokenizer


def _stock(where: str, revision: str | None) -> PreTrainedTokenizerBase:
    """Load a tokenizer as other programs do, by the class that transformers chooses."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        where, revision=revision, trust_remote_code=False
    )
    return tokenizer


def _unequal(
    tokenizer: PreTrainedTokenizerBase, backend: Tokenizer, *, special: bool = True
) -> bool:
    """Return whether a tokenizer's ids of `LINES`, or of a line of pieces, are not a backend's."""
    size = backend.get_vocab_size()
    pieces = backend.decode(list(range(0, size, max(size // PIECES, 1))))
    return any(
        tokenizer(line, add_special_tokens=special, verbose=False)["input_ids"]
        != backend.encode(line, add_special_tokens=special).ids
        for line in (*LINES, pieces)
    )


def check_rows(
    name: str, tokenizer: PreTrainedTokenizerBase, rows: object, *, every: bool = False
) -> None:
    """Refuse a tokenizer with tokens that its model has no row of embeddings for.

    Special tokens without a role may have none, for text does not give them: Gemma 3's tokenizer
    has one for images, its small models have no row for it. Models without rows (CANINE, which
    hashes characters) and with two vocabularies are let through.

    Args:
        name: of the model, for the message.
        tokenizer: what is examined.
        rows: `vocab_size` of config.json, if it is a number.
        every: whether all need one, as where other programs read special tokens in a text.

    Raises:
        UnsupportedModelError: another token has none.
    """
    if not isinstance(rows, int):
        return
    added = {} if every else tokenizer.added_tokens_decoder
    special = {index for index, token in added.items() if token.special}
    ids = tokenizer.get_vocab()
    used = {ids[token] for token in tokenizer.special_tokens_map.values() if token in ids}
    used |= {*tokenizer("")["input_ids"], *({*ids.values()} - special)}
    highest = max(used, default=-1)
    if highest >= rows:
        raise UnsupportedModelError(
            f"{name}: its tokenizer has '{tokenizer.convert_ids_to_tokens(highest)}' at id "
            f"{highest}, but the model only {rows} embedding rows; put back the tokenizer that "
            "belongs to it, or resize its embeddings"
        )


@functools.cache
def _warn_once(text: str) -> None:
    logger.warning("%s", text)
