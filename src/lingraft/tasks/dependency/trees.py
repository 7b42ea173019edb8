"""Words to sub-tokens, and heads out of a matrix of arc scores (SPEC B.7).

W: words of a sentence, P: words of the longest sentence of a batch. Column 0 of a score matrix is
the root, column h the word h (1-based); row w is the word w + 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

Side = Literal["left", "right"]


def word_edges(word_ids: Sequence[int | None], n_words: int) -> list[tuple[int, int]]:
    """First and last token of every word.

    Args:
        word_ids: of a fast tokenizer called with `is_split_into_words=True`; None for special ones.
        n_words: of the sentence.

    Raises:
        DataError: a word has no token: the sentence was cut off, or the tokenizer drops the word.
    """
    edges: dict[int, tuple[int, int]] = {}
    for token, word in enumerate(word_ids):
        if word is not None:
            edges[word] = (edges.get(word, (token, token))[0], token)
    for word in range(n_words):
        if word not in edges:
            raise DataError(
                f"word {word + 1} of {n_words} has no token: the sentence is longer than the "
                "model's input, or the tokenizer drops the word"
            )
    return [edges[word] for word in range(n_words)]


def neighbour_heads(n_words: int, side: Side) -> tuple[int, ...]:
    """The baseline that takes the word beside it for every word's head; the outermost is the root.

    Korean is head-final: the right neighbour is the harder baseline.
    """
    if side == "left":
        return tuple(range(n_words))
    return (*range(2, n_words + 1), 0)


def greedy_heads(scores_WH: Array) -> tuple[int, ...]:
    """The best head of every word by itself, never the word itself.

    Args:
        scores_WH: W × (W + 1), no padding.
    """
    return tuple(int(head) for head in _without_loops(scores_WH).argmax(axis=1))


def reference_heads(scores_PH: Array, n_words: int) -> tuple[int, ...]:
    """What KLUE's code takes: padding counts as a score of 0 and a word may be its own head.

    Where all real scores of a word are negative, the first padding column wins.

    Args:
        scores_PH: P × (P + 1).
        n_words: of the sentence, at most P.
    """
    scores = np.array(scores_PH, dtype=float)
    scores[:, n_words + 1 :] = 0.0
    return tuple(int(head) for head in scores[:n_words].argmax(axis=1))


def tree_heads(scores_WH: Array) -> tuple[int, ...]:
    """The best tree with one root: Chu, Liu and Edmonds (McDonald et al. 2005).

    Args:
        scores_WH: W × (W + 1), finite; the sum over the tree is the most that it can be.
    """
    scores = _without_loops(scores_WH)
    n_words = len(scores)
    best: tuple[float, tuple[int, ...]] | None = None
    for root in range(n_words):
        limited = scores.copy()
        limited[:, 0] = -np.inf
        limited[root, 1:] = -np.inf
        limited[root, 0] = scores[root, 0]
        square = np.full((n_words + 1, n_words + 1), -np.inf)
        square[1:] = limited
        heads = _arborescence(square)
        total = float(sum(scores[word - 1, heads[word]] for word in range(1, n_words + 1)))
        if best is None or total > best[0]:
            best = (total, tuple(heads[1:]))
    assert best is not None
    return best[1]


def _without_loops(scores_WH: Array) -> Array:
    scores = np.array(scores_WH, dtype=float)
    words = np.arange(len(scores))
    scores[words, words + 1] = -np.inf
    return scores


def _arborescence(scores_NN: Array) -> list[int]:
    """Heads of the best tree over nodes 0 … N − 1 with root 0; row: node, column: its head."""
    n_nodes = len(scores_NN)
    heads = [0, *(int(row.argmax()) for row in scores_NN[1:])]
    cycle = _cycle(heads)
    if not cycle:
        return heads
    inside = set(cycle)
    outside = [node for node in range(n_nodes) if node not in inside]
    new = len(outside)  # the cycle becomes the last node of a smaller graph
    smaller = np.full((new + 1, new + 1), -np.inf)
    enters: dict[int, int] = {}
    leaves: dict[int, int] = {}
    for position, node in enumerate(outside):
        smaller[position, :new] = scores_NN[node, outside]
        source = max(cycle, key=lambda one: scores_NN[node, one])
        smaller[position, new] = scores_NN[node, source]
        leaves[position] = source
        gains = {one: scores_NN[one, node] - scores_NN[one, heads[one]] for one in cycle}
        enters[position] = max(cycle, key=lambda one: gains[one])
        smaller[new, position] = gains[enters[position]]
    solved = _arborescence(smaller)
    for position, node in enumerate(outside[1:], 1):
        head = solved[position]
        heads[node] = leaves[position] if head == new else outside[head]
    heads[enters[solved[new]]] = outside[solved[new]]
    return heads


def _cycle(heads: Sequence[int]) -> list[int]:
    for start in range(1, len(heads)):
        path: list[int] = []
        node = start
        while node and node not in path:
            path.append(node)
            node = heads[node]
        if node:
            return path[path.index(node) :]
    return []
