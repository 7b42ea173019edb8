"""Bits per character of words, and the records by which models are compared."""

import math
import zlib

import numpy as np
import pytest
from transformers import BertTokenizer

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
from lingraft.evaluation.words import Word, measure
from lingraft.pipeline import evaluating

SENTENCES = ["나는 학교에 가서 책을 읽었다.", "문서를 열고 저장합니다.", "2024 ? !"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "나", "##는", "책", "##을", "읽", ".", "가"]


def tokenizer_of(pieces):
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    return BertTokenizer(vocab=vocabulary, do_lower_case=False, strip_accents=False)


def bits_per_character(*given):
    return word_metrics(measure(*given))


def uniform(size):
    return lambda item, place: [0.0] * size


def test_uniform_logits_cost_log2_of_the_vocabulary_a_token(known_scorer):
    tokenizer = tokenizer_of(PIECES)
    words = [Word("나는 책을", 0, 2), Word("나는 책을 읽.", 6, 8)]
    found = bits_per_character(known_scorer(uniform(12)), tokenizer, words, 32)
    assert found == {
        "words": 2,
        "dropped": 0,
        "characters": 4,
        "bits_per_character": pytest.approx(4 * math.log2(12) / 4),
        "exact": 0.0,
    }


def test_a_word_is_scored_from_left_to_right_with_the_rest_hidden(known_scorer):
    tokenizer, seen = tokenizer_of(PIECES), []

    def spy(item, place):
        seen.append((tokenizer.convert_ids_to_tokens(item.ids.tolist()), int(item.masked[place])))
        return [0.0] * 12

    bits_per_character(known_scorer(spy), tokenizer, [Word("나는 책을", 3, 5)], 32)
    assert seen == [
        (["[CLS]", "나", "##는", "[MASK]", "[MASK]", "[SEP]"], 3),
        (["[CLS]", "나", "##는", "책", "[MASK]", "[SEP]"], 4),
    ]


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_a_special_token_that_a_sentence_spells_is_text(family, known_scorer, tiny_tokenizer):
    """Of Unigram it is a piece, which is unknown."""
    tokenizer, seen = tiny_tokenizer(family), []

    def spy(item, place):
        seen.append(item.ids.tolist())
        return [0.0] * len(tokenizer)

    sentence = "a <mask> the </s> dog"
    found = bits_per_character(known_scorer(spy), tokenizer, [Word(sentence, 9, 12)], 64)
    assert found["words"] == 1
    assert seen[-1].count(tokenizer.mask_token_id) == 1
    assert seen[-1].index(tokenizer.eos_token_id) == len(seen[-1]) - 1
    assert (tokenizer.unk_token_id in seen[-1]) == (family == "xlm-roberta")


def test_a_word_is_exact_when_every_token_is_the_first_choice(known_scorer):
    tokenizer = tokenizer_of(PIECES)
    knows_all = {5, 6, 7}
    words = [Word("나는 책을", 0, 2), Word("나는 책을", 3, 5)]

    def almost(item, place):
        gold = int(item.targets[place])
        return [9.0 if index == (gold if gold in knows_all else 0) else 0.0 for index in range(12)]

    found = bits_per_character(known_scorer(almost), tokenizer, words, 32)
    assert found["exact"] == 50.0


def test_words_that_the_tokenizer_lower_cases_or_strips_of_accents_are_dropped(known_scorer):
    pieces = {piece: index for index, piece in enumerate([*PIECES, "open", "cafe"])}
    tokenizer = BertTokenizer(vocab=pieces, do_lower_case=True)
    text = "open Open café"
    words = [Word(text, 0, 4), Word(text, 5, 9), Word(text, 10, 14)]
    found = bits_per_character(known_scorer(uniform(14)), tokenizer, words, 32)
    assert (found["words"], found["dropped"], found["characters"]) == (1, 2, 4)


@pytest.mark.parametrize(("start", "shown"), [(0, "책 가 가 가 가 가"), (42, "가 가 가 가 가 읽")])
def test_the_tokens_around_a_word_end_where_the_sentence_ends(start, shown, known_scorer):
    tokenizer, seen = tokenizer_of(PIECES), []
    sentence = "책 " + "가 " * 20 + "읽"
    scorer = known_scorer(lambda item, _: seen.append(item) or [0.0] * 12)
    bits_per_character(scorer, tokenizer, [Word(sentence, start, start + 1)], 8)
    ((item,), gold) = seen, tokenizer.convert_tokens_to_ids(shown.split())
    masked = [4 if index == item.masked[0] - 1 else token for index, token in enumerate(gold)]
    assert item.ids.tolist() == [2, *masked, 3]


def test_tokenizers_that_cut_alike_give_the_same_bits(known_scorer):
    """A model that sees pieces, not ids, must not notice that the ids are others."""
    other = PIECES[:5] + PIECES[:4:-1]
    results = []
    for pieces in (PIECES, other):
        tokenizer = tokenizer_of(pieces)
        weights = [zlib.crc32(piece.encode()) % 97 / 10 for piece in pieces]
        by_piece = known_scorer(
            lambda item, place, weights=weights: [
                w * (1 + int((item.ids == 4).sum())) for w in weights
            ]
        )
        words = [Word("나는 책을", 0, 2), Word("나는 책을", 3, 5), Word("나는 핵을", 3, 5)]
        results.append(bits_per_character(by_piece, tokenizer, words, 32))
    assert results[0]["bits_per_character"] > 0
    assert results[1] == pytest.approx(results[0], rel=1e-6)


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
