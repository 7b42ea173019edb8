"""Causal models under a task's head: what a text is read at, and that stock classes read it so."""

import functools
import json
import shutil
from dataclasses import replace

import causal_tokenizers
import pytest
import tiny_causal
import torch
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)
from transformers.models.auto import modeling_auto

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import causal, heads
from lingraft.finetuning.coders.common import Shape, collate
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.finetuning.problem import Finetuning, Judged
from lingraft.models import export
from lingraft.models.families import FAMILIES
from lingraft.models.losses import IGNORED
from lingraft.tasks import TASKS
from lingraft.tasks.examples import Answer, SpanExample, TaggedExample, TextExample

TEXTS = ["나는 책을 읽었다", "The quick brown fox jumps over the lazy dog", "", "the dog"]
PAIRS = ["the dog", "책을 읽었다", "a fox", ""]
WORDS = ("the", "old", "친구를", "학교에", "friends", "를")
AUTO = {
    "klue-nli": AutoModelForSequenceClassification,
    "klue-sts": AutoModelForSequenceClassification,
    "klue-ynat": AutoModelForSequenceClassification,
    "udpos-en": AutoModelForTokenClassification,
    "klue-mrc": AutoModelForQuestionAnswering,
}
CAUSAL = {name for name, record in FAMILIES.items() if record.kind == "causal"}
KNOWN = {
    "klue-nli": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "udpos-en": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "klue-mrc": modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    "klue-dp": modeling_auto.MODEL_MAPPING_NAMES,
}
"""By an example of each kind of task, the architectures that transformers has a class for."""
CASES = [
    (name, family)
    for name in ("klue-nli", "udpos-en", "klue-mrc")
    for family in sorted(CAUSAL | {*tiny_causal.TOKENIZERS})
    if family in KNOWN[name]
]
CASES += [("klue-sts", "gpt2"), ("klue-ynat", "llama")]


@pytest.fixture(scope="module")
def source(tmp_path_factory, tiny_source):
    @functools.cache
    def saved(family):
        if family not in tiny_causal.TOKENIZERS:
            return tiny_source(family)
        return tiny_causal.save(tmp_path_factory.mktemp("causal") / family, family)

    return saved


def examples_of(name):
    if name == "udpos-en":
        tags = tuple(TASKS[name].labels[n % 7] for n in range(len(WORDS)))
        rows = [WORDS[:2], WORDS, WORDS[2:5], WORDS[1:]]
        return [TaggedExample(str(n), row, tags[: len(row)]) for n, row in enumerate(rows)]
    if name == "klue-mrc":
        text = "the friend read 책을 in the old school"
        answer = (Answer("책을", text.index("책을")),)
        return [SpanExample(str(n), "누가?", text + " dog" * n, answer) for n in range(4)]
    if name == "klue-ynat":
        return [TextExample(str(n), text, label="정치") for n, text in enumerate(TEXTS)]
    right = {"label": "neutral"} if name == "klue-nli" else {"score": 2.5}
    rows = zip(TEXTS, PAIRS, strict=True)
    return [TextExample(str(n), text, pair, **right) for n, (text, pair) in enumerate(rows)]


@pytest.fixture
def problem(source):
    """A model on four examples of several lengths, without dropout."""

    def made(name, family, micro_batch_tokens=4_096):
        task = replace(
            TASKS[name], settings=TASKS[name].settings.model_copy(update={"max_length": 96})
        )
        task = replace(task, spans=task.spans and task.spans.model_copy(update={"doc_stride": 32}))
        folder = source(family)
        tokenizer = heads.tokenizer_for(folder, task)
        shape = heads.shape_of(folder, task, tokenizer)
        model = heads.build(folder, task, tokenizer, seed=0)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        coder = heads.CODERS[task.kind](task, shape)
        examples = examples_of(name)
        items = coder.encode(examples)
        judged = [Judged("dev", task, examples, items)]
        return Finetuning(model, coder, shape, items, judged, micro_batch_tokens)

    return made


def tensors(outputs):
    """Logits of texts [B, C] or tokens [B, T, C], or of places [B, T, 2]."""
    if "logits" in outputs:
        return outputs["logits"]
    return torch.stack([outputs["start_logits"], outputs["end_logits"]], -1)


@pytest.mark.parametrize(("name", "family"), CASES)
def test_the_stock_class_says_of_each_text_alone_what_is_trained_in_batches(
    name, family, problem, tmp_path
):
    """What is saved loads with nothing missing; attention, padding and cache change no logit."""
    made = problem(name, family)
    made.module.eval()
    with torch.no_grad():
        batch = collate(made.coder, made.shape, made.items, predict=True)
        together = tensors(made.module(batch)[1])
        made.save(tmp_path)
        stock, info = AUTO[name].from_pretrained(tmp_path, output_loading_info=True)
        assert not any(info.values()), info
        tokenizer = AutoTokenizer.from_pretrained(tmp_path)
        assert len({len(item.ids) for item in made.items}) > 1
        for row, item in enumerate(made.items):
            alone = tensors(stock.eval()(input_ids=torch.tensor(item.ids[None]), use_cache=True))[0]
            ours = together[row] if alone.ndim == 1 else together[row, : len(item.ids)]
            torch.testing.assert_close(ours, alone, atol=2e-5, rtol=1e-4)
        if name in ("klue-nli", "klue-sts"):
            texts = (TEXTS[:2], PAIRS[:2])
            inputs = tokenizer(*texts, padding=True, return_tensors="pt")
            torch.testing.assert_close(stock(**inputs).logits, together[:2], atol=2e-5, rtol=1e-4)
    assert together.std() > 1e-3


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2"])
def test_a_text_is_classified_at_its_last_token_that_does_not_pad(family, problem):
    """GPT-2's end token pads too: behind an empty second text it is not read."""
    made = problem("klue-nli", family)
    model = made.model.eval()
    with torch.no_grad():
        logits = tensors(made.module(collate(made.coder, made.shape, made.items, predict=True))[1])
        for row, item in enumerate(made.items):
            states = model.base_model(input_ids=torch.tensor(item.ids[None])).last_hidden_state
            (last, *_) = [n for n, token in enumerate(item.ids) if token != made.shape.pad][::-1]
            assert last == len(item.ids) - (2 if (family, row) == ("gpt2", 3) else 1)
            torch.testing.assert_close(logits[row], model.score.weight @ states[0, last])
    assert model.config.pad_token_id == made.shape.pad


def test_pretraining_is_under_every_head_also_where_the_class_for_questions_renames_it(source):
    """Of a Llama, transformers' own loading leaves that class with random weights."""
    for name, family in (("klue-mrc", "llama"), ("klue-mrc", "gpt2"), ("klue-dp", "granite")):
        task, folder = TASKS[name], source(family)
        built = heads.build(folder, task, heads.tokenizer_for(folder, task), seed=0)
        base = built.encoder if name == "klue-dp" else built.base_model
        wanted = heads.HEADS["parser"].from_pretrained(folder).state_dict()
        assert base.state_dict().keys() == wanted.keys()
        assert all(torch.equal(base.state_dict()[key], wanted[key]) for key in wanted)


# -- tokens


def prepared(source, family):
    return heads.tokenizer_for(source(family), TASKS["klue-nli"])


def test_another_role_pads_where_no_token_does(source):
    assert prepared(source, "gpt2").pad_token == "<|endoftext|>"
    assert prepared(source, "mistral").pad_token == "</s>"
    assert prepared(source, "qwen2").pad_token == "<|endoftext|>"  # its own; the end is <|im_end|>
    tokenizer = AutoTokenizer.from_pretrained(source("mistral"))
    named = AutoConfig.for_model("mistral", pad_token_id=tokenizer.unk_token_id)
    causal.prepare_tokenizer(tokenizer, named)
    assert (tokenizer.pad_token, tokenizer.padding_side) == ("<unk>", "right")


def test_texts_of_a_pair_are_kept_apart_and_single_texts_stay_as_they_are(source, caplog):
    caplog.set_level("INFO", logger="lingraft")
    for family, between in (
        ("gpt2", "<|endoftext|>"),
        ("qwen2", "<|im_end|>"),
        ("llama", "<|begin_of_text|>"),
    ):
        before, after = AutoTokenizer.from_pretrained(source(family)), prepared(source, family)
        pair = after("the dog", "a cat")
        first, second = (
            before(t, add_special_tokens=False)["input_ids"] for t in ("the dog", "a cat")
        )
        start = [] if between != "<|begin_of_text|>" else [before.bos_token_id]
        middle = [after.convert_tokens_to_ids(between)]
        assert pair["input_ids"] == [*start, *first, *middle, *second]
        said = f"has nothing between the texts of a pair; {between} will stand there"
        assert (said in caplog.text) is (family != "llama")
        ids = [one for one in pair.encodings[0].sequence_ids if one is not None]
        assert ids == [0] * len(first) + [1] * len(second)
        for text in ("나는 the dog ", ""):
            one, other = before(text), after(text)
            assert one["input_ids"] == other["input_ids"]
            assert one.encodings[0].offsets == other.encodings[0].offsets


def test_what_is_saved_keeps_texts_apart_whatever_the_tokenizers_class(
    source, tmp_path, monkeypatch
):
    """GPT-NeoX's makes its template anew when it is loaded."""
    folder, task = shutil.copytree(source("gpt2"), tmp_path / "source"), TASKS["klue-nli"]
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {"tokenizer_class": "GPTNeoXTokenizer"}
    path.write_text(json.dumps(settings))
    tokenizer = heads.tokenizer_for(folder, task)
    older = {"rope_theta": 2.5}
    monkeypatch.setattr(export, "settings_for_4_57", lambda _: older)
    heads.save(heads.build(folder, task, tokenizer, seed=0), tokenizer, tmp_path / "best")
    ids = AutoTokenizer.from_pretrained(tmp_path / "best")("the dog", "a cat")["input_ids"]
    assert ids == tokenizer("the dog", "a cat")["input_ids"]
    assert tokenizer.eos_token_id in ids
    assert json.loads((tmp_path / "best" / "config.json").read_text())["rope_theta"] == 2.5


def test_encoders_and_what_transformers_also_calls_causal_are_not_causal():
    for name, record in FAMILIES.items():
        assert causal.is_causal(AutoConfig.for_model(name)) is (record.kind == "causal")
    for name in ("camembert", "xlnet", "bert-generation", "deberta-v2", "marian"):
        assert not causal.is_causal(AutoConfig.for_model(name))
    for name in tiny_causal.TOKENIZERS:
        assert causal.is_causal(AutoConfig.for_model(name))


# -- tagging


def tagger(family, width=24):
    tokenizer = causal_tokenizers.build(family)
    return TagCoder(TASKS["udpos-en"], Shape(tokenizer, 0, width, False, causal=True))


@pytest.mark.parametrize("family", causal_tokenizers.BUILDERS)
def test_a_word_has_its_tag_at_its_last_piece(family):
    made = tagger(family, 96)
    tags = tuple(made.task.labels[: len(WORDS)])
    (item,) = made.encode([TaggedExample("0", WORDS, tags)])
    tokenizer = made.shape.tokenizer
    places = [place for place, label in enumerate(item.target) if label != IGNORED]
    assert [made.task.labels[item.target[place]] for place in places] == list(tags)
    start = int(tokenizer.num_special_tokens_to_add())
    for place, number in zip(places, range(1, len(WORDS) + 1), strict=True):
        read = tokenizer(" ".join(WORDS[:number]), add_special_tokens=False)["input_ids"]
        assert place == start + len(read) - 1
        assert item.ids[start : place + 1].tolist() == read


# -- dropout


def test_dropout_before_the_last_layer_is_that_of_tags_and_refused_of_texts(source):
    folder = source("gpt2")
    tags, texts = (
        replace(
            TASKS[name],
            settings=TASKS[name].settings.model_copy(update={"classifier_dropout": 0.3}),
        )
        for name in ("udpos-en", "klue-nli")
    )
    built = heads.build(folder, tags, heads.tokenizer_for(folder, tags), seed=0)
    assert built.dropout.p == built.config.classifier_dropout == 0.3
    with pytest.raises(UnsupportedModelError, match="no classifier dropout"):
        heads.build(folder, texts, heads.tokenizer_for(folder, texts), seed=0)
    whole = replace(
        tags, settings=tags.settings.model_copy(update={"dropout": 0.2, "attention_dropout": 0.25})
    )
    config = heads.build(folder, whole, heads.tokenizer_for(folder, whole), seed=0).config
    assert (config.resid_pdrop, config.embd_pdrop, config.attn_pdrop) == (0.2, 0.2, 0.25)
