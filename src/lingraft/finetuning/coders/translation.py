"""Translations: a source for the encoder, a target for the decoder.

B: pairs of a micro-batch, T and U: tokens of its longest source and target, M: target tokens of all
its pairs, D: width, V: vocabulary.
"""

from __future__ import annotations

import copy
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.finetuning.coders.common import Coder, Item, padded
from lingraft.models.encoder_decoder import translate
from lingraft.models.losses import IGNORED, summed_cross_entropy
from lingraft.tasks.examples import TranslationPrediction
from lingraft.tasks.translation_metrics import check_language, signatures
from lingraft.tokenizer.frame import languages, spelt, target_setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lingraft.finetuning.coders.common import InputShape, TaskBatch
    from lingraft.tasks.examples import Prediction, TranslationExample
    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

MOST_READ = 10_000
"""Pairs whose script is looked at."""
MORE = 8
"""Tokens that a greedy translation may have above those of the longest reference."""


class TranslationCoder(Coder):
    """Coder of translations: the decoder reads start token and target, predicts target and end.

    A target is what the tokenizer makes of it, without the token that opens a text (unless the
    model is made to generate that one first), with the end token behind it.
    """

    head: ClassVar[str] = "translation"

    def __init__(self, task: Task, shape: InputShape) -> None:
        super().__init__(task, shape)
        signatures(task.metrics, task.table.language)  # asks for sacrebleu before training
        tokenizer, generation = shape.tokenizer, shape.generation
        self.start = generation.decoder_start_token_id
        end = generation.eos_token_id
        self.end = end[0] if isinstance(end, list) else end
        if self.start is None or self.end is None:
            raise UnsupportedModelError(
                f"'{tokenizer.name_or_path}': set decoder_start_token_id and eos_token_id"
            )
        first = generation.forced_bos_token_id
        self.language: tuple[str, int] | None = None
        self.reader = tokenizer
        self.codes = task.table.codes
        if self.codes or hasattr(tokenizer, "tgt_lang"):
            self.language = self._speak(self.codes)
            self.start, _ = self._beginning(self.language)
            first = self.language[1]
            # so that the tokenizer that is saved knows them
            spoken = {"src_lang": tokenizer.src_lang, "tgt_lang": tokenizer.tgt_lang}
            tokenizer.init_kwargs |= spoken
        self.reader = copy.copy(tokenizer)  # of texts; the one that is saved stays as it is
        self.reader.split_special_tokens = True
        self.opening = {tokenizer.bos_token_id, tokenizer.cls_token_id} - {None, first}

    def _speak(self, codes: tuple[str, str] | None) -> tuple[str, int]:
        """Tell a tokenizer of many languages which two it reads.

        Returns:
            What `generate()` must be told of the target: a key of its settings, and a token.
        """
        tokenizer: Any = self.reader
        language_ids = languages(tokenizer) if hasattr(tokenizer, "tgt_lang") else {}
        if codes is None or not {*codes} <= {*language_ids}:
            raise UnsupportedModelError(
                f"{self.task.name}: codes = {codes} are not two languages of the tokenizer of "
                f"'{tokenizer.name_or_path}'; name them as it does, or leave them out if it has one"
            )
        tokenizer.src_lang, tokenizer.tgt_lang = (spelt(tokenizer, code) for code in codes)
        return target_setting(tokenizer), language_ids[codes[1]]

    def _beginning(self, language: tuple[str, int]) -> tuple[int, int | None]:
        """Return what the decoder starts with, and what it generates first, if that is forced."""
        key, token = language
        return (token, None) if key == "decoder_start_token_id" else (self.start, token)

    def adapt(self, model: Any) -> None:
        """Have the model write in the target language, also after it is saved."""
        if self.language:
            setattr(model.generation_config, *self.language)

    def encode(self, examples: Sequence[TranslationExample]) -> list[Item]:
        """Encode each pair as one input, its ends cut where it is too long.

        Raises:
            DataError: a pair has a direction of its own, which only training reads.
        """
        if any(pair.codes for pair in examples):
            raise DataError(f"{self.task.name}: text_code and pair_code are for the training file")
        return list(map(self._cut, self._whole(examples)))

    def encode_training(self, examples: Sequence[TranslationExample]) -> list[Item]:
        """Encode pairs, without those that are too long, which a decoder must not see the end of.

        Raises:
            DataError: no pair is left, or the translations are not of the task's language.
        """
        own = [pair.translation for pair in examples if not pair.codes]
        if {*self.task.metrics} - {"chrf"}:  # which cuts no words
            where = f"{self.task.name}: language"
            check_language(self.task.table.language, own[:MOST_READ], where)
        whole = self._whole(examples)
        name, longest = self.task.name, self.shape.max_length
        kept_items = [item for item in whole if max(self.size(item)) <= longest]
        if not kept_items:
            raise DataError(f"{name}: all training pairs are longer than max_length={longest}")
        if long := len(whole) - len(kept_items):
            logger.warning("%s: %d pairs of more than %d tokens are left out", name, long, longest)
        return kept_items

    def _whole(self, pairs: Sequence[TranslationExample]) -> list[Item]:
        directions: dict[Any, list[tuple[int, TranslationExample]]] = defaultdict(list)
        for index, pair in enumerate(pairs):
            directions[pair.codes or self.codes].append((index, pair))
        items = []
        for codes, rows in directions.items():
            start, first = self._beginning(self._speak(codes)) if codes else (self.start, None)
            sources = self.reader([pair.text for _, pair in rows])["input_ids"]
            targets = self.reader(text_target=[pair.translation for _, pair in rows])["input_ids"]
            for (index, pair), source, target in zip(rows, sources, targets, strict=True):
                target_ids = self._target(target, start, first)
                items.append(Item(index, np.array(source), None, target_ids, (pair.text, start)))
        if self.codes:
            self._speak(self.codes)  # of what is read, and written, next
        return sorted(items, key=lambda item: item.example)

    def _target(self, ids: list[int], start: int, first: int | None) -> np.ndarray[Any, Any]:
        ids = ids[1:] if ids and ids[0] in self.opening else ids
        ids = ids[:-1] if ids and ids[-1] == start != self.end else ids
        if first is not None:  # NLLB's old templates put it behind the end
            ids = [first, *(token for token in ids if token != first)]
        return np.array(ids if ids and ids[-1] == self.end else [*ids, self.end])

    def _cut(self, item: Item) -> Item:
        longest = self.shape.max_length
        if max(self.size(item)) <= longest:
            return item
        encoded = self.reader([item.extra[0]], truncation=True, max_length=longest)
        ids = np.array(encoded["input_ids"][0])
        return Item(item.example, ids, None, item.target[:longest], item.extra, cut=True)

    def size(self, item: Item) -> tuple[int, ...]:
        """Count the tokens of source and target."""
        return len(item.ids), len(item.target)

    def count(self, item: Item) -> int:
        """Count the tokens of the target, its end included."""
        return len(item.target)

    def targets(self, items: Sequence[Item], width: int) -> dict[str, Tensor]:
        """Return what is predicted, and what the decoder reads, [B, U] each."""
        longest = max(len(item.target) for item in items)
        decoder_ids = [[item.extra[1], *item.target[:-1]] for item in items]
        return {
            "labels": padded([item.target for item in items], longest),
            "decoder_input_ids": padded(decoder_ids, longest, self.shape.pad),
        }

    def run(self, model: Any, batch: TaskBatch) -> dict[str, Any]:
        """Compute logits [M, V]: states of padding do not reach the last matrix product."""
        places_M = (batch.targets["labels"] != IGNORED).flatten().nonzero().squeeze(1)

        def real(_: Any, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (states[0].flatten(0, 1).index_select(0, places_M),)

        hook = model.get_output_embeddings().register_forward_pre_hook(real)
        try:
            decoder_ids_BU = batch.targets["decoder_input_ids"]
            outputs = model(**batch.inputs, decoder_input_ids=decoder_ids_BU, use_cache=False)
        finally:
            hook.remove()
        smoothing = self.task.settings.label_smoothing if model.training else 0.0
        return {"logits": outputs.logits, "places": places_M, "smoothing": smoothing}

    def loss(self, outputs: Any, targets: dict[str, Tensor]) -> Tensor:
        """Return Σ over tokens of (1−ε)·nll + ε/V·Σ_v −log p_v (fairseq); ε = 0 in evaluation."""
        gold_M = targets["labels"].flatten().index_select(0, outputs["places"])
        return summed_cross_entropy(outputs["logits"], gold_M, outputs["smoothing"])

    def collect(self, outputs: Any, items: Sequence[Item]) -> list[Any]:
        """Return nothing: what the decoder says of a right beginning is no translation."""
        return [None] * len(items)

    def generate(
        self, model: Any, items: Sequence[Item], places: Sequence[int], on_batch: Any, *, best: bool
    ) -> list[Any]:
        """Translate the sources: greedily, or for `best` with a beam.

        A greedy one ends a little above the split's longest reference, whichever process has that:
        untrained models find no end.
        """
        limit = self.shape.max_length
        if not best:
            limit = min(limit, max(map(self.count, items), default=0) + MORE)
        return translate(
            model,
            self.reader,
            [items[place].extra[0] for place in places],
            beams=self.task.settings.beams if best else 1,
            max_new_tokens=limit,
            on_batch=on_batch,
        )

    def answer(self, example: Any, parts: Sequence[tuple[Item, Any]]) -> Prediction:
        """Return the text that was generated."""
        ((_, text),) = parts
        return TranslationPrediction(example.id, text)
