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


def test_replay_keeps_more_of_the_source_s_language(runs):
    plain, replayed = (
        run.stage("evaluation").result()["kept"]["kept.txt"]["likelihood"]["bits_per_byte"]
        for run in runs
    )
    assert replayed < plain - 0.2
