"""The target language's tokenizer, of the source's own kind, in files that transformers loads.

Training is deterministic across processes, which is why it does not use the Unigram and WordPiece
trainers of `tokenizers`: their results change from run to run. Unigram pieces come from
`sentencepiece` on one thread; WordPiece pieces from byte-pair merges with the `##` prefix, all
characters given in sorted order.

Text loses invisible characters, as in the corpus stage, and is brought into NFC (or NFKC); it is
never lower-cased, never stripped of accents.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any, cast

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from lingraft.corpus.cleaning.clean import INVISIBLE_CHARACTERS
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.files import write_json, writing
from lingraft.pretrained.checkpoints import folder_of, place_of
from lingraft.pretrained.tokenizers import SETTINGS, load_tokenizer
from lingraft.rundir import read_json
from lingraft.tokenizer.algorithms import check_size, train_model
from lingraft.tokenizer.frame import (
    ROLES,
    Frame,
    default_frame,
    frame_of,
    put_around,
    special_ids,
)
from lingraft.tokenizer.merges import Sample
from lingraft.tokenizer.state import (
    BYTE_OF,
    Kind,
    holds_tokenizer,
    kind_of_state,
    merges_are_lost,
    steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

    from lingraft import recipe

logger = logging.getLogger(__name__)

TRAINED = ("unigram", "byte-bpe", "wordpiece")
"""Kinds of a vocabulary that follows no source."""

# GPT-2's pattern cuts a word at every vowel sign of Devanagari, Thai or Tamil, because those are
# marks (\p{M}) and not letters; here a word is letters and marks, and the joiners between them,
# with which Persian, Mongolian and the scripts of India spell.
WORDS = (
    r" ?[\p{L}\p{M}][\p{L}\p{M}\x{180E}\x{200C}\x{200D}]*|"
    r" ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
)
# Qwen 3.5's, for causal models: llama.cpp knows it by a name. It drops no invisible characters.
CAUSAL_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def kind_of(tokenizer: PreTrainedTokenizerBase) -> Kind:
    """Return the algorithm of a tokenizer, from its model and pre-tokenizer.

    Raises:
        UnsupportedModelError: it is none of the four, or has no `tokenizers` backend.
    """
    return kind_of_state(state_of(fast(tokenizer)))


def lower_cases(tokenizer: PreTrainedTokenizerFast) -> bool:
    """Return whether the tokenizer lower-cases its text."""
    normalisers = steps(state_of(tokenizer)["normalizer"])
    return any(step["type"] == "Lowercase" or step.get("lowercase", False) for step in normalisers)


def train(
    section: recipe.Tokenizer,
    source: PreTrainedTokenizerBase | None,
    sentences: Callable[[], Iterable[str]],
    *,
    pad_id: int | None,
    seed: int,
    causal: bool = False,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer on the target language's text.

    Args:
        section: algorithm, size, normalisation, coverage and how many sentences to train on.
        source: the source model's tokenizer, whose special tokens (strings, roles, order), sentence
            templates, model inputs and maximal length are taken over; None to train from nothing,
            then `section.algorithm` must be given.
        sentences: gives the training text anew at each call, a sentence a string; it is read two to
            four times.
        pad_id: the id that the padding token must get, because position rows depend on it; None
            where it does not matter.
        seed: decides which sentences are taken where there are more than
            `section.max_train_sentences`.
        causal: whether it is for a causal model, whose texts have no token behind them.

    Returns:
        A tokenizer with at most `section.vocab_size` pieces; fewer (and a line in the log) where
        the text has no more.

    Raises:
        RecipeError: `vocab_size` is too small for the text's characters.
        DataError: there is no text.
        UnsupportedModelError: the source tokenizer lacks a special token.
    """
    kind = cast("Kind", section.algorithm)
    if source is None:
        frame = default_frame(kind, causal=causal)
    else:
        kind = kind_of(source) if section.algorithm == "source" else kind
        frame = frame_of(fast(source), causal=causal, kind=kind)
        if kind == "byte-bpe" != kind_of(source):  # BERT has no space that a mask could take along
            frame = dataclasses.replace(frame, stripping=frame.roles.get("mask_token"))
    frame = frame.with_pad_at(pad_id)
    sample = Sample(sentences, section.max_train_sentences, seed)
    backend = _backend(kind, section, frame, sample, CAUSAL_WORDS if causal else WORDS)
    made = _wrap(backend, kind, frame, {} if source is None else _sides(source))
    check_size(len(made), section)
    if len(made) < section.vocab_size:
        logger.info("tokenizer: the text gives %d of %d pieces", len(made), section.vocab_size)
    return made


def _backend(
    kind: Kind, section: recipe.Tokenizer, frame: Frame, sample: Sample, pattern: str
) -> Tokenizer:
    form: Any = normalizers.NFC() if section.normalization == "nfc" else normalizers.NFKC()
    # The corpus stage leaves none of these in the text that is learnt from.
    visible = normalizers.Replace(Regex(f"[{INVISIBLE_CHARACTERS}]"), "")
    pre_tokenizer: Any
    decoder: Any
    if kind == "unigram":
        spaces = normalizers.Replace(Regex(r"\s+"), " ")
        end = normalizers.Strip(left=False, right=True)
        normaliser = normalizers.Sequence([visible, form, spaces, end])
        # Not "always" as XLM-R: what follows <mask> without a space is then no word start.
        pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        decoder = decoders.Metaspace(prepend_scheme="first")
    elif kind == "byte-bpe":
        normaliser = form if pattern == CAUSAL_WORDS else normalizers.Sequence([visible, form])
        words = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        pre_tokenizer = pre_tokenizers.Sequence([words, in_bytes])
        decoder = decoders.ByteLevel()
    else:
        stock = normalizers.BertNormalizer(
            clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
        )
        normaliser = normalizers.Sequence([visible, form, stock])
        pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        decoder = decoders.WordPiece(prefix="##", cleanup=True)
    model = train_model(kind, sample, normaliser, pre_tokenizer, section, frame)
    backend = Tokenizer(model)
    backend.normalizer, backend.pre_tokenizer, backend.decoder = normaliser, pre_tokenizer, decoder
    return backend


def _sides(source: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return the sides on which a tokenizer pads and cuts, as settings; right ones are left out."""
    sides = {"padding_side": source.padding_side, "truncation_side": source.truncation_side}
    return {key: side for key, side in sides.items() if side != "right"}


def _wrap(
    backend: Tokenizer, kind: Kind, frame: Frame, sides: dict[str, Any]
) -> PreTrainedTokenizerFast:
    added = {
        token: AddedToken(token, special=True, normalized=False, lstrip=token == frame.stripping)
        for token in (*frame.tokens, *frame.last)
    }
    backend.add_special_tokens(list(added.values()))
    template: Any = processors.TemplateProcessing(
        single=list(frame.single),
        pair=list(frame.pair),
        special_tokens=[(token, backend.token_to_id(token)) for token in added],
    )
    if kind == "byte-bpe":  # offsets of a word leave out the space before it, as in RoBERTa
        offsets = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
        template = processors.Sequence([offsets, template])
    backend.post_processor = template
    roles = {role: added[token] for role, token in frame.roles.items()}
    return _tokenizer(backend, frame.input_names, frame.max_length, sides | roles)


def _tokenizer(
    backend: Tokenizer, inputs: Sequence[str], longest: int, settings: dict[str, Any]
) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=list(inputs),
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
        **settings,
    )


def wrapped(
    state: dict[str, Any], source: PreTrainedTokenizerBase, inputs: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """Wrap a backend as a tokenizer with the source's special tokens, inputs and length.

    Args:
        state: what tokenizer.json is to hold.
        source: has the rest.
        inputs: what the model reads, where it is another's.
    """
    by_id, vocabulary = source.added_tokens_decoder, source.get_vocab()
    roles = {
        role: by_id[vocabulary[str(token)]]
        for role, token in source.special_tokens_map.items()
        if role in ROLES
    }
    chat = {"chat_template": source.chat_template} if source.chat_template else {}
    backend, reads = Tokenizer.from_str(json.dumps(state)), inputs or source.model_input_names
    settings = _sides(source) | chat | roles
    return _tokenizer(backend, reads, source.model_max_length, settings)


def save(tokenizer: PreTrainedTokenizerBase, path: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json; transformers 4.57 and 5 both load them.

    Transformers 5 writes the class name "TokenizersBackend", which 4.57 does not know; both know
    "PreTrainedTokenizerFast". A tokenizer that knows languages or has no tokenizer.json keeps its
    class: others would build their pipelines and templates anew when they are loaded.
    """
    if isinstance(tokenizer, PreTrainedTokenizerFast):
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    with writing(path):
        tokenizer.save_pretrained(path)
    config_path = path / "tokenizer_config.json"
    own = getattr(tokenizer, "lang_code_to_id", ())
    if own and tokenizer.src_lang not in own:  # mBART-50's class would not load it
        write_json(config_path, read_json(config_path) | {"src_lang": None})
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or hasattr(tokenizer, "src_lang"):
        return
    config = read_json(config_path)
    for key in ("backend", "is_local", "local_files_only"):
        config.pop(key, None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    write_json(config_path, config)


class StandIn(PreTrainedTokenizerFast):
    """Pieces, ids and special tokens of a tokenizer that has no tokenizer.json.

    It cuts a word into its longest pieces, and not as that one does.
    """


def stand_in(slow: PreTrainedTokenizerBase) -> StandIn:
    """Let a tokenizer that Python code alone knows serve where a new vocabulary is made.

    Its own code says where a piece stands in a text, behind a letter and before one. Of two pieces
    of one text that both begin a word (PhoBERT's 'ch@@' and 'ch') the second continues words.
    """
    ids, special = slow.get_vocab(), special_ids(slow)
    spelt = {piece: index for piece, index in ids.items() if index in special}
    backend = Tokenizer(models.BPE(spelt, []))
    if isinstance(slow, ByT5Tokenizer):
        backend.model = models.BPE(spelt | {c: ids[chr(b)] for c, b in BYTE_OF.items()}, [])
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    else:
        x = min((p for p in ids if p.isascii() and p.isalpha()), key=len, default="x")
        for piece, index in sorted(ids.items(), key=lambda entry: entry[1]):
            text = slow.convert_tokens_to_string([x, piece, x])[len(x) : -len(x)]
            marks = ("", "##") if text.startswith(" ") else ("##",)
            forms = [mark + text.strip() for mark in marks if text.strip()]
            form = next((form for form in forms if form not in spelt), f"[unused{index}]")
            spelt |= {form: index} if index not in special else {}
        backend.model = models.WordPiece(spelt, unk_token=str(slow.unk_token))
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    added = slow.added_tokens_decoder
    tokens = {index: str(slow.convert_ids_to_tokens(index)) for index in sorted(special)}
    backend.add_special_tokens([added.get(index, token) for index, token in tokens.items()])
    tokens, templates = tokens | {-1: "$A", -2: "$B"}, []
    for texts in ([[-1]], [[-1], [-2]]):
        around = slow.build_inputs_with_special_tokens(*texts)
        types = slow.create_token_type_ids_from_sequences(*texts)
        templates.append([f"{tokens[i]}:{kind}" for i, kind in zip(around, types, strict=True)])
    put_around(backend, *templates)
    like = wrapped(json.loads(backend.to_str()), slow)
    return StandIn(tokenizer_object=like.backend_tokenizer, **like.init_kwargs)


def load(
    path_or_id: str | Path, revision: str | None = None, *, may_stand_in: bool = False
) -> PreTrainedTokenizerFast:
    """Load a tokenizer from a directory or the Hub.

    Args:
        path_or_id: where it is.
        revision: on the Hub.
        may_stand_in: whether pieces and special tokens are enough (`stand_in`).

    Raises:
        DataError: it is missing or broken.
        UnsupportedModelError: it has no `tokenizers` backend, or needs Python code of its own.
    """
    name, revision, _ = place_of(str(path_or_id), revision, own=SETTINGS)
    folder = folder_of(name)
    if folder and not (holds_tokenizer(folder) or (folder / SETTINGS).is_file()):
        raise DataError(f"{folder}: has no tokenizer; save the model's there with save_pretrained")
    loaded = load_tokenizer(name, revision)
    if may_stand_in and not isinstance(loaded, PreTrainedTokenizerFast):
        return stand_in(loaded)
    tokenizer = fast(loaded)
    is_bpe = isinstance(tokenizer.backend_tokenizer.model, models.BPE)
    if is_bpe and merges_are_lost(state_of(tokenizer)):
        raise UnsupportedModelError(
            f"{path_or_id}: its tokenizer has lost its merges; put back the tokenizer.json that "
            "belongs to the model"
        )
    return tokenizer


def plain_backend(tokenizer: PreTrainedTokenizerFast, *, special: bool = False) -> Tokenizer:
    """Copy the backend: nothing cut or padded; a literal "<mask>" is text, or `special`."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = not special
    return backend


def name_of(backend: Tokenizer) -> str:
    """Return a hash of all that decides how a tokenizer cuts raw text (`plain_backend`)."""
    return hashlib.blake2b(backend.to_str().encode(), digest_size=8).hexdigest()


def fast(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    """Return the same tokenizer; refuse one without a `tokenizers` backend.

    Raises:
        UnsupportedModelError: it has no `tokenizers` backend.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise UnsupportedModelError(
            f"{tokenizer.name_or_path}: its tokenizer is {type(tokenizer).__name__}, which has no "
            "tokenizer.json; choose a model with one, such as FacebookAI/xlm-roberta-base, or make "
            'a new vocabulary (tokenizer.algorithm="unigram"; of no causal model)'
        )
    return tokenizer


def state_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return the content of its tokenizer.json, as a copy; nothing is cut or padded."""
    state: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return state | {"truncation": None, "padding": None}
