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
    AutoModelForTokenClassification,
    BartForSequenceClassification,
    PreTrainedTokenizerFast,
)

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import heads
from lingraft.finetuning.problem import Finetuning
from lingraft.models.export import settings_for_4_57
from lingraft.models.graft import untie
from lingraft.tasks import TASKS
from lingraft.tasks.definition import task_in
from lingraft.tasks.examples import Entity, RelationExample, SpanExample, TaggedExample, TextExample
from lingraft.tokenizer import files as tokenizer_files

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


def test_tags_in_another_order_keep_their_rows(checkpoint):
    task = TASKS["klue-ner"]
    folder = checkpoint("bert", AutoModelForTokenClassification, [*reversed(task.labels)])
    stock = logits(AutoModelForTokenClassification.from_pretrained(folder).eval())
    torch.testing.assert_close(logits(built(folder, task)), stock.flip(-1))


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


def test_what_a_checkpoint_was_before_does_not_stay_in_its_configuration(checkpoint, tmp_path):
    folder = checkpoint("bert", num_labels=1, problem_type="regression")
    for name, kind in (
        ("klue-nli", "single_label_classification"), ("klue-sts", "regression"),
        ("klue-ner", None), ("klue-mrc", None),
    ):  # fmt: skip
        task = TASKS[name]
        tokenizer = heads.tokenizer_for(folder, task)
        heads.save(built(folder, task), tokenizer, tmp_path / name)
        assert json.loads((tmp_path / name / "config.json").read_text()).get("problem_type") == kind
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path / "klue-nli")
    with torch.no_grad():
        nats = stock(input_ids=IDS, labels=torch.tensor([1])).loss
    torch.testing.assert_close(nats, -logits(stock).log_softmax(-1)[0, 1])


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


def test_a_translator_with_a_head_of_its_own_says_so(tmp_path):
    """What transformers 5 makes of T5 1.1 says that it has none, which 4.57 believes."""
    folder = tiny_translators.save(tmp_path / "t5", "t5")
    model = tiny_translators.translator("t5")
    untie(model)
    model.lm_head.weight.data.normal_()
    model.save_pretrained(folder)
    task = task_in(tiny_translators.write_task(tmp_path / "task"))
    tokenizer = heads.tokenizer_for(folder, task)
    heads.save(heads.build(folder, task, tokenizer, 0), tokenizer, tmp_path / "best")
    assert (
        json.loads((tmp_path / "best" / "config.json").read_text())["tie_word_embeddings"] is False
    )


@pytest.mark.parametrize(("name", "special"), [("klue-nli", 1), ("klue-nli", 0), ("klue-re", 0)])
def test_special_tokens_without_a_row_are_spoken_of_but_for_markers(
    name, special, checkpoint, caplog
):
    folder = checkpoint("roberta")
    tokenizer = tokenizer_files.load(folder)
    tokenizer.add_special_tokens({"extra_special_tokens": ["<image>"][:special]})
    tokenizer_files.save(tokenizer, folder)
    built(folder, TASKS[name])
    assert ("1 pieces of its tokenizer have no row" in caplog.text) is (special == 1)
    assert ("no row" in caplog.text) is (special == 1)


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


def test_a_passage_is_read_from_its_beginning_by_a_tokenizer_that_cuts_there(checkpoint):
    folder = checkpoint("bert")
    example = SpanExample("0", "책을", "나는 책을 읽고 문서를 저장한다. " * 30, ())
    _, windows = ids_of(folder, "klue-mrc", example)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncation_side": "left"}))
    _, of_other_side = ids_of(folder, "klue-mrc", example)
    assert len(windows) > 1
    assert windows == of_other_side


def test_a_word_that_is_too_long_is_still_the_unknown_token(tiny_source):
    words = ("</s>", "책을" * 40, "나는")
    example = TaggedExample("0", words, ("NOUN",) * 3)
    tokenizer, found = ids_of(tiny_source("roberta"), "udpos-en", example, 24)
    ids = [one for part in found for one in part]
    assert ids.count(tokenizer.unk_token_id) == 1
    assert ids.count(tokenizer.eos_token_id) == len(found)


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
