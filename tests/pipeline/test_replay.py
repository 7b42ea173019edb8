"""Replayed text: text of the source's language in a run of a causal model."""

import numpy as np
import pytest
import tiny_judged

from lingraft.rundir import Run

WORDS = ("the", "dog", "door", "rain", "he", "was", "because", "it", "and")
SHARE = 0.3


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    """English to read again, and some to be scored on."""
    folder, drawn = tmp_path_factory.mktemp("english"), np.random.default_rng(0)
    for name, count in (("en", 150), ("kept", 40)):
        lines = [" ".join(drawn.choice(WORDS, drawn.integers(4, 12))) + ".\n" for _ in range(count)]
        (folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
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
        settings = (
            "training.batch={size=500, unit='tokens'}",
            "tokenizer.max_tokens=64",
            "evaluation.samples=0",
            "evaluation.max_sentences=40",
            "evaluation.untouched=false",
            "hardware.precision='fp32'",
        )
        ended = command(
            *("adapt", "--source", source, *texts, "--out", folder / name, "--budget", "30steps"),
            *("training.preset=xpt2021", "tokenizer.vocab_size=400", "training.learning_rate=5e-3"),
            *(f"evaluation.kept={english / 'kept.txt'}", *settings),
        )
        assert ended.status == 0, ended.err
        return Run(folder / name)

    return run("plain", *alone), run("replayed", *replay)


@pytest.mark.slow
def test_replayed_text_has_the_share_of_the_tokens_that_was_asked_for(runs):
    """On average exactly; what 30 steps drew is a sample of 500 documents."""
    drawn, every = 0, 0
    counts = runs[1].stage("tokenizer").result()["streams"]
    means = [counts[name]["tokens"]["train"] for name in ("ko", "en")]
    means = [split["tokens"] / split["sentences"] for split in means]
    for name in ("phase-1", "phase-2"):
        result = runs[1].stage(name).result()
        streams = result["streams"]
        assert list(streams) == ["ko/clm", "en/clm"]
        assert sum(one["tokens"] for one in streams.values()) == result["tokens"]
        of_tokens = [one["probability"] * m for one, m in zip(streams.values(), means, strict=True)]
        assert of_tokens[1] / sum(of_tokens) == pytest.approx(SHARE, rel=0.03)
        drawn, every = drawn + streams["en/clm"]["tokens"], every + result["tokens"]
    assert drawn / every == pytest.approx(SHARE, abs=0.06)
    assert "streams" not in runs[0].stage("phase-1").result()


def test_the_report_says_how_much_was_replayed(runs):
    report = (runs[1].path / "report.html").read_text(encoding="utf-8")
    assert "share of tokens" in report
    assert "share of tokens" not in (runs[0].path / "report.html").read_text(encoding="utf-8")


def test_replay_keeps_more_of_the_source_s_language(runs):
    plain, replayed = (
        run.stage("evaluation").result()["kept"]["kept.txt"]["likelihood"]["bits_per_byte"]
        for run in runs
    )
    assert replayed < plain - 0.2


def test_the_vocabulary_is_that_of_the_target_s_text_alone(runs):
    texts = [(run.stage("tokenizer").path / "tokenizer.json").read_text() for run in runs]
    assert texts[0] == texts[1]
