"""Fine-tuning on translation: targets, loss, batches, averages, scores, whole runs."""

import hashlib
import signal
from dataclasses import replace

import numpy as np
import pytest
import tiny_translators as tiny
import torch
import transformers as hf
from sacrebleu.metrics import BLEU, CHRF
from safetensors.torch import load_file
from stopping import terminated_at
from task_settings import with_settings
from torch import nn

from lingraft.errors import UnsupportedModelError
from lingraft.finetuning.coders.common import InputShape
from lingraft.finetuning.coders.translation import TranslationCoder
from lingraft.finetuning.outcomes import outcomes
from lingraft.finetuning.problem import TASK
from lingraft.report.scored import jackknife
from lingraft.tasks import TASKS
from lingraft.tasks.decoding import task_in
from lingraft.tasks.examples import TranslationExample, TranslationPrediction
from lingraft.training import checkpoint

EVERY_MODEL = pytest.mark.parametrize("kind", ["encoder-decoder", "bart", "t5", "marian"])
BY_HEART = 'steps=150 batch=8 batch_unit="examples" learning_rate=0.01 dropout=0 warmup=0.1'
BY_HEART += " attention_dropout=0 check_every=75"
SHORT_RUN = "steps=8 batch=60 learning_rate=0.003 check_every=2 average_last=3 dropout=0.1"


def with_codes(task, codes):
    return replace(task, table=task.table.model_copy(update={"codes": codes}))


@pytest.fixture
def problem(tmp_path, finetuning):
    """A tiny model without dropout on eight pairs, with the stock model beside it."""

    def made(kind, tokens=4_096, **settings):
        folder = tmp_path / kind
        if not folder.is_dir():
            tiny.save(folder, kind)
        task = with_settings(task_in(tiny.write_task(tmp_path / "task")), **settings)
        examples = [TranslationExample(str(n), *pair) for n, pair in enumerate(tiny.PAIRS)]
        return finetuning(folder, task, examples, tokens)

    return made


# -- targets, loss and batches


@EVERY_MODEL
def test_the_loss_is_that_of_the_stock_model_over_the_real_targets(kind, problem, tmp_path):
    made = problem(kind)
    ((_, batch),) = made.batches(made.items, predict=True)
    made.module.eval()
    with torch.no_grad():
        losses, _ = made.module(batch)
        stock = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / kind).eval()
        labels = batch.targets["labels"]
        logits = stock(**batch.inputs, decoder_input_ids=batch.targets["decoder_input_ids"]).logits
        expected = nn.functional.cross_entropy(logits.mT, labels, reduction="sum")
    assert (labels == -100).any()
    torch.testing.assert_close(losses[TASK].nats, expected, rtol=1e-5, atol=1e-4)


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
    for one, other in zip(whole, gradient(problem(kind, tokens=40), num_ranks), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def old_nllb():
    return hf.NllbTokenizer(legacy_behaviour=True)


@pytest.mark.parametrize(
    "kind", [hf.NllbTokenizer, old_nllb, hf.MBart50Tokenizer, hf.MBartTokenizer]
)
def test_the_target_language_comes_first(kind, tmp_path):
    codes = ("eng_Latn", "kor_Hang") if kind in (hf.NllbTokenizer, old_nllb) else ("en_XX", "ko_KR")
    task = with_codes(task_in(tiny.write_task(tmp_path)), codes)
    tokenizer = kind()
    source, target = tokenizer.convert_tokens_to_ids(list(codes))
    shape = InputShape(tokenizer, 1, 64, types=False, generation=hf.GenerationConfig(**tiny.IDS))
    coder = TranslationCoder(task, shape)
    (item,) = coder.encode([TranslationExample("0", "a", "a")])
    assert source in item.ids
    assert item.target[-1] == 2
    read = [coder.start, *item.target]
    assert read.index(target) == (0 if kind is hf.MBartTokenizer else 1)
    assert read.count(target) == 1
    model = tiny.translator("bart")
    coder.adapt(model)
    key = "decoder_start_token_id" if kind is hf.MBartTokenizer else "forced_bos_token_id"
    assert getattr(model.generation_config, key) == target
    for wrong in (None, ("en", codes[1])):
        with pytest.raises(UnsupportedModelError, match="are not two languages"):
            TranslationCoder(with_codes(task, wrong), replace(shape, tokenizer=kind()))


# -- averages


def test_scores_and_blocks_of_sentences_are_sacrebleus_of_corpora_of_them():
    right = ["The cat sat on the mat.", "It's a well-known fact, isn't it?", "No."] * 4
    said = ["The cat sat on a mat.", "It is a well-known fact, is it not?", ""] * 4
    task = replace(TASKS["klue-nli"], metrics=("bleu", "chrf"), selection="bleu")
    examples = [TranslationExample(str(n), "x", one, "en") for n, one in enumerate(right)]
    made = [TranslationPrediction(str(n), one) for n, one in enumerate(said)]
    functions = task.score_functions(examples, made)

    def corpus(metric, counts):
        draw = np.repeat(np.arange(12), counts)
        return metric.corpus_score([said[i] for i in draw], [[right[i] for i in draw]]).score

    for counts in (np.ones(12, int), np.array([2, 0, 1, 0, 1, 3, 0, 0, 1, 1, 0, 2])):
        for name, metric in (("bleu", BLEU()), ("chrf", CHRF(word_order=2))):
            expected = pytest.approx(corpus(metric, counts), abs=1e-9)
            assert functions[name](counts[None])[0] == expected
    whole = corpus(BLEU(), np.ones(12, int))
    left = np.array([corpus(BLEU(), np.arange(12) != block) for block in range(12)])
    blocks = jackknife(range(12), {"bleu": functions["bleu"]}, {"bleu": whole})["bleu"]
    found = [100 * share for share, count in blocks if count]
    assert found == pytest.approx(whole + 11 * (left.mean() - left), abs=1e-5)


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
    run(kind, "out", BY_HEART, "keep_models=true").well()
    (found,) = outcomes(tmp_path / "out")
    assert found.scores("test")["bleu"] == pytest.approx(100)
    assert found.signatures["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    best = found.folder / "best"
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(best)
    tokenizer = hf.AutoTokenizer.from_pretrained(best)
    ids = tokenizer([tiny.PAIRS[3][0]], return_tensors="pt").input_ids
    said = tokenizer.decode(model.generate(ids, max_new_tokens=40)[0], skip_special_tokens=True)
    assert said.strip() == tiny.PAIRS[3][1]


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
    assert one.averaged == (4, 6, 8)
    assert weights(one.folder) == weights(other.folder)
    assert one.splits == other.splits
    assert not (one.folder / checkpoint.LOOKS).exists()
    assert load_file(one.folder / "best" / "model.safetensors")
