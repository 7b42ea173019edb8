"""A pretrained translator: any stock encoder–decoder with its tokenizer and its languages.

It translates a text file line by line; a killed call goes on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForSeq2SeqLM

from lingraft import rundir
from lingraft.crosslingual.layers import fingerprint_of
from lingraft.devices import device_for
from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.files import check_output
from lingraft.models import encoder_decoder
from lingraft.pretrained.load import load_config, load_model
from lingraft.pretrained.tokenizers import padding_tokenizer
from lingraft.recipe import catalogue
from lingraft.tasks import reading
from lingraft.tokenizer.frame import languages, spelt, target_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from lingraft.crosslingual.settings import Decoding


@dataclass(frozen=True)
class Translator:
    """An encoder–decoder that is ready to translate."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    settings: Decoding

    @classmethod
    def load(cls, name: str, settings: Decoding) -> Translator:
        """Load a checkpoint, on a GPU if there is one.

        Args:
            name: directory or Hub id.
            settings: the languages must be the model's.

        Raises:
            DataError: the checkpoint is not there or broken, or its tokenizer cannot pad.
            RecipeError: it does not know a language.
            UnsupportedModelError: it is no encoder–decoder.
        """
        if not load_config(name).is_encoder_decoder:
            raise UnsupportedModelError(
                f"{name}: is no encoder–decoder; lingraft convert seq2seq makes one of an encoder"
            )
        tokenizer = padding_tokenizer(name)
        model, _ = load_model(AutoModelForSeq2SeqLM, name)
        _choose_languages(name, model, tokenizer, settings)
        # a special token that is spelt out in a text is text, as where the model was fine-tuned,
        # unless the prefix has one
        as_special, as_text = (
            tokenizer(settings.prefix, add_special_tokens=False, split_special_tokens=split)
            for split in (False, True)
        )
        tokenizer.split_special_tokens = as_special["input_ids"] == as_text["input_ids"]
        return cls(model.eval().to(device_for()), tokenizer, settings)

    def translate(
        self, texts: Sequence[str], on_batch: Callable[[int], object] | None = None
    ) -> list[str]:
        """Translate as `generation.translate`, with the prefix before texts that are not empty."""
        prefix = self.settings.prefix
        return encoder_decoder.translate(
            self.model,
            self.tokenizer,
            [prefix + text if text.strip() else "" for text in texts],
            beams=self.settings.beams,
            max_new_tokens=self.settings.max_new_tokens,
            batch_tokens=self.settings.batch_tokens,
            on_batch=on_batch,
        )


def _choose_languages(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: Decoding
) -> None:
    """Tell the tokenizer the source language, and `generate()` the target language.

    Raises:
        RecipeError: the tokenizer does not have one, or the checkpoint needs one and has none.
    """
    codes, decoding = languages(tokenizer), model.generation_config
    source, target = settings.source_language, settings.target_language
    starts = {decoding.forced_bos_token_id, decoding.decoder_start_token_id}
    has_source = tokenizer.init_kwargs.get("src_lang") is not None
    has_target = bool(starts & {*codes.values()})
    for key, code, is_known in (
        ("source_language", source, has_source),
        ("target_language", target, has_target),
    ):
        if (codes and not is_known) if code is None else code not in codes:
            raise RecipeError(
                f"{key}: '{name}' has {len(codes)} languages ({', '.join(list(codes)[:3])} …); "
                f"{'give one of them' if code is None else f'{code!r} is none of them'}"
            )
    if source is not None:
        tokenizer.src_lang = spelt(tokenizer, source)
    if target is not None:
        setattr(decoding, target_setting(tokenizer), codes[target])


def write(
    model: str, path: Path, out: Path, settings: Decoding, *, force: bool = False
) -> dict[str, Any]:
    """Translate a text, a line for a line.

    Args:
        model: directory, Hub id or name of any stock encoder–decoder.
        path: the text, also .gz .xz .bz2.
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
    where, text = catalogue.resolve(model), list(reading.lines(path))
    made_of = rundir.fingerprint(
        rundir.FORMAT["translation"],
        fingerprint_of(where),
        text,
        settings.model_dump(exclude={"batch_tokens"}),
    )
    translator = Translator.load(where, settings)
    started = time.monotonic()
    before = encoder_decoder.write_lines(text, translator.translate, out, made_of, "translate")
    speed = (len(text) - before) / max(time.monotonic() - started, 1e-9)
    empty = sum(not line for line in reading.lines(out))
    return {"lines": len(text), "empty": empty, "lines_per_second": speed}
