"""Translations by stock encoder–decoders: batches and caches change speed, never a translation."""

from __future__ import annotations

import pytest
from tiny_tokenizers import build
from tiny_translators import varied

from lingraft.errors import UnsupportedModelError
from lingraft.models import generation
from lingraft.models.generation import translate

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
        assert isinstance(given["past_key_values"], generation.SentenceCache)
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
        settings = generation._settings(model, None, asked)
        return settings.max_new_tokens, settings.max_length

    model = varied("bart")
    model.generation_config.max_length = None
    assert longest(model) == (63, None)  # of 64 positions the first is the start token's
    assert longest(model, 7) == (7, None)
    model.generation_config.max_length = 20
    assert longest(model) == (None, 20)
    assert longest(varied("t5")) == (generation.MOST_NEW_TOKENS, None)
    assert longest(varied("t5", max_new_tokens=9)) == (9, None)
    assert longest(varied("encoder-decoder")) == (63, None)


def test_sampling_of_the_checkpoint_is_off_and_its_beams_are_kept():
    model = varied("t5", do_sample=True, num_beams=5)
    settings = generation._settings(model, None, None)
    assert (settings.do_sample, settings.num_beams) == (False, 5)
    assert model.generation_config.do_sample


def test_a_checkpoint_that_wants_more_than_ids_of_generate_translates_too():
    plain, more = varied("bart"), varied("bart", return_dict_in_generate=True)
    options = {"beams": 2, "max_new_tokens": 3}
    found = translate(more, build("xlm-roberta"), TEXTS, **options)
    assert found == translate(plain, build("xlm-roberta"), TEXTS, **options)


def test_a_text_that_is_too_long_is_cut_and_said(caplog):
    model, tokenizer = varied("encoder-decoder"), build("xlm-roberta")
    long = " ".join(["file"] * 400)
    found = translate(model, tokenizer, [long, "file"], beams=1, max_new_tokens=3)
    assert "1 of 2 texts have more than the 64 tokens" in caplog.text
    assert found == translate(model, tokenizer, [long + " more", "file"], beams=1, max_new_tokens=3)


def test_no_translation_holds_a_line_break_and_the_mode_of_the_model_is_kept():
    model, tokenizer = varied("bart"), build("xlm-roberta")
    model.train()
    tokenizer = _Breaking(tokenizer)
    assert translate(model, tokenizer, ["Open"], beams=1, max_new_tokens=2) == ["a b c"]
    assert model.training


class _Breaking:
    """A tokenizer whose pieces hold line breaks."""

    def __init__(self, tokenizer):
        self.stock = tokenizer

    def __getattr__(self, name):
        return getattr(self.stock, name)

    def __call__(self, *arguments, **options):
        return self.stock(*arguments, **options)

    def batch_decode(self, ids, **options):
        return [" a\nb\u2028c\n" for _ in ids]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_no_batch_can_have_are_left_out_and_said(kind, caplog):
    own = {"prompt_lookup_num_tokens": 3, "is_assistant": True, "max_time": 1e-9, "use_mtp": True}
    model, tokenizer = varied(kind, **own), build("xlm-roberta")
    generation.check("m", model.generation_config, 1)
    left_out = "prompt_lookup_num_tokens, is_assistant, use_mtp, max_time"
    assert caplog.messages[-1].endswith(f"translated in batches: {left_out}")
    options = {"beams": 1, "max_new_tokens": 12}
    assert translate(model, tokenizer, TEXTS, **options) == translate(
        varied(kind), tokenizer, TEXTS, **options
    )
    assert model.generation_config.prompt_lookup_num_tokens == 3


def test_a_checkpoint_that_stops_at_strings_stops_there():
    tokenizer, options = build("xlm-roberta"), {"beams": 1, "max_new_tokens": 12}
    plain = translate(varied("bart"), tokenizer, TEXTS, **options)
    letter = max("".join(plain).replace(" ", ""), key="".join(plain).count)
    stopped = translate(varied("bart", stop_strings=[letter]), tokenizer, TEXTS, **options)
    assert stopped != plain
    assert all(map(str.startswith, plain, stopped))


@pytest.mark.parametrize(
    ("own", "beams", "key"),
    [
        ({"penalty_alpha": 0.6, "top_k": 4}, 1, "penalty_alpha"),
        ({"num_beam_groups": 2, "diversity_penalty": 0.5}, 4, "num_beam_groups"),
        ({"force_words_ids": [[5]]}, 4, "force_words_ids"),
        ({"dola_layers": "low"}, 1, "dola_layers"),
        ({"guidance_scale": 1.5}, 4, "guidance_scale"),
    ],
)
def test_ways_to_decode_that_are_not_stock_are_refused(own, beams, key):
    generation_config = varied("t5", **own).generation_config
    with pytest.raises(UnsupportedModelError, match=f"^m: generation_config.json has {key}, "):
        generation.check("m", generation_config, beams)
    generation.check("m", varied("t5", num_beam_groups=1, guidance_scale=1).generation_config, 4)
