"""Pairs and blocks over tokenised text: whose rows they are, how long they are, what is cut."""

import numpy as np
import pytest

from lingraft.tokenizer.pairs import Blocks, Edges, TokenPairs, fitted, neighbours, translations
from lingraft.tokenizer.shards import Tokens

EDGES = Edges(1, 1)


def tokens_of(*documents):
    """Rows of so many tokens of text, special ones (0 and 2) around; text ids count from 10."""
    rows, starts, following = [], [], 10
    for document in documents:
        starts.append(len(rows))
        for size in document:
            rows.append([0, *range(following, following + size), 2])
            following += size
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    lengths = np.array([len(row) for row in rows], np.int32)
    ids = np.array([token for row in rows for token in row], np.uint16)
    return Tokens(ids, offsets, lengths, np.array(starts))


def test_a_document_of_two_rows_is_a_translation_and_others_are_left_out():
    tokens = tokens_of([3, 4], [2], [1, 1, 1], [5, 6])
    assert translations(tokens).tolist() == [[[0, 1], [1, 2]], [[6, 7], [7, 8]]]


def test_stretches_are_filled_with_whole_rows_and_never_cross_a_document():
    tokens = tokens_of([3, 3, 4, 2, 5], [8], [2, 2], [9, 9, 9])
    found = neighbours(tokens, EDGES, 8)  # six tokens of text
    # 3+3 | 4+2 | 5: an odd number, so that the last pairs with the one before; 2+2 is one stretch
    expected = [
        [[0, 2], [2, 4]],
        [[2, 4], [4, 5]],
        [[8, 9], [9, 10]],
        [[9, 10], [10, 11]],
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("longest", [None, 9, 30])
def test_lengths_are_those_of_what_is_read(longest):
    tokens = tokens_of([3, 9], [9, 1], [2, 2])
    pairs = TokenPairs(tokens, translations(tokens), EDGES, 7, longest)
    rows = pairs.rows(np.arange(3))
    sides = 2 if longest is None else 1
    read = [sum(map(len, rows[i : i + sides])) for i in range(0, len(rows), sides)]
    assert pairs.lengths.tolist() == read
    assert all(row[0] == 0 and row[-1] == 2 for row in rows)
    if longest is None:
        assert max(map(len, rows)) == 7
    else:
        assert max(read) <= longest
        assert all((row == 2).sum() == 2 and (row == 0).sum() == 1 for row in rows)
    some = pairs.subset(np.array([2, 0]))
    assert len(some) == 2
    assert some.lengths.tolist() == [read[2], read[0]]
    chosen = [row.tolist() for row in some.rows([1])]
    assert chosen == [row.tolist() for row in rows[:sides]]


def test_of_two_texts_the_longer_one_is_cut_until_both_fit():
    texts = np.array([[10, 2], [2, 10], [7, 7], [3, 3]])
    assert fitted(texts, 8).tolist() == [[6, 2], [2, 6], [4, 4], [3, 3]]


def test_a_block_has_the_sentences_of_the_text_with_their_ends_and_one_beginning():
    blocks = Blocks.of(tokens_of([2, 1], [3]), EDGES, 12)
    (row,) = blocks.rows(np.arange(len(blocks)))
    assert row.tolist() == [0, 10, 11, 2, 12, 2, 13, 14, 15, 2]  # over the end of a document


def test_blocks_are_as_full_as_whole_sentences_make_them_and_lose_none():
    drawn = np.random.default_rng(0)
    tokens = tokens_of(*drawn.integers(1, 9, (30, 5)).tolist())
    blocks = Blocks.of(tokens, EDGES, 20)
    assert blocks.lengths.max() <= 20
    assert blocks.lengths[1:].min() > 0
    following = tokens.lengths[blocks.bounds[1:, 0]] - EDGES.before
    assert (blocks.lengths[:-1] + following > 20).all()
    joined = np.concatenate(blocks.rows(np.arange(len(blocks))))
    alone = np.concatenate(tokens.rows(np.arange(len(tokens))))
    assert joined[joined != 0].tolist() == alone[alone != 0].tolist()
    assert (joined == 0).sum() == len(blocks)
    lengths = [len(row) for row in blocks.rows(np.arange(len(blocks)))]
    assert blocks.lengths.tolist() == lengths
