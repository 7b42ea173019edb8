"""Log-likelihoods of choices: as the stock model's own, and as lm-evaluation-harness has them."""

import json
from pathlib import Path

import numpy as np
import pytest
import tiny_judged
import torch

from lingraft.errors import DataError
from lingraft.evaluation import choices as scoring
from lingraft.evaluation import scorer as scoring_rows
from lingraft.evaluation.scorer import Scorer
from lingraft.tasks import choice_metrics
from lingraft.tasks.choices import Question, read

RECORDED = Path(__file__).parent / "lm_eval"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_judged.tokenizer()


@pytest.fixture(scope="module")
def stock():
    return tiny_judged.model()


@pytest.fixture(scope="module")
def scorer(tokenizer):
    return Scorer(tiny_judged.model(), tokenizer.pad_token_id, "fp32")


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return read(tiny_judged.write_questions(tmp_path_factory.mktemp("questions") / "q.jsonl"))


@pytest.fixture(scope="module")
def result(scorer, tokenizer, questions):
    return scoring.answer(scorer, tokenizer, questions, tiny_judged.LONGEST)


def likelihood(model, tokenizer, question, choice):
    """Of one choice, by the stock forward pass and nothing of ours."""
    context = question.context.rstrip()
    whole = tokenizer(question.context + question.delimiter + choice)["input_ids"]
    before = len(tokenizer(context)["input_ids"])
    ids = torch.tensor([whole[-(tiny_judged.LONGEST + 1) :]])
    with torch.no_grad():
        logits = model(input_ids=ids[:, :-1]).logits[0].double()
    lost = torch.log_softmax(logits, 1).gather(1, ids[0, 1:, None])[:, 0]
    return float(lost[-(len(whole) - before) :].sum())


def test_likelihoods_are_those_of_the_stock_model(result, stock, tokenizer, questions):
    for answered, question in zip(result.answers, questions, strict=True):
        expected = [likelihood(stock, tokenizer, question, one) for one in question.choices]
        assert answered.nats_C == pytest.approx(expected, abs=1e-3, rel=1e-5)


def test_likelihoods_are_those_that_the_harness_recorded(result):
    rows = [json.loads(line) for line in (RECORDED / "samples.jsonl").read_text().splitlines()]
    theirs = {row["doc_id"]: row for row in rows}
    assert len(theirs) == len(result.answers) == 30
    for number, answered in enumerate(result.answers):
        expected = [float(nats) for nats, _ in theirs[number]["filtered_resps"]]
        assert answered.nats_C == pytest.approx(expected, abs=1e-3, rel=1e-5)
        for metric in ("acc", "acc_norm", "acc_bytes"):
            is_right = answered.chosen(metric) == answered.label
            assert is_right == theirs[number][metric]


def test_accuracies_are_those_that_the_harness_recorded(result):
    recorded = json.loads((RECORDED / "results.json").read_text())["results"]["tiny_choices"]
    ours = choice_metrics.metrics(result.answers)
    for metric in ("acc", "acc_norm", "acc_bytes"):
        for name in (metric, f"{metric}_stderr"):
            assert ours[name] == pytest.approx(100 * recorded[f"{name},none"], abs=1e-9)
    assert len({ours[metric] for metric in choice_metrics.METRICS}) == 4  # else nothing is told


def test_questions_that_share_rows_are_scored_as_one_by_one(
    result, scorer, tokenizer, questions, monkeypatch
):
    monkeypatch.setattr(scoring_rows, "TOKENS_AT_ONCE", 1)
    alone = [
        scoring.answer(scorer, tokenizer, [question], tiny_judged.LONGEST).answers[0]
        for question in questions[:8]
    ]
    for one, together in zip(alone, result.answers, strict=False):
        assert one.nats_C == pytest.approx(together.nats_C, abs=1e-4)


def test_a_model_without_a_record_is_scored_on_padded_batches(
    result, tokenizer, questions, monkeypatch
):
    monkeypatch.setattr(scoring_rows, "FAMILIES", {})
    padded = Scorer(tiny_judged.model(), tokenizer.pad_token_id, "fp32")
    assert padded.packed is None
    found = scoring.answer(padded, tokenizer, questions, tiny_judged.LONGEST)
    for one, packed in zip(found.answers, result.answers, strict=True):
        assert one.nats_C == pytest.approx(packed.nats_C, abs=1e-3, rel=1e-5)


def test_long_contexts_lose_their_start_and_are_counted(result, questions, tokenizer):
    long = [q for q in questions if max(map(len, tokenizer([q.context])["input_ids"])) > 96]
    assert len(long) == 1
    assert result.cut == 3


def test_an_empty_context_is_the_begin_of_a_text(tokenizer, questions):
    (empty,) = [question for question in questions if not question.context]
    for (ids, context), choice in zip(scoring.encode(tokenizer, empty), empty.choices, strict=True):
        assert (ids[0], context) == (tokenizer.bos_token_id, 1)
        assert tokenizer.decode(ids[1:]) == f" {choice}"


def test_spaces_behind_a_context_belong_to_the_choice(tokenizer):
    question = Question("q", "He was ", ("the dog", "wet"), 0, "", "here")
    (ids, context), _ = scoring.encode(tokenizer, question)
    assert tokenizer.decode(ids[:context], skip_special_tokens=True) == "He was"
    assert tokenizer.decode(ids[context:]) == " the dog"


def test_what_a_tokenizer_puts_behind_a_text_is_not_scored(tokenizer, questions):
    from tokenizers import processors

    ending = tiny_judged.tokenizer()
    ending.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A $B </s>",
        special_tokens=[("<s>", ending.bos_token_id), ("</s>", ending.eos_token_id)],
    )
    for question in questions[:6]:
        assert scoring.encode(ending, question) == scoring.encode(tokenizer, question)


def test_a_choice_that_the_model_cannot_read_is_refused(scorer, tokenizer):
    question = Question("q", "He", ("was " * 40, "it"), 0, " ", "f.jsonl: line 3")
    with pytest.raises(DataError, match=r"^f.jsonl: line 3: a choice of \d+ tokens is longer"):
        scoring.answer(scorer, tokenizer, [question], 16)


def test_a_choice_that_melts_into_its_context_is_refused(tokenizer):
    question = Question("q", "ra", ("in", ""), 0, "", "f.jsonl: line 3")
    with pytest.raises(DataError, match="has no token of its own"):
        scoring.encode(tokenizer, question)


def test_likelihoods_sum_to_one_over_all_single_tokens(scorer, tokenizer):
    context = np.array(tokenizer("He was")["input_ids"])
    items = [
        scoring_rows.Item(context, np.array([len(context) - 1]), np.array([token]))
        for token in range(len(tokenizer))
    ]
    assert np.exp(-scoring_rows.surprisals(scorer, items, "")[0]).sum() == pytest.approx(
        1, abs=1e-4
    )
