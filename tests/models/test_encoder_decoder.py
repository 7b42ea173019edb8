"""An encoder–decoder from an encoder's weights: what comes from where, and both stock formats."""

import json
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models import bart, cross_attention, loading
from lingraft.models.encoder_decoder import Options, kept_layers, make, tie_embeddings
from lingraft.models.families import FAMILIES
from lingraft.tokenizer import files as tokenizer_files

DEPTH = 4
TEXT = "The quick brown fox\t나는 학교에 가서\nand the dog sleeps\t책을 읽었다.\n"
every_family = pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra"])


@pytest.fixture(scope="module")
def source(tiny_model, tiny_tokenizer, tmp_path_factory):
    """The folder of an encoder of four layers with cross-attention that matters."""
    made = {}

    def saved(family, *, plain=False):
        if (family, plain) not in made:
            folder = tmp_path_factory.mktemp(family)
            model = tiny_model(family, num_hidden_layers=DEPTH, layer_norm_eps=1e-5)
            if not plain:
                cross_attention.insert(model, FAMILIES[family], DEPTH)
                generator = torch.Generator().manual_seed(3)
                for name, tensor in model.named_parameters():
                    if "crossattention" in name:
                        tensor.data.normal_(0.0, 0.2, generator=generator)
            loading.save(model, folder)
            tiny_tokenizer(family).save_pretrained(folder)
            made[family, plain] = folder
        return made[family, plain]

    return saved


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    """An encoder–decoder's folder, made once for each family and options."""
    made = {}

    def folder(family="xlm-roberta", **options):
        key = (family, *options.items())
        if key not in made:
            made[key] = tmp_path_factory.mktemp("made") / "model"
            make(str(source(family)), made[key], Options(**options))
        return made[key]

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


@pytest.mark.parametrize(
    ("family", "keep"),
    [("bert", "last"), ("roberta", "first"), ("xlm-roberta", "last"), ("electra", "first")],
)
def test_each_decoder_layer_is_the_layer_that_is_kept(family, keep, source, built):
    theirs = loading.load(str(source(family)))[0].state_dict()
    model, strays = stock(built(family, keep=keep, decoder_layers=3))
    assert strays == {}
    ours, layers = model.state_dict(), FAMILIES[family].layers
    kept = [1, 2, 3] if keep == "last" else [0, 1, 2]
    seen = 0
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


@torch.no_grad()
@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_bart_has_the_same_states_and_the_logits_of_states_times_embeddings(family, built):
    given = inputs()
    ours, theirs = (
        stock(built(family, format=form))[0](**given, output_hidden_states=True)
        for form in ("bart", "encoder-decoder")
    )
    seen = given["attention_mask"].bool()
    for ours_NTD, theirs_NTD in zip(
        ours.encoder_hidden_states, theirs.encoder_hidden_states, strict=True
    ):
        torch.testing.assert_close(ours_NTD[seen], theirs_NTD[seen], atol=2e-6, rtol=2e-6)
    states = zip(ours.decoder_hidden_states, theirs.decoder_hidden_states, strict=True)
    for ours_NTD, theirs_NTD in states:
        torch.testing.assert_close(ours_NTD, theirs_NTD, atol=4e-6, rtol=4e-6)
    model, strays = stock(built(family, format="bart"))
    assert strays == {}
    assert not model.final_logits_bias.any()
    logits_NTV = ours.decoder_hidden_states[-1] @ model.get_input_embeddings().weight.T
    torch.testing.assert_close(ours.logits, logits_NTV)


def test_the_decoder_sees_nothing_that_comes_later_and_all_of_the_source(built):
    for form in ("encoder-decoder", "bart"):
        model, given = stock(built(format=form))[0], inputs()
        with torch.no_grad():
            before = model(**given).logits
            other = given["decoder_input_ids"].clone()
            other[:, -1] = 7
            after = model(**given | {"decoder_input_ids": other}).logits
            turned = given["input_ids"].clone()
            turned[:, 0] = 7
            moved = model(**given | {"input_ids": turned}).logits
        torch.testing.assert_close(before[:, :-1], after[:, :-1])
        assert (moved - before).abs().amax(-1).min() > 1e-4


@pytest.mark.parametrize(
    ("family", "form"),
    [("xlm-roberta", "encoder-decoder"), ("xlm-roberta", "bart"), ("bert", "encoder-decoder"),
     ("electra", "encoder-decoder")],
)  # fmt: skip
def test_generation_is_stepwise_argmax_and_does_not_depend_on_the_cache(family, form, built):
    model = stock(built(family, format=form))[0]
    given = torch.randint(5, 300, (60, 7), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(given)
    mask[::3, 5:] = 0
    given[::3, 5:] = model.config.pad_token_id
    source = {"input_ids": given, "attention_mask": mask, "max_new_tokens": 6}
    for beams in (1, 5):
        cached, uncached = (
            model.generate(**source, num_beams=beams, use_cache=use) for use in (True, False)
        )
        assert torch.equal(cached, uncached)
    greedy, pad = model.generate(**source, num_beams=1), model.config.pad_token_id
    steps = torch.full((60, 1), model.config.decoder_start_token_id)
    ended = torch.zeros(60, dtype=torch.bool)
    with torch.no_grad():
        for step in range(greedy.shape[1] - 1):
            logits = model(input_ids=given, attention_mask=mask, decoder_input_ids=steps).logits
            if step == 0:
                logits[:, -1, model.config.eos_token_id] = -torch.inf  # min_new_tokens
            best = logits[:, -1].argmax(-1).masked_fill(ended, pad)
            ended |= best == model.config.eos_token_id
            steps = torch.cat([steps, best[:, None]], 1)
    assert torch.equal(greedy, steps)


INNER = """
import sys
sys.modules["lingraft"] = None
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
for folder in sys.argv[1:]:
    model, info = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    given = AutoTokenizer.from_pretrained(folder)(["The quick fox", "책"], padding=True,
                                                  return_tensors="pt")
    print(model.generate(**given, max_new_tokens=8).tolist())
"""


@pytest.mark.slow
def test_both_formats_translate_in_a_process_that_cannot_import_lingraft(built):
    folders = [built(format=form) for form in ("encoder-decoder", "bart")]
    ended = subprocess.run(
        [sys.executable, "-c", INNER, *map(str, folders)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    texts = ["The quick fox", "책"]
    for folder, line in zip(folders, ended.stdout.splitlines(), strict=True):
        given = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
        assert json.loads(line) == stock(folder)[0].generate(**given, max_new_tokens=8).tolist()


@every_family
def test_settings_name_the_special_tokens_and_how_to_decode(family, built):
    tokenizer = AutoTokenizer.from_pretrained(built(family))
    model = stock(built(family))[0]
    for settings in (model.config, model.generation_config):
        assert settings.decoder_start_token_id == settings.eos_token_id == tokenizer.sep_token_id
        assert settings.pad_token_id == tokenizer.pad_token_id
        assert settings.bos_token_id == tokenizer.cls_token_id
    assert model.config.vocab_size == 320
    assert model.config.decoder.is_decoder
    assert model.config.decoder.add_cross_attention
    decoding = model.generation_config
    assert (decoding.num_beams, decoding.length_penalty, decoding.early_stopping) == (5, 1.0, False)
    assert decoding.min_new_tokens == 1
    assert decoding.max_new_tokens == 128  # 200, but the model has no more positions
    encoded = tokenizer("The dog")
    assert set(encoded) == {"input_ids", "attention_mask"}
    assert encoded["input_ids"][0] == tokenizer.cls_token_id
    assert encoded["input_ids"][-1] == tokenizer.sep_token_id


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


def test_embeddings_that_differ_are_not_tied(built):
    model = stock(built())[0]
    with torch.no_grad():
        model.encoder.embeddings.word_embeddings.weight[7, 3] += 1e-6
    assert not tie_embeddings(model)
    assert tie_embeddings(stock(built(format="bart"))[0])


def test_without_cross_attention_there_is_fresh_one_that_the_seed_fixes(source, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        made = make(str(source("roberta", plain=True)), tmp_path / name, Options(seed=seed))
        assert made.fresh_cross_attention
    a, b, c = (stock(tmp_path / name)[0].state_dict() for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    cross = [name for name in a if "crossattention.self" in name and name.endswith("weight")]
    assert len(cross) == 3
    assert not any(torch.equal(a[name], c[name]) for name in cross)
    assert torch.stack([a[name] for name in cross]).std().item() == pytest.approx(0.02, rel=0.1)
    others = [name for name in a if "crossattention" not in name and ".pooler." not in name]
    assert all(torch.equal(a[name], c[name]) for name in others)


def test_random_weights_have_the_shape_alone(built):
    ours, theirs = (stock(built(random=random))[0] for random in (True, False))
    assert {n: t.shape for n, t in ours.state_dict().items()} == {
        n: t.shape for n, t in theirs.state_dict().items()
    }
    matrices = [
        name
        for name, tensor in ours.named_parameters()
        if tensor.ndim == 2 and ".pooler." not in name  # fresh in both
    ]
    a, b = ours.state_dict(), theirs.state_dict()
    assert not any(torch.equal(a[name], b[name]) for name in matrices)
    assert tie_embeddings(ours)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_trimmed_to_a_text_the_model_reads_it_as_before(family, built, tmp_path):
    (tmp_path / "text.tsv").write_text(TEXT, "utf-8")
    folder, whole = built(family, trim=(tmp_path / "text.tsv",)), built(family)
    small, full = (tokenizer_files.load(path) for path in (folder, whole))
    assert len(small) < len(full)
    pieces = full.get_vocab()
    rows = torch.tensor([pieces[piece] for piece in small.convert_ids_to_tokens(range(len(small)))])
    ours, theirs = stock(folder)[0], stock(whole)[0]
    assert ours.config.vocab_size == len(small)
    for text in TEXT.replace("\t", "\n").splitlines():
        a, b = (t(text, return_tensors="pt") for t in (small, full))
        assert torch.equal(rows[a["input_ids"]], b["input_ids"])
        assert small.decode(a["input_ids"][0]) == full.decode(b["input_ids"][0])
        with torch.no_grad():
            trimmed = ours(**a, decoder_input_ids=a["input_ids"]).logits
            expected = theirs(**b, decoder_input_ids=b["input_ids"]).logits[..., rows]
        torch.testing.assert_close(trimmed, expected)
    for role in ("cls", "sep", "pad", "unk", "mask"):
        token = f"{role}_token"
        assert getattr(small, token) == getattr(full, token)
        assert getattr(small, f"{token}_id") == small.get_vocab()[getattr(full, token)]


def test_the_decoder_s_first_token_is_not_trimmed(built, tmp_path):
    (tmp_path / "text.tsv").write_text(TEXT, "utf-8")
    trim = (tmp_path / "text.tsv",)
    whole, small = (
        tokenizer_files.load(built("xlm-roberta", **options)).get_vocab()
        for options in ({}, {"trim": trim})
    )
    start = next(piece for piece in whole if piece not in small)
    folder = built("xlm-roberta", trim=trim, decoder_start=start)
    pieces = tokenizer_files.load(folder).get_vocab()
    assert stock(folder)[0].generation_config.decoder_start_token_id == pieces[start]


def test_a_quarter_of_the_layers_is_the_decoder_unless_said_otherwise():
    assert kept_layers(24, None) == [18, 19, 20, 21, 22, 23]
    assert [len(kept_layers(depth, None)) for depth in (1, 2, 6, 12)] == [1, 1, 2, 3]
    assert kept_layers(12, 3, "first") == [0, 1, 2]
    for wrong in (0, 13):
        with pytest.raises(RecipeError, match=r"the encoder has 12 layers; give 1 to 12"):
            kept_layers(12, wrong)


def test_what_bart_cannot_be_is_refused_with_the_reason(tiny_model):
    for family, reason in (("roberta", "1e-12"), ("electra", "narrower")):
        with pytest.raises(UnsupportedModelError, match=reason):
            bart.check("source", tiny_model(family).config)


def test_what_was_written_is_not_written_over(source, built):
    with pytest.raises(DataError, match="is there already"):
        make(str(source("bert")), built("bert"), Options())
    with pytest.raises(UnsupportedModelError, match="is an encoder–decoder already"):
        make(str(built("bert")), built("bert").parent / "other", Options())
