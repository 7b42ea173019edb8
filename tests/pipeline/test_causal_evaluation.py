"""A causal run is judged beside its untouched source, on the same bytes.

Replayed text: text of the source's language in a run of a causal model.
`lingraft evaluate --text … --against …`: two models on what both score.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import tiny_judged
import torch

from lingraft.evaluation.records import WordRecord
from lingraft.evaluation.scorer import Scorer
from lingraft.models.loading import load
from lingraft.pipeline import standalone
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
    command(
        *("adapt", "--source", source, "--text", korean_text, "--lang", "ko", "--out", out),
        *("--budget", "4steps", "--baseline", "scratch", "training.preset=xpt2021"),
        *("training.batch={size=500, unit='tokens'}", "tokenizer.max_tokens=64"),
        *("evaluation.samples=2", "evaluation.max_sentences=60", "hardware.precision='fp32'"),
        *("tokenizer.vocab_size=400", f"evaluation.kept={files / 'en.txt'}"),
    ).well()
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
    words = ("evaluate", source, "--text", files / "en.txt", "precision=fp32", "--json")
    found = json.loads(command(*words).well().out)
    expected = run.stage("evaluation").result()["untouched"]["kept"]["en.txt"]["likelihood"]
    assert found["likelihood"] == pytest.approx(expected)
    assert found["next_token"]["positions"] == found["masks"]["positions"]


def test_a_judged_model_reads_no_more_than_it_was_trained_on(source):
    assert ScoredModel.load(str(source), "fp32", 32).context == 32
    assert ScoredModel.load(str(source), "fp32").context == tiny_judged.LONGEST
    assert isinstance(ScoredModel.load(str(source), "fp32").scorer, Scorer)


WORDS = ("the", "dog", "door", "rain", "he", "was", "because", "it", "and")
SHARE = 0.3


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    """English to read again, and some to be scored on."""
    folder, drawn = tmp_path_factory.mktemp("english"), np.random.default_rng(0)
    for name, count in (("en", 150), ("kept", 40)):
        lines = [" ".join(drawn.choice(WORDS, drawn.integers(4, 12))) + ".\n" for _ in range(count)]
        (folder / f"{name}.txt").write_text("\n".join(lines), "utf-8")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory, english, korean_text, command):
    """A run without replay, and one with it."""
    folder = tmp_path_factory.mktemp("replay")
    source = tiny_judged.save(folder / "source")
    alone = ("--text", korean_text, "--lang", "ko")
    both = ("--text", f"ko={korean_text}", f"en={english / 'en.txt'}")
    replay = (*both, f"training.replay.en={SHARE}", "tokenizer.streams=ko")

    def run(name, *texts):
        settings = ("training.batch={size=500, unit='tokens'}", "tokenizer.max_tokens=64")
        settings += ("evaluation.samples=0", "evaluation.max_sentences=40")
        settings += ("evaluation.untouched=false", "hardware.precision='fp32'")
        command(
            *("adapt", "--source", source, *texts, "--out", folder / name, "--budget", "30steps"),
            *("training.preset=xpt2021", "tokenizer.vocab_size=400", "training.learning_rate=5e-3"),
            *(f"evaluation.kept={english / 'kept.txt'}", *settings),
        ).well()
        return Run(folder / name)

    return run("plain", *alone), run("replayed", *replay)


def test_replay_keeps_more_of_the_source_s_language(runs):
    kept = (run.stage("evaluation").result()["kept"]["kept.txt"] for run in runs)
    plain, replayed = (of["likelihood"]["bits_per_byte"] for of in kept)
    assert replayed < plain - 0.2


def evaluated(command, model, text, *against, more=()):
    words = ("evaluate", model, "--text", text, "--against", *against, "precision=fp32", "--json")
    return json.loads(command(*words, "max_sentences=200", *more).well().out)


def record(number, tokens, nats):
    return WordRecord(f"{number * 2**60:016x}:0-4", 4, tokens, 0, nats)


def test_only_words_that_both_score_count_and_the_difference_is_paired():
    own = [record(n, 2, 4.0 + n) for n in range(15)]
    other = [record(n, 0 if n == 3 else 1, 5.0 + n + n % 2) for n in range(15)]
    own[5] = record(5, 0, 0.0)
    found = standalone._on_common_words(own, other)
    common = [n for n in range(15) if n not in (3, 5)]
    assert (found["words"], found["dropped"]) == (13, 2)
    ours = sum(4.0 + n for n in common) / math.log(2) / 52
    theirs = sum(5.0 + n + n % 2 for n in common) / math.log(2) / 52
    assert found["bits_per_character"] == pytest.approx(theirs, rel=1e-4)
    assert found["bits_per_character_of_the_first"] == pytest.approx(ours, rel=1e-4)
    assert found["difference"]["value"] == pytest.approx(ours - theirs, rel=1e-3)
    assert found["difference"]["high"] < 0
    assert standalone._on_common_words(own[3:4], other[3:4]) == {"words": 0, "dropped": 1}


def test_two_masked_models_are_compared_on_common_words(tiny_source, korean_text, command, adapted):
    run = adapted("roberta") / "model"
    found = evaluated(command, run, korean_text, tiny_source("roberta"), run)
    source, same = found["against_on_text"].values()
    words = found["words"]["words"] + found["words"]["dropped"]
    assert 0 < source["words"] <= found["words"]["words"]
    assert source["words"] + source["dropped"] == words
    low, high = source["difference"]["low"], source["difference"]["high"]
    assert low < source["difference"]["value"] < high
    assert same["difference"]["value"] == same["difference"]["low"] == 0
    assert same["bits_per_character"] == same["bits_per_character_of_the_first"]
    expected = found["words"]["bits_per_character"]
    assert same["bits_per_character"] == pytest.approx(expected, rel=1e-4)


def test_causal_models_compare_by_the_bytes_of_text(tiny_source, korean_text, command, tmp_path):
    lines = korean_text.read_text("utf-8").splitlines()[:40]
    text = tmp_path / "documents.jsonl"
    text.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    found = evaluated(command, tiny_source("llama"), text, tiny_source("gpt2"))
    (other,) = found["against_on_text"].values()
    own = found["likelihood"]["bits_per_byte"]
    assert other["bits_per_byte_of_the_first"] == pytest.approx(own, rel=1e-4)
    assert other["difference"]["value"] == pytest.approx(own - other["bits_per_byte"], rel=1e-2)
    assert other["unknown"] == 0
