"""Translations: a source for the encoder, a target for the decoder.

B: pairs of a micro-batch, T and U: tokens of its longest source and target, M: target tokens of all
its pairs, D: width, V: vocabulary.
"""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lingraft.corpus.cleaning import scripts
from lingraft.errors import DataError, UnsupportedModelError
from lingraft.finetuning.coders.common import Coder, Item, padded
from lingraft.models.generation import check, translate
from lingraft.models.losses import IGNORED, summed_cross_entropy
from lingraft.tasks.examples import TranslationPrediction
from lingraft.tasks.translation_metrics import check_language, cuts_words, signatures
from lingraft.tokenizer.frame import languages, target_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from lingraft.finetuning.coders.common import Shape, TaskBatch
    from lingraft.tasks.examples import Prediction, TranslationExample
    from lingraft.tasks.task import Task

logger = logging.getLogger(__name__)

WRONG = 0.5
"""A training set in which more pairs than this have equal or swapped sides is not the one meant."""
SCRIPT_SHARE = 0.1
"""Least share of a text's letters that belong to its language's scripts."""
MOST_READ = 10_000
"""Pairs whose scripts are looked at, about: spread over the training set."""
MORE = 8
"""Tokens that a greedy translation may have above those of the longest reference."""


class TranslationCoder(Coder):
    """Coder of translations: the decoder reads start token and target, predicts target and end.

    A target is what the tokenizer makes of it, without the token that opens a text (unless the
    model is made to generate that one first), with the end token behind it.
    """

    head: ClassVar[str] = "translation"
    cut_ends: ClassVar[str] = "on a side; the loss does not count their ends, translations do"

    def __init__(self, task: Task, shape: Shape) -> None:
        super().__init__(task, shape)
        language = task.table.language
        said = signatures(task.metrics, language)  # asks for sacrebleu before anything is trained
        if "bleu" in said and not cuts_words(language):
            logger.info(
                "%s: BLEU of %s is a makeshift here (%s), for want of sacrebleu[ja], sacrebleu[ko] "
                "or its flores200; checkpoints are chosen by %s",
                task.name,
                language,
                said["bleu"],
                task.selection,
            )
        tokenizer, generation = shape.tokenizer, shape.generation
        self.start = generation.decoder_start_token_id
        end = generation.eos_token_id
        self.end = end[0] if isinstance(end, list) else end
        for key, value in (("decoder_start_token_id", self.start), ("eos_token_id", self.end)):
            if value is None:
                raise UnsupportedModelError(
                    f"'{tokenizer.name_or_path}': neither generation_config.json nor config.json "
                    f"has {key}; set it (the id of </s> where the model has no other)"
                )
        # with the beams of a check, and of the final scores
        check(tokenizer.name_or_path, generation, 1, task.settings.beams)
        first = generation.forced_bos_token_id
        self.language: tuple[str, int] | None = None
        self.comes_first: int | None = None
        codes = task.table.codes
        if codes or hasattr(tokenizer, "tgt_lang"):
            self.language = self._speak(codes)
            key, first = self.language
            if key == "decoder_start_token_id":
                self.start = first
            else:
                self.comes_first = first
        self.reader = copy.copy(tokenizer)  # of texts; the one that is saved stays as it is
        self.reader.split_special_tokens = True
        self.opening = {tokenizer.bos_token_id, tokenizer.cls_token_id} - {None, first}

    def _speak(self, codes: tuple[str, str] | None) -> tuple[str, int]:
        """Tell a tokenizer of many languages which two it reads.

        Returns:
            What `generate()` must be told of the target: a key of its settings, and a token.
        """
        tokenizer: Any = self.shape.tokenizer
        name = tokenizer.name_or_path
        if not hasattr(tokenizer, "tgt_lang"):
            raise UnsupportedModelError(
                f"{self.task.name}: codes are for tokenizers of many languages (mBART, M2M, NLLB), "
                f"and '{name}' is none; leave codes out"
            )
        if codes is None:
            raise UnsupportedModelError(
                f"{self.task.name}: '{name}' translates between many languages; say which two, as "
                'its tokenizer calls them: codes = ["en_XX", "ko_KR"]'
            )
        language_ids = languages(tokenizer)
        if not {*codes} <= {*language_ids}:
            raise UnsupportedModelError(
                f"{self.task.name}: codes {codes[0]!r} and {codes[1]!r} are not both languages of "
                f"'{name}'; write them as its tokenizer_config.json does"
            )
        tokenizer.src_lang, tokenizer.tgt_lang = codes
        # so that the tokenizer that is saved knows them
        tokenizer.init_kwargs |= dict(zip(("src_lang", "tgt_lang"), codes, strict=True))
        return target_setting(tokenizer), language_ids[codes[1]]

    def adapt(self, model: Any) -> None:
        """Have the model write in the target language, also after it is saved."""
        if self.language:
            setattr(model.generation_config, *self.language)

    def encode(self, examples: Sequence[TranslationExample]) -> list[Item]:
        """Encode each pair as one input, its ends cut where it is too long."""
        return list(map(self._cut, self._whole(examples)))

    def encode_training(self, examples: Sequence[TranslationExample]) -> list[Item]:
        """Encode pairs, without those that are too long, which a decoder must not see the end of.

        Raises:
            DataError: no pair is left, or most pairs have the same text on both sides, or the
                language of the translations on the other one.
        """
        copies = self._checked_sides(examples)
        right = [pair.translation for pair in examples[:MOST_READ]]
        check_language(self.task.table.language, right, f"{self.task.name}: language")
        whole = self._whole(examples)
        kept_items = [item for item in whole if max(self.size(item)) <= self.shape.max_length]
        if not kept_items:
            raise DataError(
                f"{self.task.name}: all {len(whole):,} training pairs are longer than "
                f"{self.shape.max_length} tokens; cut the text into sentences, or raise max_length"
            )
        if copies or len(kept_items) < len(whole):
            logger.warning(
                "%s train: %d of %d pairs have more than %d tokens on a side and are left out; %d "
                "have the same text on both sides",
                self.task.name,
                len(whole) - len(kept_items),
                len(whole),
                self.shape.max_length,
                copies,
            )
        return kept_items

    def _checked_sides(self, pairs: Sequence[TranslationExample]) -> int:
        """Count the pairs with the same text on both sides; refuse wrong columns."""
        copies = sum(pair.text == pair.translation for pair in pairs)
        wrong, total, what = copies, len(pairs), "the same text on both sides"
        if copies <= WRONG * total and (language := pairs[0].language) != "und":
            some, own = pairs[:: 1 + total // MOST_READ], scripts.of_language(language)
            _, of_sources = scripts.shares([pair.text for pair in some], own)
            _, of_targets = scripts.shares([pair.translation for pair in some], own)
            wrong = int(((of_targets < SCRIPT_SHARE) & (of_sources >= SCRIPT_SHARE)).sum())
            total, what = len(some), f"the script of language = {language!r} on the other side"
        if wrong > WRONG * total:
            raise DataError(
                f"{self.task.name}: {wrong:,} of {total:,} training pairs have {what}; check which "
                "columns are text and pair"
            )
        return copies

    def _whole(self, pairs: Sequence[TranslationExample]) -> list[Item]:
        sources = self.reader([pair.text for pair in pairs])["input_ids"]
        targets = self.reader(text_target=[pair.translation for pair in pairs])["input_ids"]
        return [
            Item(index, np.array(source), None, self._target(target), pair.text)
            for index, (pair, source, target) in enumerate(
                zip(pairs, sources, targets, strict=True)
            )
        ]

    def _target(self, ids: list[int]) -> np.ndarray[Any, Any]:
        ids = ids[1:] if ids and ids[0] in self.opening else ids
        ids = ids[:-1] if ids and ids[-1] == self.start != self.end else ids
        if self.comes_first is not None:  # NLLB's old templates put it behind the end
            ids = [self.comes_first, *(token for token in ids if token != self.comes_first)]
        return np.array(ids if ids and ids[-1] == self.end else [*ids, self.end])

    def _cut(self, item: Item) -> Item:
        longest = self.shape.max_length
        if max(self.size(item)) <= longest:
            return item
        encoded = self.reader([item.extra], truncation=True, max_length=longest)
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
        decoder_ids = [[self.start, *item.target[:-1]] for item in items]
        return {
            "labels": padded([item.target for item in items], longest),
            "decoder_input_ids": padded(decoder_ids, longest, self.shape.pad),
        }

    def run(self, model: Any, batch: TaskBatch) -> dict[str, Any]:
        """Compute logits [M, V]: states of padding do not reach the last matrix product."""
        labels_BU = batch.targets["labels"]
        places_M = (labels_BU != IGNORED).flatten().nonzero().squeeze(1)

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
        self,
        model: Any,
        items: Sequence[Item],
        places: Sequence[int],
        on_batch: Callable[[int], object],
        *,
        best: bool,
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
            [items[place].extra for place in places],
            beams=self.task.settings.beams if best else 1,
            max_new_tokens=limit,
            on_batch=on_batch,
        )

    def decode(
        self,
        examples: Sequence[TranslationExample],
        items: Sequence[Item],
        collected: Sequence[Any],
    ) -> list[Prediction]:
        """Return the texts that were generated."""
        return [
            TranslationPrediction(example.id, text)
            for example, text in zip(examples, collected, strict=True)
        ]
