"""Fine-tuning on translation: targets, loss, batches, averages, scores, whole runs."""

import hashlib
import json
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tiny_translators as tiny
import torch
from sacrebleu.metrics import BLEU
from safetensors.torch import load_file
from stopping import terminated_at
from tiny_tokenizers import build
from torch import nn
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    MBart50Tokenizer,
    MBartTokenizer,
    NllbTokenizer,
)

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning import dropout, heads
from lingraft.finetuning.cells import Cell
from lingraft.finetuning.coders.common import Shape, log_cuts
from lingraft.finetuning.coders.translation import TranslationCoder
from lingraft.finetuning.outcomes import outcomes
from lingraft.finetuning.problem import TASK, Finetuning, Judged
from lingraft.models.losses import summed_cross_entropy
from lingraft.tasks import TASKS, Data
from lingraft.tasks.definition import task_in
from lingraft.tasks.examples import TranslationExample, TranslationPrediction
from lingraft.training import checkpoint

EVERY_MODEL = pytest.mark.parametrize("kind", ["encoder-decoder", "bart", "t5", "marian"])
BY_HEART = 'steps=150 batch=8 batch_unit="examples" learning_rate=0.01 dropout=0 warmup=0.1'
BY_HEART += " attention_dropout=0 check_every=75"
SHORT_RUN = "steps=8 batch=60 learning_rate=0.003 check_every=2 average_last=3 dropout=0.1"


def with_codes(task, codes):
    return replace(task, table=task.table.model_copy(update={"codes": codes}))


@pytest.fixture
def problem(tmp_path):
    """A tiny model without dropout on eight pairs, with the stock model beside it."""

    def made(kind, micro_batch_tokens=4_096, **settings):
        folder = tmp_path / kind
        if not folder.is_dir():
            tiny.save(folder, kind)
        task = task_in(tiny.write_task(tmp_path / "task"))
        none = {"dropout": 0.0, "attention_dropout": 0.0}
        task = replace(task, settings=task.settings.model_copy(update=none | settings))
        tokenizer = heads.tokenizer_for(folder, task)
        model = heads.build(folder, task, tokenizer, seed=0)
        coder = heads.CODERS[task.kind](task, heads.shape_of(folder, task, tokenizer))
        examples = [TranslationExample(str(n), *pair) for n, pair in enumerate(tiny.PAIRS)]
        items = coder.encode(examples)
        judged = [Judged("dev", task, examples, items)]
        return Finetuning(model, coder, coder.shape, items, judged, micro_batch_tokens)

    return made


# -- targets, loss and batches


def test_label_smoothing_is_fairseqs_formula():
    logits, gold, share = torch.randn(5, 7), torch.tensor([1, 6, 0, -100, 3]), 0.2
    logs = logits.log_softmax(-1)
    expected = sum(
        -(1 - share) * logs[row, one] - share / 7 * logs[row].sum()
        for row, one in enumerate(gold.tolist())
        if one >= 0
    )
    torch.testing.assert_close(summed_cross_entropy(logits, gold, share), expected)


@EVERY_MODEL
def test_the_loss_is_that_of_the_stock_model_over_the_real_targets(kind, problem, tmp_path):
    made = problem(kind)
    ((_, batch),) = made.batches(made.items, predict=True)
    made.module.eval()
    with torch.no_grad():
        losses, _ = made.module(batch)
        stock = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / kind).eval()
        labels = batch.targets["labels"]
        logits = stock(**batch.inputs, decoder_input_ids=batch.targets["decoder_input_ids"]).logits
        expected = nn.functional.cross_entropy(logits.mT, labels, reduction="sum")
    assert (labels == -100).any()
    torch.testing.assert_close(losses[TASK].nats, expected, rtol=1e-5, atol=1e-4)


def test_a_target_has_no_opening_token_and_one_end(problem):
    made = problem("bart")
    (first, *_), tokenizer = made.items, made.shape.tokenizer
    said = tokenizer.decode(first.target[:-1])
    assert (said.strip(), first.target[-1]) == (tiny.PAIRS[0][1], 2)
    assert (first.ids[0], first.ids[-1]) == (0, 2)
    targets = made.coder.targets(made.items, 0)
    assert targets["decoder_input_ids"][:, 0].tolist() == [2] * 8
    real = targets["labels"][:, :-1] != -100
    read = targets["decoder_input_ids"][:, 1:]
    assert (read == torch.where(targets["labels"][:, 1:] != -100, read, 1)).all()
    assert (read == targets["labels"][:, :-1])[real & (read != 1)].all()


@EVERY_MODEL
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_micro_batches_and_processes_give_the_gradient_of_the_big_batch(kind, num_ranks, problem):
    def gradient(made, ranks):
        for rank in range(ranks):
            step = made.step(np.arange(8), 0, rank, ranks)
            for batch, weight in zip(step.micro_batches, step.weights, strict=True):
                (made.module(batch)[TASK].nats * weight / step.targets[TASK]).backward()
        return [p.grad for p in made.model.parameters() if p.grad is not None]

    whole = gradient(problem(kind), 1)
    parts = gradient(problem(kind, micro_batch_tokens=40), num_ranks)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def test_long_pairs_are_left_out_of_training_and_cut_elsewhere(problem, caplog):
    made = problem("bart", max_length=16)
    long = TranslationExample("long", "책을 " * 40, "a book " * 40)
    short = TranslationExample("short", "책", "book")
    kept = made.coder.encode_training([long, short])
    assert [item.example for item in kept] == [1]
    assert "1 of 2 pairs have more than 16 tokens" in caplog.text
    cut, whole = made.coder.encode([long, short])
    assert (cut.cut, len(cut.ids), len(cut.target)) == (True, 16, 16)
    assert not whole.cut
    caplog.set_level("INFO")
    log_cuts([cut, whole], made.coder, "ko-en dev")
    assert "1 of 2 inputs are longer than 16 tokens on a side; the loss does not" in caplog.text


def test_a_translation_reads_its_source_beyond_the_max_length_of_training(problem, monkeypatch):
    made = problem("bart", max_length=16)
    (item,), read = made.coder.encode([TranslationExample("long", "책을 " * 8, "book")]), []
    inner = made.model.generate
    monkeypatch.setattr(
        made.model, "generate", lambda **kw: read.append(kw["input_ids"]) or inner(**kw)
    )
    made.coder.generate(made.model, [item], [0], int, best=True)
    assert (item.cut, len(item.ids)) == (True, 16)
    assert 16 < read[0].shape[1] <= 64


def test_special_tokens_in_a_text_are_text_and_the_saved_tokenizer_reads_as_before(problem):
    made = problem("bart")
    (item,) = made.coder.encode([TranslationExample("0", "a </s> b", "b </s> a")])
    assert (item.ids.tolist().count(2), item.target.tolist().count(2)) == (1, 1)
    assert made.shape.tokenizer("a </s> b")["input_ids"].count(2) == 2


def old_nllb():
    return NllbTokenizer(legacy_behaviour=True)


@pytest.mark.parametrize("kind", [NllbTokenizer, old_nllb, MBart50Tokenizer, MBartTokenizer])
def test_the_target_language_comes_first(kind, tmp_path):
    codes = ("eng_Latn", "kor_Hang") if kind in (NllbTokenizer, old_nllb) else ("en_XX", "ko_KR")
    task = with_codes(task_in(tiny.write_task(tmp_path)), codes)
    tokenizer = kind()
    source, target = tokenizer.convert_tokens_to_ids(list(codes))
    shape = Shape(tokenizer, 1, 64, types=False, generation=GenerationConfig(**tiny.IDS))
    coder = TranslationCoder(task, shape)
    (item,) = coder.encode([TranslationExample("0", "a", "a")])
    assert source in item.ids
    assert item.target[-1] == 2
    read = [coder.start, *item.target]
    assert read.index(target) == (0 if kind is MBartTokenizer else 1)
    assert read.count(target) == 1
    model = tiny.translator("bart")
    coder.adapt(model)
    key = "decoder_start_token_id" if kind is MBartTokenizer else "forced_bos_token_id"
    assert getattr(model.generation_config, key) == target
    for wrong, said in ((None, "say which two"), (("en", codes[1]), "are not both languages")):
        with pytest.raises(UnsupportedModelError, match=said):
            TranslationCoder(with_codes(task, wrong), replace(shape, tokenizer=kind()))


def test_dropout_reaches_both_stacks(tmp_path):
    changes = {"dropout": 0.3, "attention_dropout": 0.2}
    for kind, found in (("encoder-decoder", {0.2, 0.3}), ("t5", {0.3})):
        folder = tiny.save(tmp_path / kind, kind)
        task = task_in(tiny.write_task(tmp_path / "task"))
        task = replace(task, settings=task.settings.model_copy(update=changes))
        model = heads.build(folder, task, heads.tokenizer_for(folder, task), seed=0)
        drops = [one for one in model.modules() if isinstance(one, nn.Dropout)]
        assert {one.p for one in drops} == found
    config = tiny.translator("bart").config
    wanted = {"dropout": 0.3, "attention_dropout": 0.2}
    assert dropout.whole_model(config, 0.3, 0.2) == wanted
    with pytest.raises(UnsupportedModelError, match="attention_dropout"):
        dropout.whole_model(tiny.translator("t5").config, None, 0.2)


def test_equal_embeddings_stay_one_in_training_and_are_two_on_disk(tmp_path):
    stock = tiny.translator("encoder-decoder")
    stock.encoder.embeddings.load_state_dict(stock.decoder.roberta.embeddings.state_dict())
    stock.save_pretrained(tmp_path / "model")
    build("roberta").save_pretrained(tmp_path / "model")
    task = task_in(tiny.write_task(tmp_path / "task"))
    tokenizer = heads.tokenizer_for(tmp_path / "model", task)
    model = heads.build(tmp_path / "model", task, tokenizer, seed=0)
    assert model.get_encoder().get_input_embeddings().weight is (
        model.get_decoder().get_input_embeddings().weight
    )
    with torch.no_grad():
        model.get_output_embeddings().weight.add_(1)
    heads.save(model, tokenizer, tmp_path / "saved")
    _, info = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not any(info.values())
    again = heads.build(tmp_path / "saved", task, tokenizer, seed=1)
    heads.restore(again, tmp_path / "saved")
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


# -- averages


def test_the_average_is_the_mean_of_the_last_looks(tmp_path):
    models = [nn.Linear(3, 4) for _ in range(5)]
    for step, model in enumerate(models):
        checkpoint.keep_look(tmp_path, model, step, 3)
    mean = nn.Linear(3, 4)
    assert checkpoint.put_mean(tmp_path, mean) == [2, 3, 4]
    expected = torch.stack([model.weight.detach() for model in models[2:]]).mean(0)
    torch.testing.assert_close(mean.weight.detach(), expected)
    checkpoint.keep_look(tmp_path, models[0], 3, 3)  # a run that goes on from step 2
    assert list(checkpoint.kept_looks(tmp_path)) == [2, 3]


# -- scores


@pytest.fixture
def translations():
    """Some right, some not, one empty."""
    right = ["The cat sat on the mat.", "It's a well-known fact, isn't it?", "No."] * 4
    said = ["The cat sat on a mat.", "It is a well-known fact, is it not?", ""] * 4
    return right, said


def scores(right, said):
    metrics = ("bleu", "chrf", "bleu_tokenised", "bleu_tokenised_lc", "bleu_char")
    task = replace(TASKS["klue-nli"], metrics=metrics, selection="bleu")
    examples = [TranslationExample(str(n), "x", one, "en") for n, one in enumerate(right)]
    made = [TranslationPrediction(str(n), one) for n, one in enumerate(said)]
    return task, examples, made


def test_scores_are_those_of_the_sacrebleu_command(translations, tmp_path):
    right, said = translations
    for name, lines in (("ref", right), ("hyp", said)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    task, examples, made = scores(right, said)
    ours = task.score(examples, made)
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf"]
    command += ["--chrf-word-order", "2", "-w", "6"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    bleu, chrf = json.loads(done.stdout)
    assert f"{ours['bleu']:.6f}" == f"{bleu['score']:.6f}"
    assert f"{ours['chrf']:.6f}" == f"{chrf['score']:.6f}"


def test_a_score_of_some_sentences_is_that_of_a_corpus_of_them(translations):
    right, said = translations
    task, examples, made = scores(right, said)
    counts = np.array([2, 0, 1, 0, 1, 3, 0, 0, 1, 1, 0, 2])
    draw = [index for index, count in enumerate(counts) for _ in range(count)]
    expected = BLEU().corpus_score([said[i] for i in draw], [[right[i] for i in draw]]).score
    score = task.score_functions(examples, made)["bleu"]
    assert score(counts[None])[0] == pytest.approx(expected, abs=1e-9)


def test_tokenised_bleu_splits_words_at_dashes_and_may_ignore_case():
    task, examples, made = scores(["a well-known Fact of life ."], ["a well-known fact of life ."])
    found = task.score(examples, made)
    assert found["bleu_tokenised_lc"] == pytest.approx(100)
    one_wrong_of_eight = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(
        ["a well @-@ known fact of life ."], [["a well @-@ known Fact of life ."]]
    )
    assert found["bleu_tokenised"] == pytest.approx(one_wrong_of_eight.score)


# -- whole runs


@pytest.fixture
def run(tmp_path, command):
    """Fine-tunes a tiny model: `run("bart", out, settings)` gives the command's end."""

    def made(kind, out, settings, *arguments, task=None):
        folder = tmp_path / "models" / kind
        if not folder.is_dir():
            tiny.save(folder, kind)
        task = task or tiny.write_task(tmp_path / "task")
        arguments = ("--task", task, "--seeds", 1, *settings.split(), *arguments)
        return command("finetune", folder, *arguments, "--out", tmp_path / out)

    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder-decoder", "marian"])
def test_eight_pairs_are_learnt_by_heart_and_the_checkpoint_is_stock(kind, run, tmp_path):
    ended = run(kind, "out", BY_HEART, "keep_models=true")
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "out")
    assert found.scores("test")["bleu"] == pytest.approx(100)
    assert found.data["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    best = found.folder / "best"
    model = AutoModelForSeq2SeqLM.from_pretrained(best)
    tokenizer = AutoTokenizer.from_pretrained(best)
    ids = tokenizer([tiny.PAIRS[3][0]], return_tensors="pt").input_ids
    said = tokenizer.decode(model.generate(ids, max_new_tokens=40)[0], skip_special_tokens=True)
    assert said.strip() == tiny.PAIRS[3][1]


def test_how_a_checkpoint_writes_counts_for_translations_alone(run, tmp_path):
    assert run("bart", "out", "steps=1 batch=60").status == 0
    place = tmp_path / "models" / "bart" / "generation_config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"num_beams": 3}))
    ended = run("bart", "out", "steps=1 batch=60")
    assert ended.status == 1
    assert "(they differ in: generation_config)" in ended.err
    other = Cell("bart", "bart", place.parent, TASKS["klue-nli"], Data({}, {}, ()), "")
    assert "generation_config" not in other.inputs(0, "fp32")
    place.unlink()  # then config.json says it
    assert "differ in: generation_config" in run("bart", "out", "steps=1 batch=60").err


def weights(folder):
    """The digest of what is kept of a seed."""
    return hashlib.sha256((folder / "best" / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_averaged_weights(run, tmp_path):
    assert run("encoder-decoder", "straight", SHORT_RUN, "keep_models=true").status == 0
    with terminated_at(7):
        ended = run("encoder-decoder", "killed", SHORT_RUN, "keep_models=true")
    assert ended.status == 128 + signal.SIGTERM
    assert run("encoder-decoder", "killed", SHORT_RUN, "keep_models=true").status == 0
    (one,), (other,) = outcomes(tmp_path / "straight"), outcomes(tmp_path / "killed")
    assert one.data["averaged"] == [4, 6, 8]
    assert weights(one.folder) == weights(other.folder)
    assert one.data["splits"] == other.data["splits"]
    assert not (one.folder / checkpoint.LOOKS).exists()
    assert load_file(one.folder / "best" / "model.safetensors")
