import math

import numpy as np
import pytest

from lingraft.evaluation.intrinsic import HITS
from lingraft.evaluation.records import (
    BLOCKS,
    WordRecord,
    by_place,
    key,
    on_common,
    read,
    text_of,
    word_blocks,
    word_metrics,
)
from lingraft.evaluation.scorer import Scorer
from lingraft.pipeline import evaluating


def record(number, *, tokens=2, right=1, nats=3.0, characters=4):
    return WordRecord(key(f"sentence {number}", 0, characters), characters, tokens, right, nats)


def totals(found):
    sums, counts = np.array(found).sum(0)
    return sums / counts


def written(path, records):
    path.write_text(text_of(records), encoding="utf-8")
    return path


def test_a_text_is_cut_into_fifty_contiguous_blocks_of_like_size():
    where = by_place(1_234)
    assert where.tolist() == sorted(where)
    assert set(where.tolist()) == set(range(BLOCKS))
    assert set(np.bincount(where).tolist()) <= {24, 25}


def test_blocks_of_the_intrinsic_metrics_add_up_to_the_metrics(tiny_model, tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    lines = [f"문서를 {number}번 열고 저장합니다." for number in range(60)]
    encoded = [np.array(row) for row in tokenizer(lines)["input_ids"]]
    scorer = Scorer(tiny_model("roberta"), tokenizer.pad_token_id, "fp32")
    result = evaluating.evaluate_sentences(scorer, tokenizer, encoded, rate=0.3, seed=0, number=0)
    metrics, kept = result["metrics"]["mask-only"], result["blocks"]["mask-only"]
    assert {len(of) for of in kept.values()} == {BLOCKS}
    assert sum(count for _, count in kept["loss"]) == metrics["positions"]
    assert totals(kept["loss"]) == pytest.approx(metrics["loss"], rel=1e-5)
    assert totals(kept["mrr"]) == pytest.approx(metrics["mrr"], rel=1e-5)
    assert totals(kept["mr"]) == pytest.approx(metrics["mr"], rel=1e-5)
    for k in HITS:
        assert 100 * totals(kept[f"hits@{k}"]) == pytest.approx(metrics[f"hits@{k}"])


def test_blocks_of_words_add_up_to_the_metrics_of_words():
    records = [
        record(n, tokens=1 + n % 3, right=n % 2, nats=0.1 * n, characters=1 + n % 7)
        for n in range(300)
    ]
    metrics, kept = word_metrics(records), word_blocks(records)
    bits = totals(kept["bits_per_character"])
    assert bits == pytest.approx(metrics["bits_per_character"], rel=1e-5)
    assert 100 * totals(kept["exact"]) == pytest.approx(metrics["exact"])
    assert sum(count for _, count in kept["bits_per_character"]) == metrics["characters"]


def test_the_block_of_a_word_depends_on_its_sentence_alone():
    one = [WordRecord(key("문장", *place), 2, 1, 0, 1.0).block for place in ((0, 2), (3, 5))]
    assert one[0] == one[1]
    assert {record(number).block for number in range(1_000)} == set(range(BLOCKS))


def test_records_come_back_from_their_file(tmp_path):
    records = [record(0, nats=3.25), record(1, tokens=0, right=0, nats=0.0)]
    assert read(written(tmp_path / "words.tsv", records)) == records


def test_a_word_dropped_for_one_model_is_dropped_for_all(tmp_path):
    ours = [record(0, nats=1.0), record(1, nats=2.0), record(2, nats=4.0)]
    theirs = [record(0, nats=3.0), record(1, tokens=0, right=0, nats=0.0), record(2, nats=5.0)]
    files = [written(tmp_path / name, of) for name, of in (("a", ours), ("b", theirs))]
    found = on_common(files)
    assert found.words == 2
    assert found.dropped == pytest.approx(1 / 3)
    bits = [nats / math.log(2) / 8 for nats in (5.0, 8.0)]
    assert found.bits_per_character == pytest.approx(bits)
