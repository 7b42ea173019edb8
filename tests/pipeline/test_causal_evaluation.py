"""A causal run is judged beside its untouched source, on the same bytes."""

import json
import math

import pytest
import tiny_judged
import torch

from lingraft.evaluation.scorer import Scorer
from lingraft.models.loading import load
from lingraft.pipeline.causal_evaluation import ScoredModel
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    english = "\n\n".join(f"The dog ran {n} times to the door." for n in range(40))
    (folder / "en.txt").write_text(english)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return tiny_judged.save(tmp_path_factory.mktemp("judged") / "source")


@pytest.fixture(scope="module")
def run(tmp_path_factory, source, files, korean_text, command):
    out = tmp_path_factory.mktemp("judged") / "run"
    ended = command(
        *("adapt", "--source", source, "--text", korean_text, "--lang", "ko", "--out", out),
        *(
            "training.preset=xpt2021",
            "--budget",
            "4steps",
            "tokenizer.vocab_size=400",
            f"evaluation.kept={files / 'en.txt'}",
        ),
        *("training.batch={size=500, unit='tokens'}", "tokenizer.max_tokens=64"),
        *("evaluation.samples=2",),
        *("evaluation.max_sentences=60", "hardware.precision='fp32'"),
        *("--baseline", "scratch"),
    )
    assert ended.status == 0, ended.err
    return Run(out)


@pytest.fixture(scope="module")
def result(run):
    return run.stage("evaluation").result()


def test_source_and_model_are_scored_on_the_same_bytes(result):
    ours, theirs = result, result["untouched"]["streams"][""]
    assert ours["text"] == theirs["text"]
    for key in ("documents", "bytes", "characters"):
        assert ours["likelihood"][key] == theirs["likelihood"][key]
    assert ours["likelihood"]["tokens"] < theirs["likelihood"]["tokens"]
    assert ours["masks"]["fingerprint"] != theirs["masks"]["fingerprint"]


def test_kept_text_is_scored_by_both_and_is_whole(result, files):
    text = (files / "en.txt").read_text()
    for side in (result, result["untouched"]):
        kept = side["kept"]["en.txt"]
        assert kept["likelihood"]["documents"] == 40
        assert kept["likelihood"]["bytes"] == len(text) - 2 * 39
    assert result["kept"]["en.txt"]["text"] == result["untouched"]["kept"]["en.txt"]["text"]


def test_bits_of_kept_text_are_the_sums_of_the_stock_model(result, source, files):
    model, _ = load(str(source))
    tokenizer = tokenizer_files.load(str(source))
    nats = size = 0.0
    for text in (files / "en.txt").read_text().split("\n\n"):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            nats += float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
        size += len(text.encode())
    found = result["untouched"]["kept"]["en.txt"]["likelihood"]["bits_per_byte"]
    assert found == pytest.approx(nats / math.log(2) / size, rel=1e-4)


def test_evaluate_gives_the_same_bits_as_the_run(run, source, files, command):
    ended = command("evaluate", source, "--text", files / "en.txt", "precision=fp32", "--json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    expected = run.stage("evaluation").result()["untouched"]["kept"]["en.txt"]["likelihood"]
    assert found["likelihood"] == pytest.approx(expected)
    assert found["next_token"]["positions"] == found["masks"]["positions"]


def test_a_judged_model_reads_no_more_than_it_was_trained_on(source):
    assert ScoredModel.load(str(source), "fp32", 32).context == 32
    assert ScoredModel.load(str(source), "fp32").context == tiny_judged.LONGEST
    assert isinstance(ScoredModel.load(str(source), "fp32").scorer, Scorer)
