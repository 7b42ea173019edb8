"""An encoder–decoder from an encoder's weights: what comes from where, and the stock format.
Translations: batches and caches change speed, never a translation."""

from __future__ import annotations

import pytest
import torch
from tiny_tokenizers import build
from tiny_translators import varied
from transformers import AutoModelForSeq2SeqLM

from lingraft.models import cross_attention, encoder_decoder, loading
from lingraft.models.encoder_decoder import kept_layers, make, tie_embeddings, translate
from lingraft.models.families import FAMILIES

DEPTH = 4
every_family = pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra"])


@pytest.fixture(scope="module")
def source(tiny_model, tiny_tokenizer, tmp_path_factory):
    """The folder of an encoder of four layers with cross-attention that matters."""
    made = {}

    def saved(family, *, plain=False):
        if (family, plain) not in made:
            folder = made[family, plain] = tmp_path_factory.mktemp(family)
            model = tiny_model(family, num_hidden_layers=DEPTH)
            if not plain:
                cross_attention.insert(model, FAMILIES[family], DEPTH)
            loading.save(model, folder)
            tiny_tokenizer(family).save_pretrained(folder)
        return made[family, plain]

    return saved


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    """An encoder–decoder's folder, made once for each family."""
    made = {}

    def folder(family="xlm-roberta"):
        if family not in made:
            made[family] = tmp_path_factory.mktemp("made") / "model"
            make(str(source(family)), made[family], decoder_layers=3)
        return made[family]

    return folder


def stock(folder):
    """The model that stock transformers opens, and what it says of the loading."""
    model, info = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    return model.eval(), {key: value for key, value in info.items() if value}


def inputs(size=300):
    ids = torch.randint(5, size, (2, 4, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(4, 9, dtype=torch.long)
    mask[1, 6:] = 0
    return {"input_ids": ids[0], "attention_mask": mask, "decoder_input_ids": ids[1]}


@every_family
def test_each_decoder_layer_is_the_layer_that_is_kept(family, source, built):
    theirs = loading.load(str(source(family)))[0].state_dict()
    model, strays = stock(built(family))
    assert strays == {}
    ours, layers = model.state_dict(), FAMILIES[family].layers
    seen, kept = 0, kept_layers(DEPTH, 3)
    assert (kept, kept_layers(24, None)) == ([1, 2, 3], [18, 19, 20, 21, 22, 23])
    for name, tensor in ours.items():
        if name.startswith(f"decoder.{layers}."):
            index, _, rest = name.removeprefix(f"decoder.{layers}.").partition(".")
            assert torch.equal(tensor, theirs[f"{layers}.{kept[int(index)]}.{rest}"]), name
            seen += 1
        elif name.startswith("decoder."):
            assert torch.equal(tensor, theirs[name.removeprefix("decoder.")]), name
    assert seen == 3 * 26


@torch.no_grad()
@every_family
def test_the_states_of_the_encoder_are_the_source_s_bit_for_bit(family, source, built):
    encoder, given = loading.load(str(source(family)))[0], inputs()
    del given["decoder_input_ids"]
    expected = encoder.base_model(**given).last_hidden_state
    states = stock(built(family))[0].get_encoder()(**given).last_hidden_state
    assert torch.equal(states, expected)


def test_tied_embeddings_are_trained_as_one_and_saved_as_two(built, tmp_path):
    model = stock(built())[0]
    before = sum(parameter.numel() for parameter in model.parameters())
    assert tie_embeddings(model)
    ours, theirs = model.encoder.embeddings, model.decoder.roberta.embeddings
    assert ours.word_embeddings.weight is theirs.word_embeddings.weight
    assert ours.position_embeddings.weight is not theirs.position_embeddings.weight
    assert model.get_output_embeddings().weight is theirs.word_embeddings.weight
    assert before - sum(parameter.numel() for parameter in model.parameters()) == 320 * 32
    torch.optim.SGD(model.parameters(), lr=0.1)
    model(**inputs()).logits.square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    loading.save(model, tmp_path / "saved")
    again, strays = stock(tmp_path / "saved")
    assert strays == {}
    assert torch.equal(again(**inputs()).logits, model(**inputs()).logits)
    assert tie_embeddings(again)
    other = stock(built())[0]
    with torch.no_grad():
        other.encoder.embeddings.word_embeddings.weight[7, 3] += 1e-6
    assert not tie_embeddings(other)


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
