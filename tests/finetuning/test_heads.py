"""The head of a checkpoint under a task: labels, precision, what is saved, who is refused."""

import shutil

import pytest
import torch
from task_settings import with_settings
from tiny_shapes import BERT_SHAPE
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    FunnelModel,
)

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import heads
from lingraft.finetuning.coders.common import collate
from lingraft.tasks import TASKS
from lingraft.tasks.examples import Entity, RelationExample, SpanExample, TaggedExample, TextExample

NLI = TASKS["klue-nli"]
IDS = torch.tensor([[0, 9, 30, 41, 2]])


@pytest.fixture
def checkpoint(tiny_source, tmp_path):
    """A fine-tuned stock model: `checkpoint(family, auto, names, **settings)`."""

    def made(family, auto=AutoModelForSequenceClassification, names=None, **settings):
        folder = shutil.copytree(tiny_source(family), tmp_path / "source")
        if names:
            settings |= {"id2label": dict(enumerate(names))}
            settings["label2id"] = {name: number for number, name in enumerate(names)}
        torch.manual_seed(5)
        auto.from_pretrained(folder, **settings).save_pretrained(folder)
        return folder

    return made


def built(folder, task=NLI, seed=0):
    return heads.build(folder, task, heads.tokenizer_for(folder, task), seed).eval()


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


# -- labels


def test_a_head_is_kept_for_the_same_labels_in_their_order(checkpoint):
    """MNLI's checkpoints have orders of their own, and spell labels in capitals."""
    names = [label.upper() for label in NLI.labels]
    unnamed = ["LABEL_0", "LABEL_1", "LABEL_2"]
    for order, is_kept in ((names, True), (unnamed, True), (names[::-1], False)):
        folder = checkpoint("roberta", names=order)
        stock = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        one, again, other = built(folder), built(folder), built(folder, seed=1)
        assert torch.equal(logits(one), logits(stock)) is is_kept
        assert torch.equal(logits(one), logits(again))
        assert torch.equal(logits(one), logits(other)) is is_kept
        wanted = stock.base_model.state_dict()
        assert all(torch.equal(wanted[key], t) for key, t in one.roberta.state_dict().items())
        shutil.rmtree(folder)


# -- precision


@pytest.mark.parametrize(
    ("name", "family"), [("klue-sts", "gpt2"), ("klue-ner", "modernbert"), ("klue-nli", "bert")]
)
def test_outputs_are_not_rounded_by_autocast_and_training_is_left_alone(name, family, tiny_source):
    model = built(tiny_source(family), TASKS[name])
    stock = heads.HEADS[heads.CODERS[TASKS[name].kind].head].from_config(model.config)
    assert model.state_dict().keys() == stock.state_dict().keys()
    with torch.autocast("cpu", torch.bfloat16):
        said = logits(model)
        trained = logits(model.train())
    assert (said.dtype, trained.dtype) == (torch.float32, torch.bfloat16)
    assert (said != said.bfloat16().float()).any()


# -- special tokens in texts


def ids_of(folder, name, example):
    coder = heads.coder_for(folder, with_settings(TASKS[name], doc_stride=8, max_length=64))
    return coder.shape.tokenizer, [item.ids.tolist() for item in coder.encode([example])]


@pytest.mark.parametrize("written", ["</s>", "<mask>", "<pad>"])
@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_special_tokens_in_a_text_are_text(family, written, tiny_source):
    text = f"나는 {written} 책을"
    words, folder = tuple(text.split()), tiny_source(family)
    for name, example in {
        "klue-nli": TextExample("0", text, text, "neutral"),
        "klue-sts": TextExample("0", text, text, score=1.0),
        "udpos-en": TaggedExample("0", words, ("NOUN",) * 3),
        "klue-mrc": SpanExample("0", text, text, ()),
        "klue-re": RelationExample(
            "0", text, Entity(0, 2, "PER"), Entity(3, 4, "ORG"), "no_relation"
        ),
    }.items():
        tokenizer, (ids,) = ids_of(folder, name, example)
        plain = tokenizer("a") if example.__class__ in (TaggedExample, RelationExample) else None
        around = (plain or tokenizer("a", "a"))["input_ids"]
        number = tokenizer.convert_tokens_to_ids(written)
        assert ids.count(number) == around.count(number), name
        markers = tokenizer.convert_tokens_to_ids(["<subj>", "</subj>", "<obj>", "</obj>"])
        assert name != "klue-re" or all(ids.count(marker) == 1 for marker in markers)


def test_tokens_that_somebody_added_are_read_as_by_stock_transformers(tiny_source, tmp_path):
    folder = shutil.copytree(tiny_source("bert"), tmp_path / "source")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"extra_special_tokens": ["[E1]", "[/E1]"]})
    tokenizer.save_pretrained(folder)
    example = TextExample("0", "the [E1]dog[/E1] sleeps", "the [/E1] dog", "neutral")
    _, (ids,) = ids_of(folder, "klue-nli", example)
    assert ids == tokenizer(example.text, example.pair)["input_ids"]
    assert {*tokenizer.convert_tokens_to_ids(["[E1]", "[/E1]"])} <= {*ids}


# -- padding


FUNNEL = {"d_model": 32, "block_sizes": [1, 1], "n_head": 2, "d_head": 16, "d_inner": 48}
MOBILE = BERT_SHAPE | dict.fromkeys(("intra_bottleneck_size", "true_hidden_size"), 16)
BIRD = BERT_SHAPE | {"block_size": 1, "attention_type": "block_sparse"}


@pytest.mark.parametrize(
    ("kind", "shape", "is_refused"),
    [
        ("bert", BERT_SHAPE, ()),
        ("ibert", BERT_SHAPE, ()),
        ("big_bird", BIRD, ()),
        ("mobilebert", MOBILE | {"embedding_size": 16}, ("klue-nli", "udpos-en")),
        ("funnel", FUNNEL, ("udpos-en",)),
    ],
)
def test_a_score_does_not_depend_on_the_batch_or_the_model_is_refused(
    kind, shape, is_refused, tiny_source, tmp_path
):
    tokenizer = AutoTokenizer.from_pretrained(tiny_source("bert"))
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), pad_token_id=0, **shape)
    model = FunnelModel(config) if kind == "funnel" else AutoModel.from_config(config)
    for weight in model.parameters():  # of the padding token, too
        weight.data += 0.05 * torch.randn_like(weight)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    words = ("the", "dog") * 12
    examples = {
        "klue-nli": [TextExample("0", " ".join(w), "", "neutral") for w in (words[:3], words)],
        "udpos-en": [TaggedExample("0", w, ("NOUN",) * len(w)) for w in (words[:3], words)],
    }
    for name, asked in examples.items():
        task = with_settings(TASKS[name], max_length=40)
        if name in is_refused:
            with pytest.raises(UnsupportedModelError, match="let padding change"):
                heads.coder_for(tmp_path, task)
            continue
        coder = heads.coder_for(tmp_path, task)
        torch.manual_seed(0)
        model = heads.build(tmp_path, task, coder.shape.tokenizer, 0).eval()
        items = coder.encode(asked)
        with torch.no_grad():
            beside, alone = (
                coder.run(model, collate(coder, some, predict=True))["logits"][0]
                for some in (items, items[:1])
            )
        torch.testing.assert_close(beside[: len(alone)], alone, rtol=1e-4, atol=1e-5)
