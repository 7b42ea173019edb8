"""A run with two languages: its files, its numbers, and that it resumes to the same weights."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.torch import load_file

from lingraft.rundir import Run
from lingraft.tokenizer.shards import Tokens

WORDS = ("the", "a", "old", "small", "green", "house", "tree", "dog", "walks", "runs", "sees")


@pytest.fixture(scope="module")
def english_text(tmp_path_factory):
    """A text file of 90 made-up English sentences: a fourth of the Korean ones."""
    drawn = np.random.default_rng(0)
    lines = [" ".join(drawn.choice(WORDS, drawn.integers(4, 12))) + ".\n" for _ in range(90)]
    path = tmp_path_factory.mktemp("english") / "en.txt"
    path.write_text("".join(lines), "utf-8")
    return path


SETTINGS = "training.preset=xpt2021 training.batch={size=8} tokenizer.vocab_size=400"
SETTINGS += " tokenizer.max_tokens=64 hardware.row_tokens=64 hardware.checkpoint_steps=2"
SETTINGS += " hardware.precision=fp32 hardware.log_steps=1 evaluation.max_sentences=20"
SETTINGS += " evaluation.max_words=10 streams.1.corpus.valid=0.1 streams.1.corpus.test=0.1"


@pytest.fixture(scope="module")
def arguments(tiny_source, korean_text, english_text):
    """The command of a run with two streams, to a folder."""

    def of(out, *more):
        texts = ("--text", f"ko={korean_text}", f"en={english_text}")
        source = ("adapt", "--source", tiny_source("roberta"), *texts, "--out", out)
        return (*source, "--budget", "8steps", *SETTINGS.split(), *more)

    return of


@pytest.fixture(scope="module")
def finished(command, arguments, tmp_path_factory):
    out = tmp_path_factory.mktemp("streams") / "run"
    command(*arguments(out, "--baseline", "scratch")).well()
    return Run(out)


def streams_of(stage):
    return stage.result()["streams"]


def test_each_stream_has_its_text_and_its_tokens(finished):
    corpus, tokenizer = finished.stage("corpus"), finished.stage("tokenizer")
    for name in ("ko", "en"):
        lines = (corpus.path / name / "train.txt").read_text("utf-8").splitlines()
        tokens = Tokens.open(tokenizer.path, f"{name}-train")
        counts = streams_of(corpus)[name]["splits"]["train"]
        # A line is a document; a long one may be several rows.
        assert len(tokens.documents()) == len(lines) == counts["sentences"] <= len(tokens)
        assert len(tokens) == streams_of(tokenizer)[name]["tokens"]["train"]["sentences"]
    assert corpus.result()["splits"]["train"]["sentences"] == sum(
        stream["splits"]["train"]["sentences"] for stream in streams_of(corpus).values()
    )
    rows = [stream["tokens"]["train"]["sentences"] for stream in streams_of(tokenizer).values()]
    assert tokenizer.result()["tokens"]["train"]["sentences"] == sum(rows)


def test_the_validation_loss_is_given_for_each_stream_and_as_they_are_drawn(finished):
    rows = [row for row in finished.metrics() if row["kind"] == "valid"]
    sizes = streams_of(finished.stage("tokenizer"))
    powers = [sizes[name]["tokens"]["train"]["sentences"] ** 0.7 for name in ("ko", "en")]
    assert rows
    for row in rows:
        ours = [row["loss/ko/mlm"], row["loss/en/mlm"]]
        expected = np.dot(ours, powers) / sum(powers)
        assert ours[0] != ours[1]
        assert row["loss"] == pytest.approx(expected, rel=1e-9)


def test_each_stream_is_evaluated_and_the_first_heads_the_report(finished):
    result = finished.stage("evaluation").result()
    both = result["streams"]
    assert list(both) == ["ko", "en"]
    assert both["ko"]["metrics"] == result["metrics"] != both["en"]["metrics"]
    assert both["ko"]["masks"]["fingerprint"] != both["en"]["masks"]["fingerprint"]
    assert both["en"]["words"]["words"] > 0


def test_a_phase_counts_how_often_it_drew_each_stream(finished):
    for name in ("phase-1", "phase-2"):
        result = finished.stage(name).result()
        streams = result["streams"]
        assert list(streams) == ["ko/mlm", "en/mlm"]
        assert sum(one["draws"] for one in streams.values()) == result["sentences"]
        assert sum(one["tokens"] for one in streams.values()) == result["tokens"]
        assert sum(one["probability"] for one in streams.values()) == pytest.approx(1)
        sizes = [one["sentences"] for one in streams.values()]
        shares = [one["probability"] for one in streams.values()]
        assert shares[0] / shares[1] == pytest.approx((sizes[0] / sizes[1]) ** 0.7)


def weights(run):
    return load_file(run.model_path / "model.safetensors")


def assert_same(ours, theirs):
    expected = weights(theirs)
    assert all(tensor.equal(expected[name]) for name, tensor in weights(ours).items())


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_weights(finished, command, arguments, tmp_path, monkeypatch):
    from lingraft.training import loop

    original, calls = loop._Trainer.take_step, []

    def stopping(self, *rest):
        calls.append(1)
        if len(calls) == 7:  # the third step of phase 2, behind the checkpoint of its second
            self.stop.number = 15
        return original(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Trainer, "take_step", stopping)
        assert command(*arguments(tmp_path / "run")).status == 143
    assert (tmp_path / "run/phase-2/checkpoint-00000003").is_dir()
    assert command(*arguments(tmp_path / "run")).status == 0
    assert weights(Run(tmp_path / "run")).keys() == weights(finished).keys()
    assert_same(Run(tmp_path / "run"), finished)


def test_a_teacher_is_heard_on_english_and_is_not_exported(command, arguments, finished, tmp_path):
    command(*arguments(tmp_path / "run", "--method", "xlm-kd", "--baseline", "xlm")).well()
    run = Run(tmp_path / "run")
    baseline = Run(tmp_path / "run/baselines/xlm", parent=run.path)
    rows = [row for row in run.metrics() if row["kind"] == "train"]
    heard = [row for row in rows if "loss/kd" in row]
    assert 0 < len(heard) < len(rows)  # in some of these small batches there is no English
    assert all(row["loss"] == pytest.approx(row["loss/mlm"] + row["loss/kd"]) for row in heard)
    assert all("loss/kd" not in row for row in baseline.metrics())
    ours, theirs = (one.stage("phase-1").result() for one in (run, baseline))
    for counted in ("tokens", "masked", "streams"):
        assert ours[counted] == theirs[counted]
    start = (one.stage("graft").path / "model/model.safetensors" for one in (run, baseline))
    first, second = (load_file(path) for path in start)
    assert all(first[name].equal(second[name]) for name in second)
    trained = load_file(baseline.weights(["phase-1"]) / "model.safetensors")
    assert weights(run).keys() == trained.keys()
    assert not all(weights(run)[name].equal(trained[name]) for name in trained)
