"""The head of a checkpoint under a task: labels, precision, what is saved, who is refused."""

import json
import logging
import shutil
from dataclasses import replace

import pytest
import tiny_translators
import torch
from tiny_tokenizers import build
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BartForSequenceClassification,
    PreTrainedTokenizerFast,
)

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import heads
from lingraft.finetuning.problem import Finetuning
from lingraft.models.export import settings_for_4_57
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


@pytest.mark.parametrize("family", ["roberta", "modernbert", "electra", "gpt2"])
def test_labels_in_another_order_keep_their_rows(family, checkpoint, caplog):
    """MNLI's checkpoints have orders of their own, and spell labels in capitals."""
    names = [NLI.labels[number].upper() for number in (2, 0, 1)]
    folder = checkpoint(family, names=names, pad_token_id=1)
    stock = logits(AutoModelForSequenceClassification.from_pretrained(folder).eval())
    with caplog.at_level(logging.INFO, "lingraft"):
        torch.testing.assert_close(logits(built(folder)), stock[:, [1, 2, 0]])
    assert "labels in another order" in caplog.text


def test_a_head_for_other_labels_gives_way_to_a_new_one_and_one_without_names_stays(
    checkpoint, caplog
):
    folder = checkpoint("roberta", names=["LABEL_0", "LABEL_1", "LABEL_2"])
    stock = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert torch.equal(logits(built(folder)), logits(stock))
    stock.config.id2label = dict(enumerate(["good", "bad", "so so"]))
    stock.save_pretrained(folder)
    with caplog.at_level(logging.INFO, "lingraft"):
        one, again, other = built(folder), built(folder), built(folder, seed=1)
    assert "other labels" in caplog.text
    for name in ("dense", "out_proj"):
        drawn, old = (getattr(model.classifier, name).weight for model in (one, stock))
        assert not torch.equal(drawn, old)
        assert torch.equal(drawn, getattr(again.classifier, name).weight)
        assert not torch.equal(drawn, getattr(other.classifier, name).weight)
    wanted = stock.base_model.state_dict()
    assert all(torch.equal(tensor, wanted[key]) for key, tensor in one.roberta.state_dict().items())


def test_questions_have_two_outputs_whatever_was_before(checkpoint):
    folder = checkpoint("bert", num_labels=3)
    assert built(folder, TASKS["klue-mrc"]).qa_outputs.out_features == 2


# -- precision


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("klue-sts", "roberta"),
        ("klue-sts", "gpt2"),
        ("klue-ner", "modernbert"),
        ("klue-nli", "bert"),
    ],
)
def test_outputs_are_not_rounded_by_autocast_and_training_is_left_alone(name, family, tiny_source):
    model = built(tiny_source(family), TASKS[name])
    names = {
        *heads.HEADS[heads.CODERS[TASKS[name].kind].head].from_config(model.config).state_dict()
    }
    assert {*model.state_dict()} == names
    with torch.autocast("cpu", torch.bfloat16):
        said = logits(model)
        trained = logits(model.train())
    assert (said.dtype, trained.dtype) == (torch.float32, torch.bfloat16)
    assert (said != said.bfloat16().float()).any()


# -- what is saved


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_saved_tokenizer_neither_cuts_nor_pads_as_the_last_call_did(
    family, tiny_source, tmp_path
):
    folder, task = tiny_source(family), TASKS["klue-mrc"]
    tokenizer = heads.tokenizer_for(folder, task)
    tokenizer(["책", "a b c"], truncation=True, max_length=5, padding=True, stride=1)
    model = heads.build(folder, NLI, tokenizer, 0)
    heads.save(model, tokenizer, tmp_path)
    saved = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert (saved["truncation"], saved["padding"]) == (None, None)


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_a_saved_model_is_one_that_transformers_4_57_reads_alike(family, tiny_source, tmp_path):
    """It knows no tokenizer called TokenizersBackend, and no ModernBERT without its old keys."""
    folder = shutil.copytree(tiny_source(family), tmp_path / "source")
    made_here = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    roles = heads.load_tokenizer(str(folder)).special_tokens_map
    made_here.add_special_tokens(roles)
    heads.save(heads.build(folder, NLI, made_here, 0), made_here, tmp_path / "best")
    kind = json.loads((tmp_path / "best" / "tokenizer_config.json").read_text())["tokenizer_class"]
    assert kind == "PreTrainedTokenizerFast"
    config = json.loads((tmp_path / "best" / "config.json").read_text())
    assert config.items() >= settings_for_4_57(config).items()
    assert ("global_rope_theta" in config) is (family == "modernbert")


# -- special tokens in texts


def ids_of(folder, name, example, max_length=64):
    task = replace(
        TASKS[name], settings=TASKS[name].settings.model_copy(update={"max_length": max_length})
    )
    task = replace(task, spans=task.spans and task.spans.model_copy(update={"doc_stride": 8}))
    tokenizer = heads.tokenizer_for(folder, task)
    coder = heads.CODERS[task.kind](task, heads.shape_of(folder, task, tokenizer))
    return tokenizer, [item.ids.tolist() for item in coder.encode([example])]


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


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_bart_classifies_a_text_with_its_end_token(family, tmp_path, accelerator):
    folder = tiny_translators.save(tmp_path / "bart", "bart")
    build(family).save_pretrained(folder)
    config = AutoConfig.from_pretrained(folder)
    BartForSequenceClassification(config).save_pretrained(folder)
    task = TASKS["klue-nli"]
    tokenizer = heads.tokenizer_for(folder, task)
    shape = heads.shape_of(folder, task, tokenizer)
    coder = heads.CODERS["pair"](task, shape)
    texts = ["a book", "a </s> b", "a </s></s> b"]
    examples = [TextExample(str(n), one, "책", "neutral") for n, one in enumerate(texts)]
    items = coder.encode(examples)
    made = Finetuning(heads.build(folder, task, tokenizer, 0), coder, shape, items, [], 4_096)
    said, _ = made.predict(made.module, accelerator, examples, items)
    assert len(said) == 3


# -- who is refused


@pytest.mark.parametrize("kind", ["convbert", "fnet", "nystromformer", "yoso"])
def test_architectures_whose_scores_depend_on_padding_are_refused(kind):
    config = AutoConfig.for_model(kind)
    for head in ("sequence", "token", "span", "parser"):
        with pytest.raises(UnsupportedModelError, match=f"'{kind}' let padding change"):
            heads.forward_of(config, head)


@pytest.mark.parametrize(
    "name", ["target_vocab.json", "vocab-src.json", "dict.txt", "bpe.codes", "source.spm"]
)
def test_a_checkpoint_with_another_tokenizer_file_is_another(name, tmp_path):
    """Of Marian, FSMT, BARTpho and XLM: results of the old one were kept."""
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    without = heads.settings_fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("no part of it", encoding="utf-8")
    assert heads.settings_fingerprint(tmp_path) == without
    (tmp_path / name).write_text("a", encoding="utf-8")
    first = heads.settings_fingerprint(tmp_path)
    (tmp_path / name).write_text("b", encoding="utf-8")
    assert len({without, first, heads.settings_fingerprint(tmp_path)}) == 3
