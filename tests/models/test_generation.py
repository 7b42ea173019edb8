"""Translations by stock encoder–decoders: batches and caches change speed, never a translation."""

from __future__ import annotations

import pytest
from tiny_tokenizers import build
from tiny_translators import varied

from lingraft.models import encoder_decoder
from lingraft.models.encoder_decoder import translate

TEXTS = [
    "Open the file.",
    "",
    "The quick brown fox jumps over the lazy dog, and the dog sleeps in the sun.",
    "나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다.",
    "   ",
    "A café",
    "Open the file.",
]
KINDS = ("bart", "t5", "encoder-decoder")


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_translation_depends_neither_on_its_batch_nor_on_the_cache(kind, beams):
    model, tokenizer = varied(kind), build("xlm-roberta")
    options = {"beams": beams, "max_new_tokens": 12}
    together = translate(model, tokenizer, TEXTS, batch_tokens=10_000, **options)
    alone = [translate(model, tokenizer, [text], **options)[0] for text in TEXTS]
    stock = [
        tokenizer.decode(
            model.generate(
                **tokenizer(text, return_tensors="pt"),
                num_beams=beams,
                max_new_tokens=12,
                do_sample=False,
            )[0],
            skip_special_tokens=True,
        )
        for text in filter(str.strip, TEXTS)
    ]
    model.generation_config.use_cache = False
    assert together == alone == translate(model, tokenizer, TEXTS, batch_tokens=60, **options)
    assert [text for text in together if text] == [" ".join(x.splitlines()).strip() for x in stock]
    assert len(set(together)) == 5  # four sentences and the empty one: no model that says one thing
    assert (together[0], together[1], together[4]) == (together[6], "", "")


def test_only_what_is_not_empty_reaches_the_model_and_every_line_is_counted():
    model, tokenizer = varied("bart"), build("xlm-roberta")
    sizes, done, stock = [], [], model.generate

    def seen(**given):
        sizes.append(tuple(given["input_ids"].shape))
        return stock(**given)

    model.generate = seen
    options = {"beams": 2, "max_new_tokens": 3, "batch_tokens": 60}
    translate(model, tokenizer, TEXTS, on_batch=done.append, **options)
    assert sum(rows for rows, _ in sizes) == 5
    assert all(rows == 1 or 2 * rows * width <= 60 for rows, width in sizes)
    assert [width for _, width in sizes] == sorted((width for _, width in sizes), reverse=True)
    assert sum(done) == len(TEXTS)
    assert translate(model, tokenizer, ["", " "]) == ["", ""]
    assert translate(model, tokenizer, []) == []


def test_length_comes_from_call_then_checkpoint_then_fairseq_and_never_passes_the_positions():
    def longest(model, asked=None):
        settings = encoder_decoder._settings(model, None, asked)
        return settings.max_new_tokens, settings.max_length

    model = varied("bart")
    model.generation_config.max_length = None
    assert longest(model) == (63, None)  # of 64 positions the first is the start token's
    assert longest(model, 7) == (7, None)
    model.generation_config.max_length = 20
    assert longest(model) == (None, 20)
    assert longest(varied("t5")) == (encoder_decoder.MOST_NEW_TOKENS, None)
    assert longest(varied("t5", max_new_tokens=9)) == (9, None)
    assert longest(varied("encoder-decoder")) == (63, None)


def test_settings_that_no_batch_can_have_are_left_out():
    own = {"prompt_lookup_num_tokens": 3, "max_time": 1e-9, "do_sample": True}
    own |= {"return_dict_in_generate": True, "penalty_alpha": 0.6, "num_beams": 5}
    model, tokenizer = varied("bart", **own).train(), build("xlm-roberta")
    found = translate(model, tokenizer, TEXTS, max_new_tokens=12)
    assert found == translate(varied("bart"), tokenizer, TEXTS, beams=5, max_new_tokens=12)
    assert model.training
    assert model.generation_config.prompt_lookup_num_tokens == 3
