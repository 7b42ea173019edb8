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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sentencepiece
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.models.auto.tokenization_auto import (
    get_tokenizer_config,
    tokenizer_class_from_name,
)
from transformers.utils.hub import cached_file

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.pretrained.checkpoints import folder_of, refuse_code
from lingraft.pretrained.load import one_line

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

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
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")


def load_tokenizer(name: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint, with the ids of its tokenizer.json.

    Raises:
        DataError: there is none, or it is broken.
        UnsupportedModelError: it needs Python code of its own, gives other ids than its files say,
            or has tokens that its model has no row of embeddings for.
    """
    where = str(folder_of(name) or name)
    with one_line(
        f"{name}: its tokenizer cannot be loaded",
        "check the name and the files, or save the tokenizer again",
    ):
        tokenizer_config = get_tokenizer_config(where, revision=revision)
        kind = tokenizer_config.get("tokenizer_class")
        stock = isinstance(kind, str) and tokenizer_class_from_name(kind) is not None
        refuse_code(name, tokenizer_config, stock)
        longest: object = tokenizer_config.get("model_max_length", 1)
        if not isinstance(longest, int | float) or longest < 1:
            raise DataError(
                f"{name}: tokenizer_config.json has model_max_length {longest!r}; write how many "
                "tokens the model reads, or delete it"
            )
        if file := _file(where, "tokenizer.json", revision):
            tokenizer = _as_stored(name, file, where, revision)
        else:
            tokenizer = _by_class(name, where, revision)
        if isinstance(tokenizer, PreTrainedTokenizerFast):
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        _check_roles(name, tokenizer)
        if config := _file(where, "config.json", revision):
            check_rows(name, tokenizer, _json(config).get("vocab_size"))
    return tokenizer


def padding_tokenizer(name: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint that reads texts of several lengths at once.

    Raises:
        DataError: there is none, it is broken, or it cannot pad.
        UnsupportedModelError: as `load_tokenizer`.
    """
    tokenizer = load_tokenizer(name, revision)
    if tokenizer.pad_token_id is None:
        raise DataError(f"{name}: its tokenizer has no padding token, so texts cannot be padded")
    return tokenizer


def stored_backend(file: Path) -> Tokenizer:
    """Read tokenizer.json; nothing is cut or padded."""
    backend = Tokenizer.from_file(str(file))
    backend.no_truncation()
    backend.no_padding()
    return backend


def check_saved(folder: Path, config: PreTrainedConfig | None = None) -> None:
    """Prove that AutoTokenizer gives the ids of a tokenizer.json that lingraft wrote.

    Args:
        folder: where it lies; nothing is proved of one without the file.
        config: of the model, whose type can decide the class; None takes the one in the folder.

    Raises:
        DataError: it gives others.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return
    stock = _stock(str(folder), None, config)
    if _unequal(stock, stored_backend(file)):
        raise DataError(
            f"{folder}: AutoTokenizer gives other ids than tokenizer.json, for transformers "
            f"loads a {type(stock).__name__} beside this config.json; choose a source whose "
            "family has no tokenizer class of its own, such as qwen3 or llama"
        )


def _as_stored(name: str, file: Path, where: str, revision: str | None) -> PreTrainedTokenizerBase:
    """Load tokenizer.json as it is, with what the class knows beside it."""
    state, backend = _json(file), stored_backend(file)
    _check_ids(name, state, backend)
    _check_reads(name, backend)
    try:
        known = _stock(where, revision)
    except Exception as error:
        logger.debug("%s: %s", name, error)
        known = None
    speaks = hasattr(known, "src_lang")  # the class alone puts a language's code around a text
    bare = speaks or backend.post_processor is None
    is_equal = known is not None and not _unequal(known, backend, special=not bare)
    if known is not None and is_equal and (speaks or type(known) is PreTrainedTokenizerFast):
        return known
    if speaks:
        raise UnsupportedModelError(
            f"{name}: {type(known).__name__} of transformers, which its languages need, gives "
            f"other ids than its tokenizer.json; save the tokenizer again, or {OTHER_MODEL}"
        )
    if not is_equal and type(known) is not PreTrainedTokenizerFast:
        kind = "no class of transformers loads it" if known is None else type(known).__name__
        _warn_once(
            f"{name}: its text is read as tokenizer.json says; AutoTokenizer of transformers gives "
            f"other ids ({kind}), so read it with PreTrainedTokenizerFast elsewhere too"
        )
    tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(
        where,
        revision=revision or "main",
        trust_remote_code=False,
        **_of_class(known, backend),
    )
    if backend.post_processor is None and isinstance(known, PreTrainedTokenizerFast):
        around = known("")["input_ids"]
        if around == tokenizer.convert_tokens_to_ids(known.convert_ids_to_tokens(around)):
            tokenizer.backend_tokenizer.post_processor = known.backend_tokenizer.post_processor
    if _unequal(tokenizer, backend, special=not bare):
        raise UnsupportedModelError(
            f"{name}: tokenizer_config.json changes the ids that its tokenizer.json gives; save "
            f"the tokenizer again, or {OTHER_MODEL}"
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
    try:
        tokenizer = _stock(where, revision)
    except ValueError as error:
        raise UnsupportedModelError(
            f"{name}: has no tokenizer.json, and transformers makes no tokenizer of its other "
            f"files; add it, or {OTHER_MODEL}"
        ) from error
    kind = type(tokenizer).__name__
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return tokenizer  # reads its files by their own library
    file = next((f for one in SENTENCEPIECE if (f := _file(where, one, revision))), None)
    if file is None:
        _warn_once(
            f"{name}: has no tokenizer.json; its text is read as {kind} of transformers does"
        )
        return tokenizer
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    for line in LINES:
        ids = tokenizer(line, add_special_tokens=False, verbose=False)["input_ids"]
        theirs = [
            tokenizer.unk_token if i == model.unk_id() else model.id_to_piece(i)
            for i in model.encode(line)
        ]
        if tokenizer.convert_ids_to_tokens(ids) != theirs:
            raise UnsupportedModelError(
                f"{name}: {kind} of transformers gives other pieces than {file.name}, and there "
                f"is no tokenizer.json; add it, or {OTHER_MODEL}"
            )
    return tokenizer


def _stock(
    where: str, revision: str | None, config: PreTrainedConfig | None = None
) -> PreTrainedTokenizerBase:
    """Load a tokenizer as other programs do, by the class that transformers chooses."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        where, revision=revision, trust_remote_code=False, config=config
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


def _check_ids(name: str, state: dict[str, Any], backend: Tokenizer) -> None:
    """Refuse a tokenizer.json with ids that `tokenizers` would change without a word.

    Raises:
        DataError: an added token would get another id, or two pieces share one.
    """
    for token in state["added_tokens"]:
        if (index := backend.token_to_id(token["content"])) != token["id"]:
            raise DataError(
                f"{name}: tokenizer.json puts '{token['content']}' at id {token['id']}, where its "
                f"vocabulary has it at {index}; put back the file that belongs to the model"
            )
    vocabulary = backend.get_vocab()
    if len({*vocabulary.values()}) < len(vocabulary):
        raise DataError(
            f"{name}: two pieces of tokenizer.json have the same id; put back the file that "
            "belongs to the model"
        )


def _check_roles(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a special token that is no token of the tokenizer.

    Raises:
        DataError: there is one.
    """
    ids = tokenizer.get_vocab()
    for role, token in tokenizer.special_tokens_map.items():
        if str(token) not in ids:
            raise DataError(
                f"{name}: tokenizer_config.json has {role} '{token}', which is no token of the "
                "tokenizer; correct it"
            )


def _check_reads(name: str, backend: Tokenizer) -> None:
    """Refuse a tokenizer that stops at text which its vocabulary lacks.

    Raises:
        UnsupportedModelError: its model names no unknown token, or one that is no piece.
    """
    try:
        backend.encode_batch([*LINES, EVERY_BYTE])
    except Exception as error:
        raise UnsupportedModelError(
            f"{name}: tokenizer.json has no unknown token ({error}), so text that its vocabulary "
            "lacks cannot be read; name there a piece that has a row of the model, or choose "
            "another model"
        ) from error


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


def _json(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _file(where: str, file: str, revision: str | None) -> Path | None:
    """Return a file of a checkpoint, downloaded where it is on the Hub; None where it has none."""
    found = cached_file(where, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    return None if found is None else Path(found)
