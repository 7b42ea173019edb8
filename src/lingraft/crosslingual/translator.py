"""A pretrained translator: any stock encoder–decoder with its tokenizer and its languages.

It translates a text file line by line; a killed call goes on.
"""

from __future__ import annotations

import difflib
import logging
import sys
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForSeq2SeqLM

from lingraft import log, rundir
from lingraft.corpus.readers.lines import batched
from lingraft.crosslingual.layers import fingerprint_of
from lingraft.devices import device_for
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.files import check_output
from lingraft.locks import growing
from lingraft.models import generation
from lingraft.pretrained.load import load_config, load_model
from lingraft.pretrained.tokenizers import padding_tokenizer
from lingraft.recipe import catalogue
from lingraft.tasks import sentences
from lingraft.tokenizer.frame import languages, target_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """How texts are translated; None takes what the checkpoint says."""

    beams: int | None = None
    max_new_tokens: int | None = None
    batch_tokens: int = generation.BATCH_TOKENS
    source_language: str | None = None
    target_language: str | None = None
    prefix: str = ""
    """Stands before every text: the task in T5's words, the language of some Marian models. One
    with a special token lets special tokens in texts be such, too."""

    def identity(self) -> tuple[object, ...]:
        """What translations depend on."""
        languages = (self.source_language, self.target_language)
        return (self.beams, self.max_new_tokens, *languages, self.prefix)


@dataclass(frozen=True)
class Translator:
    """An encoder–decoder that is ready to translate."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    settings: Settings

    @classmethod
    def load(cls, name: str, settings: Settings) -> Translator:
        """Of a checkpoint, on a GPU if there is one.

        Args:
            name: directory or Hub id.
            settings: the languages must be the model's.

        Raises:
            DataError: the checkpoint is not there or broken, or its tokenizer cannot pad.
            RecipeError: it does not know a language.
            UnsupportedModelError: it is no encoder–decoder, or its generation_config.json asks for
                a way to decode that stock transformers does not have.
        """
        config = load_config(name)
        if type(config) not in AutoModelForSeq2SeqLM._model_mapping:
            raise UnsupportedModelError(
                f"{name}: is no encoder–decoder but a model of type '{config.model_type}'; "
                "lingraft convert seq2seq makes one of an encoder, which lingraft finetune "
                "then teaches to translate"
            )
        tokenizer = padding_tokenizer(name)
        model, _ = load_model(AutoModelForSeq2SeqLM, name)
        generation.check(name, model.generation_config, settings.beams)
        _choose_languages(name, model, tokenizer, settings)
        # a special token that is spelt out in a text is text, as where the model was fine-tuned
        tokenizer.split_special_tokens = not _holds_special_token(tokenizer, settings.prefix)
        return cls(model.eval().to(device_for()), tokenizer, settings)

    def translate(
        self, texts: Sequence[str], on_batch: Callable[[int], object] | None = None
    ) -> list[str]:
        """As `generation.translate`, with the prefix before every text that is not empty."""
        prefix = self.settings.prefix
        return generation.translate(
            self.model,
            self.tokenizer,
            [prefix + text if text.strip() else "" for text in texts],
            beams=self.settings.beams,
            max_new_tokens=self.settings.max_new_tokens,
            batch_tokens=self.settings.batch_tokens,
            on_batch=on_batch,
        )


def _holds_special_token(tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    ids, as_text = (
        tokenizer(text, add_special_tokens=False, split_special_tokens=split)["input_ids"]
        for split in (False, True)
    )
    return bool(ids != as_text)


def _choose_languages(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: Settings
) -> None:
    """Tell the tokenizer the source language, and `generate()` the target language.

    Raises:
        RecipeError: the tokenizer does not have one, or the checkpoint needs one and has none.
    """
    codes, decoding = languages(tokenizer), model.generation_config
    source, target = settings.source_language, settings.target_language
    if source is None and codes and tokenizer.init_kwargs.get("src_lang") is None:
        raise _no_language("source", name, codes)
    target_ids = {decoding.forced_bos_token_id, decoding.decoder_start_token_id} & {*codes.values()}
    if target is None and codes and not target_ids:
        raise _no_language("target", name, codes)
    if source is None and codes:
        logger.info("%s: reads %s, as its tokenizer says", name, tokenizer.src_lang)
    if source is not None:
        _check_language("source", source, name, codes)
        tokenizer.src_lang = source
    if target is not None:
        _check_language("target", target, name, codes)
        setattr(decoding, target_setting(tokenizer), codes[target])


def _no_language(side: str, name: str, codes: Mapping[str, int]) -> RecipeError:
    return RecipeError(
        f"--{side}-language: '{name}' translates between {len(codes)} languages and its files do "
        f"not say which; give one of its codes, such as {', '.join(list(codes)[:3])}"
    )


def _check_language(side: str, code: str, name: str, codes: Mapping[str, int]) -> None:
    if not codes:
        raise RecipeError(
            f"--{side}-language {code}: the tokenizer of '{name}' knows no languages; leave the "
            "option out, or tell the model by --prefix where it was trained so"
        )
    if code not in codes:
        close = difflib.get_close_matches(code, list(codes), n=3, cutoff=0.3)
        raise RecipeError(
            f"--{side}-language {code}: '{name}' does not know it; nearest of its {len(codes)} "
            f"codes: {', '.join(close or list(codes)[:3])}"
        )


BLOCK = 1_024
"""Lines that are sorted by length together, and kept together."""
STANDARD_INPUT = "-"


class Text:
    """Lines to translate, of a file, or of standard input or a pipe, which are read once and whole.

    Raises:
        DataError: it cannot be read, is not UTF-8, or holds no line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[str] | None = None
        if str(path) == STANDARD_INPUT:
            self._lines = list(_standard_input())
        elif not path.is_file():
            self._lines = list(sentences.lines(path))
        self.total = sum(1 for _ in self)
        if not self.total:
            raise DataError(f"{path}: holds no line; give a text with a sentence a line")

    def __iter__(self) -> Iterator[str]:
        return iter(sentences.lines(self.path) if self._lines is None else self._lines)

    def digest(self) -> str:
        """Of the content."""
        if self._lines is None:
            return rundir.digest(self.path)
        return rundir.fingerprint(self._lines)


def _standard_input() -> Iterator[str]:
    try:
        for number, line in enumerate(sys.stdin.buffer):
            yield line.decode("utf-8" if number else "utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(
            "-: standard input is not UTF-8; convert it: iconv -f ENCODING -t UTF-8"
        ) from None


def translations(translator: Translator, text: Text, done: int = 0) -> Iterator[list[str]]:
    """Blocks of translated lines, in order.

    Args:
        translator: is asked.
        text: all lines.
        done: so many of them are left out.
    """
    rest = islice(text, done, None)
    with log.progress("translate", text.total, "lines") as ticker:
        ticker.start_at(done)
        for block in batched(rest, BLOCK):
            yield translator.translate(block, ticker.advance)


def write(
    model: str, path: Path, out: Path, settings: Settings, *, force: bool = False
) -> dict[str, Any]:
    """Translate a text, a line for a line.

    Args:
        model: directory, Hub id or name of any stock encoder–decoder.
        path: the text, also .gz .xz .bz2 .zst, or "-" for standard input.
        out: the file of translations.
        settings: of decoding.
        force: replace a file that is there.

    Returns:
        lines, empty (of what lies in the file), lines_per_second (of what this call did).

    Raises:
        DataError: a file cannot be read, or `out` is there already or the text itself.
        RecipeError: the model does not know a language.
        UnsupportedModelError: it is no encoder–decoder.
    """
    check_output(out, [path], force=force)
    where, text = catalogue.resolve(model), Text(path)
    made_of = rundir.fingerprint(
        rundir.FORMAT["translation"], fingerprint_of(where), text.digest(), settings.identity()
    )
    translator = Translator.load(where, settings)
    started = time.monotonic()
    with growing(out, made_of, BLOCK) as (file, before):
        if before:
            logger.info("%s: goes on after %s lines", out, f"{before:,}")
        for block in translations(translator, text, before):
            file.write("".join(f"{line}\n" for line in block).encode())
            file.flush()
    speed = (text.total - before) / max(time.monotonic() - started, 1e-9)
    empty = sum(not line for line in sentences.lines(out))
    return {"lines": text.total, "empty": empty, "lines_per_second": speed}
