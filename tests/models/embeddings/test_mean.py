from __future__ import annotations

import torch

from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.embeddings.common import Material
from lingraft.recipe import Embeddings
from lingraft.tokenizer.vocabulary import Vocabulary, canonical_form


def target(*pieces: str) -> Vocabulary:
    forms = [canonical_form(piece, "byte-bpe") for piece in pieces]
    return Vocabulary(len(pieces), list(pieces), forms, {}, frozenset())


def run(tokenizer, source_VD, wanted, name="mean"):
    return INITIALIZERS[name].function(
        source_VD,
        Vocabulary.of(tokenizer),
        wanted,
        generator=torch.Generator().manual_seed(0),
        material=Material(tokenizer, tokenizer, tuple, Embeddings(), 0),
    )


def test_a_piece_is_the_mean_of_the_source_pieces_of_its_text(tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    source_VD = torch.randn(320, 4, generator=torch.Generator().manual_seed(1))
    made = run(tokenizer, source_VD, target("Ġdogsss", "ì·ģ", "s"))
    dog = tokenizer(" dogsss", add_special_tokens=False)["input_ids"]
    half = tokenizer.convert_tokens_to_ids(["ì", "·", "ģ"])
    assert torch.allclose(made.target_UD[0], source_VD[dog].mean(dim=0), atol=1e-6)
    assert torch.allclose(made.target_UD[1], source_VD[half].mean(dim=0), atol=1e-6)
    assert torch.equal(made.target_UD[2], source_VD[tokenizer.convert_tokens_to_ids("s")])
    assert made.provenance.rules == ("mean", "mean", "exact")


def test_the_first_part_alone_counts(tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    source_VD = torch.randn(320, 4, generator=torch.Generator().manual_seed(1))
    pieces = tokenizer.tokenize(" foxdog and")
    ids = tokenizer.convert_tokens_to_ids(pieces)
    assert len(pieces) > 1
    wanted = target("".join(pieces))
    assert torch.equal(
        run(tokenizer, source_VD, wanted, "first-piece").target_UD[0], source_VD[ids[0]]
    )
