"""`lingraft evaluate --text … --against …`: two models on what both score."""

from __future__ import annotations

import json
import math

import pytest

from lingraft.evaluation.records import WordRecord
from lingraft.pipeline import standalone


def evaluated(command, model, text, *against, more=()):
    words = ("evaluate", model, "--text", text, "--against", *against, "precision=fp32", "--json")
    ended = command(*words, "max_sentences=200", *more)
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


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
    alone = json.loads(
        command("evaluate", tiny_source("roberta"), "--text", korean_text, "precision=fp32",
                "max_sentences=200", "--json").out
    )  # fmt: skip
    if source["words"] == alone["words"]["words"]:
        expected = alone["words"]["bits_per_character"]
        assert source["bits_per_character"] == pytest.approx(expected, rel=1e-4)
    low, high = source["difference"]["low"], source["difference"]["high"]
    assert low < source["difference"]["value"] < high
    assert same["difference"]["value"] == same["difference"]["low"] == 0
    assert same["bits_per_character"] == same["bits_per_character_of_the_first"]
    assert same["bits_per_character"] == pytest.approx(
        found["words"]["bits_per_character"], rel=1e-4
    )


def test_causal_models_are_compared_by_the_bytes_of_all_documents(
    tiny_source, korean_text, command, tmp_path
):
    lines = korean_text.read_text(encoding="utf-8").splitlines()[:40]
    text = tmp_path / "documents.jsonl"
    text.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    found = evaluated(command, tiny_source("llama"), text, tiny_source("gpt2"))
    (other,) = found["against_on_text"].values()
    own = found["likelihood"]["bits_per_byte"]
    assert other["bits_per_byte_of_the_first"] == pytest.approx(own, rel=1e-4)
    assert other["difference"]["value"] == pytest.approx(own - other["bits_per_byte"], rel=1e-2)
    assert other["unknown"] == 0
