"""Alignment by an encoder: the sequences, the states and the words, against one pair at a time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from transformers import AutoModel

from lingraft.crosslingual import alignment
from lingraft.crosslingual.alignment import Aligner, Pieces, Settings
from lingraft.crosslingual.bitext import SentencePair
from lingraft.crosslingual.encoder import Encoder
from lingraft.crosslingual.matching import METHODS
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
NEEDS_SPACE = ("roberta", "modernbert")
ENGLISH = "the quick brown fox jumps over a lazy dog , and opens café documents in folders"
KOREAN = "나는 학교에 가서 친구를 만나고 문서를 열고 형식을 선택한 다음 폴더에 저장합니다 ."


@pytest.fixture(scope="module")
def pairs() -> list[SentencePair]:
    drawn = random.Random(4)
    return [
        SentencePair(
            tuple(drawn.choices(ENGLISH.split(), k=drawn.randint(1, 9))),
            tuple(drawn.choices(KOREAN.split(), k=drawn.randint(1, 7))),
            "here",
        )
        for _ in range(23)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_word_has_the_pieces_that_it_has_within_a_text(
    family: str, tiny_tokenizer: Callable[[str], Any]
) -> None:
    tokenizer = tiny_tokenizer(family)
    pieces = Pieces(tokenizer)
    assert pieces.prefix == (" " if family in NEEDS_SPACE else "")
    words = ("dog", "dog", "tea")
    (side, _) = pieces.sides([SentencePair(words, words, "here")])[0]
    in_text = tokenizer("a " + " ".join(words), add_special_tokens=False)["input_ids"]
    first = tokenizer("a", add_special_tokens=False)["input_ids"]
    assert first + side.ids == in_text
    assert set(side.words) == {0, 1, 2}


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_a_special_token_that_a_word_spells_is_text(
    family: str, tiny_tokenizer: Callable[[str], Any]
) -> None:
    """Of Unigram it is a piece, which is unknown."""
    tokenizer = tiny_tokenizer(family)
    words = ("dog", str(tokenizer.mask_token), str(tokenizer.sep_token))
    (side, _) = Pieces(tokenizer).sides([SentencePair(words, words, "here")])[0]
    assert not {tokenizer.mask_token_id, tokenizer.sep_token_id} & {*side.ids}
    assert set(side.words) == {0, 1, 2}
    if family == "xlm-roberta":
        assert tokenizer.unk_token_id in side.ids


def by_itself(
    folder: str, method: str, tokenizer: Any, pair: SentencePair
) -> list[set[tuple[int, int]]]:
    """One pair at a time through the stock model; sides are found in the ids by counting."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    space = " " if Pieces(tokenizer).prefix else ""
    cut = [
        [tokenizer(space + word, add_special_tokens=False)["input_ids"] for word in side]
        for side in (pair.source, pair.target)
    ]
    flat = [[piece for ids in side for piece in ids] for side in cut]
    words = [[at for at, ids in enumerate(side) for _ in ids] for side in cut]
    start, end = [tokenizer.cls_token_id], [tokenizer.sep_token_id]

    def states(ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            found = model(torch.tensor([ids]), output_hidden_states=True)
        return torch.stack(found.hidden_states)[:, 0].double()

    if METHODS[method].joint:
        both = states(start + flat[0] + end + flat[1] + end)
        source, target = both[:, 1 : 1 + len(flat[0])], both[:, 2 + len(flat[0]) : -1]
    else:
        source, target = (states(start + side + end)[:, 1:-1] for side in flat)
    found = []
    for s, t in zip(source.numpy(), target.numpy(), strict=True):
        if METHODS[method].cosine:
            s, t = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (s, t))
        S = s @ t.T
        linked = METHODS[method].links(((S + 1) / 2 if METHODS[method].cosine else S)[None])[0]
        found.append({(words[0][i], words[1][j]) for i, j in np.argwhere(linked)})
    return found


@pytest.mark.parametrize(
    ("family", "method"),
    [*((f, "ot") for f in FAMILIES), *(("roberta", m) for m in METHODS if m != "ot")],
)
def test_batches_give_the_links_of_each_pair_alone_in_every_layer(
    family: str, method: str, tiny_source: Callable[[str], Any], pairs: list[SentencePair]
) -> None:
    folder = str(tiny_source(family))
    encoder = Encoder.load(folder)
    found = list(Aligner(encoder, Settings(method, batch_tokens=64)).align(pairs))
    for pair, aligned in list(zip(pairs, found, strict=True))[:8]:
        if min(len(pair.source), len(pair.target)) > 1:  # scaled to ones: rounding decides
            expected = by_itself(folder, method, encoder.tokenizer, pair)
            assert [set(links) for links in aligned.links] == expected
            assert all(list(links) == sorted(links) for links in aligned.links)


def test_chunks_and_batches_change_nothing(
    monkeypatch: pytest.MonkeyPatch, tiny_source: Callable[[str], Any], pairs: list[SentencePair]
) -> None:
    encoder = Encoder.load(str(tiny_source("roberta")))
    whole = list(Aligner(encoder, Settings()).align(pairs))
    assert any(links for aligned in whole for links in aligned.links)
    monkeypatch.setattr(alignment, "CHUNK", 5)
    assert list(Aligner(encoder, Settings(batch_tokens=16)).align(iter(pairs))) == whole


def test_chosen_layers_are_those_of_all_layers(
    tiny_source: Callable[[str], Any], pairs: list[SentencePair]
) -> None:
    encoder = Encoder.load(str(tiny_source("bert")))
    every = [aligned.links for aligned in Aligner(encoder, Settings()).align(pairs)]
    some = [aligned.links for aligned in Aligner(encoder, Settings(layers=(0, 2))).align(pairs)]
    assert some == [(links[0], links[2]) for links in every]
    with pytest.raises(RecipeError, match=r"layer 3: .* has layers 0 \(its embeddings\) to 2"):
        Aligner(encoder, Settings(layers=(3,)))


def test_a_pair_that_is_too_long_has_no_links_and_its_neighbours_keep_theirs(
    tiny_source: Callable[[str], Any], pairs: list[SentencePair]
) -> None:
    encoder = Encoder.load(str(tiny_source("roberta")))
    alone = list(Aligner(encoder, Settings()).align(pairs[:2]))
    long = SentencePair(("dog",) * 300, ("dog",), "here")
    told: list[int] = []
    found = list(Aligner(encoder, Settings()).align([pairs[0], long, pairs[1]], told.append))
    assert sum(told) == 3
    assert [aligned.too_long for aligned in found] == [False, True, False]
    assert found[1].links == ((),) * 3
    assert found[1].tokens > encoder.max_tokens
    assert [found[0], found[2]] == alone


def test_equal_words_find_each_other_in_the_embeddings(
    tiny_source: Callable[[str], Any],
) -> None:
    encoder = Encoder.load(str(tiny_source("modernbert")))
    words = ("dog", "cat", "sun", "file")  # no letter in common, so no piece
    same = SentencePair(words, words[::-1], "here")
    (aligned,) = Aligner(encoder, Settings("simalign-inter", layers=(0,))).align([same])
    assert set(aligned.links[0]) == {(at, 3 - at) for at in range(4)}
