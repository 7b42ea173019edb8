"""Causal models under a task's head: what a text is read at, and that stock classes read it so."""

import functools

import causal_tokenizers
import pytest
import tiny_causal
import torch
import transformers as hf
from task_settings import with_settings
from transformers.models.auto import modeling_auto

from lingraft.finetuning import head_settings, heads
from lingraft.finetuning.coders.common import InputShape, collate
from lingraft.finetuning.coders.tagging import TagCoder
from lingraft.models.families import FAMILIES
from lingraft.models.losses import IGNORED
from lingraft.tasks import TASKS
from lingraft.tasks.examples import Answer, SpanExample, TaggedExample, TextExample

TEXTS = ["나는 책을 읽었다", "The quick brown fox jumps over the lazy dog", "", "the dog"]
PAIRS = ["the dog", "책을 읽었다", "a fox", ""]
WORDS = ("the", "old", "친구를", "학교에", "friends", "를")
AUTO = {
    "klue-nli": hf.AutoModelForSequenceClassification,
    "klue-sts": hf.AutoModelForSequenceClassification,
    "klue-ynat": hf.AutoModelForSequenceClassification,
    "udpos-en": hf.AutoModelForTokenClassification,
    "klue-mrc": hf.AutoModelForQuestionAnswering,
}
CAUSAL = {name for name, record in FAMILIES.items() if record.kind == "causal"}
KNOWN = {
    "klue-nli": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "udpos-en": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "klue-mrc": modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    "klue-dp": modeling_auto.MODEL_MAPPING_NAMES,
}
"""By an example of each kind of task, the architectures that transformers has a class for."""
EVERY, THREE = sorted(CAUSAL | {*tiny_causal.TOKENIZERS}), ("klue-nli", "udpos-en", "klue-mrc")
CASES = [(name, family) for name in THREE for family in EVERY if family in KNOWN[name]]
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
def problem(source, finetuning):
    """A model on four examples of several lengths, without dropout."""

    def made(name, family):
        task = with_settings(TASKS[name], doc_stride=32, max_length=96)
        return finetuning(source(family), task, examples_of(name))

    return made


def tensors(outputs):
    """Logits of texts [B, C] or tokens [B, T, C], or of places [B, T, 2]."""
    if "logits" in outputs:
        return outputs["logits"]
    return torch.stack([outputs["start_logits"], outputs["end_logits"]], -1)


@pytest.mark.parametrize(("name", "family"), CASES)
def test_the_stock_class_says_the_same_of_each_text_alone(name, family, problem, tmp_path):
    """What is saved loads with nothing missing; attention, padding and cache change no logit."""
    made = problem(name, family)
    made.module.eval()
    with torch.no_grad():
        together = tensors(made.module(collate(made.coder, made.items, predict=True))[1])
        made.save(tmp_path)
        stock, info = AUTO[name].from_pretrained(tmp_path, output_loading_info=True)
        assert not any(info.values()), info
        tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path)
        assert len({len(item.ids) for item in made.items}) > 1
        for row, item in enumerate(made.items):
            alone = tensors(stock.eval()(input_ids=torch.tensor(item.ids[None]), use_cache=True))[0]
            ours = together[row] if alone.ndim == 1 else together[row, : len(item.ids)]
            torch.testing.assert_close(ours, alone, atol=2e-5, rtol=1e-4)
        if name in ("klue-nli", "klue-sts"):
            inputs = tokenizer(TEXTS[:2], PAIRS[:2], padding=True, return_tensors="pt")
            torch.testing.assert_close(stock(**inputs).logits, together[:2], atol=2e-5, rtol=1e-4)
    assert together.std() > 1e-3


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


def test_texts_of_a_pair_are_kept_apart_and_single_texts_stay_as_they_are(source):
    for family, between in (
        ("gpt2", "<|endoftext|>"),
        ("qwen2", "<|im_end|>"),
        ("llama", "<|begin_of_text|>"),
    ):
        before, after = hf.AutoTokenizer.from_pretrained(source(family)), prepared(source, family)
        pair = after("the dog", "a cat")
        first, second = before(["the dog", "a cat"], add_special_tokens=False)["input_ids"]
        start = [] if between != "<|begin_of_text|>" else [before.bos_token_id]
        middle = [after.convert_tokens_to_ids(between)]
        assert pair["input_ids"] == [*start, *first, *middle, *second]
        assert before("the dog")["input_ids"] == after("the dog")["input_ids"]


def test_encoders_and_what_transformers_also_calls_causal_are_not_causal():
    for name, record in FAMILIES.items():
        assert head_settings.is_causal(hf.AutoConfig.for_model(name)) is (record.kind == "causal")
    for name in ("camembert", "xlnet", "bert-generation", "deberta-v2", "marian"):
        assert not head_settings.is_causal(hf.AutoConfig.for_model(name))
    for name in tiny_causal.TOKENIZERS:
        assert head_settings.is_causal(hf.AutoConfig.for_model(name))


# -- tagging


def tagger(family, width=24):
    tokenizer = causal_tokenizers.build(family)
    return TagCoder(TASKS["udpos-en"], InputShape(tokenizer, 0, width, False, causal=True))


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
