from __future__ import annotations

import pytest
import torch

from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.embeddings.match import find_matches
from lingraft.tokenizer.vocabulary import Vocabulary, canonical_form


def vocabulary(kind: str, *pieces: str) -> Vocabulary:
    """A vocabulary of a padding token and these pieces."""
    canonical = [None, *(canonical_form(piece, kind) for piece in pieces)]
    return Vocabulary(len(pieces) + 1, ["<pad>", *pieces], canonical, {"pad": 0}, frozenset({0}))


def found(source: Vocabulary, piece: str, kind: str = "unigram") -> tuple[str, int] | None:
    return find_matches(source, vocabulary(kind, piece)).get(1)


def test_a_case_of_three_tokens_by_hand():
    source = vocabulary("byte-bpe", "Ġthe", "ĠcafÃ©")
    target = vocabulary("unigram", "▁café", "▁The", "▁집")
    source_VD = torch.tensor([[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]])
    made = INITIALIZERS["match"].function(
        source_VD, source, target, generator=torch.Generator().manual_seed(0)
    )
    drawn = torch.empty(4, 2).normal_(0, 0.02, generator=torch.Generator().manual_seed(0))
    assert torch.equal(made.target_UD[0], torch.zeros(2))
    assert torch.equal(made.target_UD[1], torch.tensor([3.0, 4.0]))
    assert torch.equal(made.target_UD[2], torch.tensor([1.0, 2.0]))
    assert torch.equal(made.target_UD[3], drawn[3])
    assert made.provenance.rules == ("pad", "exact", "lower", "fresh")
    assert made.provenance.source_ids.tolist() == [-1, 2, 1, -1]
    assert made.provenance.counts() == {"exact": 1, "lower": 1, "pad": 1, "fresh": 1}


@pytest.mark.parametrize(
    ("piece", "kind", "expected"),
    [
        ("▁café", "unigram", ("exact", 1)),
        ("▁ｃａｆé", "unigram", ("nfkc", 1)),
        ("▁CAFÉ", "unigram", ("lower", 1)),
        ("▁Cafe\u0301", "unigram", ("lower", 1)),
        ("▁cafè", "unigram", ("accents", 2)),
        ("▁Cafe", "unigram", ("lower", 2)),
        ("café", "unigram", None),
        ("café", "wordpiece", ("exact", 1)),
        ("##café", "wordpiece", None),
    ],
)
def test_the_first_stage_that_hits_wins(piece, kind, expected):
    source = vocabulary("byte-bpe", "ĠcafÃ©", "Ġcafe")
    assert found(source, piece, kind) == expected


def test_pieces_of_half_a_character_match_byte_for_byte_only():
    source = vocabulary("byte-bpe", "ì", "ìķ", "Ġì")
    assert found(source, "ìķ", "byte-bpe") == ("exact", 2)
    assert found(source, "Ġì", "byte-bpe") == ("exact", 3)
    assert found(source, "Ġìķ", "byte-bpe") is None
    assert found(source, "í", "byte-bpe") is None
