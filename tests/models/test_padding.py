"""Batches of like lengths."""

from lingraft.models.padding import batches_by_length, padded


def test_the_longest_come_first_and_a_batch_holds_no_more_tokens_than_it_may():
    assert list(batches_by_length([2, 9, 3, 0, 3], 6)) == [[1], [2, 4], [0, 3]]
    assert list(batches_by_length([0, 0, 0], 2)) == [[0, 1], [2]]
    assert list(batches_by_length([], 2)) == []


def test_rows_are_padded_on_the_right_and_the_mask_says_where():
    ids, mask = padded([[5, 6], [7], []], 1)
    assert ids.tolist() == [[5, 6], [7, 1], [1, 1]]
    assert mask.tolist() == [[True, True], [True, False], [False, False]]
