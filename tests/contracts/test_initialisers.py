"""What every initialiser keeps, whatever the kinds of the two tokenizers."""

from __future__ import annotations

import inspect

import pytest
import torch

from lingraft import tokenizer as tokenizers_module
from lingraft.embeddings import INITIALISERS
from lingraft.embeddings.common import RULES
from lingraft.errors import UnsupportedModelError
from lingraft.recipe import Tokenizer as Section
from lingraft.vocabulary import Vocabulary

WIDTH = 8
FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
KINDS = ("unigram", "byte-bpe", "wordpiece")

names = pytest.mark.parametrize("name", INITIALISERS)
families = pytest.mark.parametrize("family", FAMILIES)
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def targets(tiny_text):
    """A target vocabulary of each kind; its text has words that the sources have not seen."""
    text = [*tiny_text[1:6], "Größe 東京へ行く 큰 고양이"]
    return {
        kind: Vocabulary.of(
            tokenizers_module.train(
                Section(kind=kind, vocab_size=360, character_coverage=1.0),
                None,
                lambda: text,
                pad_id=None,
                seed=0,
            )
        )
        for kind in KINDS
    }


@pytest.fixture(scope="module")
def sources(tiny_tokenizer):
    return {family: Vocabulary.of(tiny_tokenizer(family)) for family in FAMILIES}


def rows(vocabulary: Vocabulary, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Source embeddings with a few rows more than pieces, as padded vocabularies have."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(vocabulary.size + 3, WIDTH, generator=generator).to(dtype)


def run(name, source_VD, source, target, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    return INITIALISERS[name].function(source_VD, source, target, generator=generator, **options)


@names
@families
@kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_are_float32_finite_and_nonzero_but_for_padding(
    name, family, kind, dtype, sources, targets
):
    target = targets[kind]
    made = run(name, rows(sources[family], dtype), sources[family], target)
    assert made.target_UD.shape == (target.size, WIDTH)
    assert made.target_UD.dtype == torch.float32
    assert made.target_UD.isfinite().all()
    zero = (made.target_UD == 0).all(dim=1).nonzero().flatten().tolist()
    assert zero == [target.specials["pad"]]


@names
@families
@kinds
def test_the_result_follows_the_generator_and_nothing_else(name, family, kind, sources, targets):
    source_VD = rows(sources[family])
    torch.manual_seed(5)
    first = run(name, source_VD, sources[family], targets[kind])
    torch.manual_seed(6)
    again = run(name, source_VD, sources[family], targets[kind])
    other = run(name, source_VD, sources[family], targets[kind], seed=1)
    assert torch.equal(first.target_UD, again.target_UD)
    assert not torch.equal(first.target_UD, other.target_UD)
    assert first.provenance.rules == again.provenance.rules == other.provenance.rules


@names
@families
@kinds
def test_the_source_is_not_touched_and_not_shared(name, family, kind, sources, targets):
    source_VD = rows(sources[family]).requires_grad_()
    before = source_VD.detach().clone()
    made = run(name, source_VD, sources[family], targets[kind], copy_special_tokens=True)
    assert not made.target_UD.requires_grad
    made.target_UD.zero_()
    assert torch.equal(source_VD.detach(), before)


@names
@families
@kinds
def test_every_row_is_what_its_provenance_says(name, family, kind, sources, targets):
    source_VD, source, target = rows(sources[family]), sources[family], targets[kind]
    made = run(name, source_VD, source, target, copy_special_tokens=True)
    provenance = made.provenance
    assert len(provenance.rules) == len(provenance.source_ids) == target.size
    assert set(provenance.rules) <= set(RULES)
    for index, (rule, origin) in enumerate(
        zip(provenance.rules, provenance.source_ids, strict=True)
    ):
        if rule in ("fresh", "pad"):
            assert origin == -1
        else:
            assert torch.equal(made.target_UD[index], source_VD[origin])
    fresh = torch.tensor([rule == "fresh" for rule in provenance.rules])
    drawn = made.target_UD[fresh]
    assert len(drawn) >= 5
    assert 0.005 < drawn.abs().mean() < 0.1
    assert not (drawn[:, None] == source_VD[None]).all(dim=2).any()
    assert sum(provenance.counts().values()) == target.size


@names
@families
@kinds
def test_special_tokens_are_copied_by_role_only_when_asked_for(
    name, family, kind, sources, targets
):
    source_VD, source, target = rows(sources[family]), sources[family], targets[kind]
    plain = run(name, source_VD, source, target).provenance
    made = run(name, source_VD, source, target, copy_special_tokens=True)
    for role in ("bos", "eos", "unk", "mask"):
        index = target.specials[role]
        assert plain.rules[index] == "fresh"
        assert made.provenance.rules[index] == "special"
        assert made.provenance.source_ids[index] == source.specials[role]
        assert torch.equal(made.target_UD[index], source_VD[source.specials[role]])
    assert made.provenance.rules[target.specials["pad"]] == "pad"


@names
def test_more_pieces_than_embedding_rows_are_refused(name, sources, targets):
    source = sources["roberta"]
    with pytest.raises(UnsupportedModelError, match=r"320 pieces but the model only 319"):
        run(name, rows(source)[:319], source, targets["unigram"])


@names
def test_options_are_keyword_only_and_documented(name):
    function = INITIALISERS[name].function
    parameters = list(inspect.signature(function).parameters.values())
    assert [p.name for p in parameters[:3]] == ["source_VD", "source", "target"]
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[3:])
    assert all(p.default is not p.empty for p in parameters[3:] if p.name != "generator")
    assert function.__doc__ is not None
    assert all(f"        {p.name}: " in function.__doc__ for p in parameters)


@names
def test_the_table_says_what_it_does_and_where_it_is_from(name):
    record = INITIALISERS[name]
    assert record.function.__name__ == name
    assert record.summary
    assert "SPEC" in record.paper


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_every_identically_spelt_byte_level_piece_is_copied_from_its_own_row(
    family, sources, targets
):
    source, target = sources[family], targets["byte-bpe"]
    source_VD = rows(source)
    made = run("match", source_VD, source, target)
    shared = [
        (index, source.pieces.index(piece))
        for index, piece in enumerate(target.pieces)
        if piece in source.pieces and index not in target.special_ids
    ]
    partial = [pair for pair in shared if b"\xef\xbf\xbd" in decoded(target, pair[0])]
    assert len(shared) >= 256
    assert len(partial) >= 128
    for index, origin in shared:
        assert made.provenance.rules[index] == "exact"
        assert torch.equal(made.target_UD[index], source_VD[origin])


def decoded(vocabulary: Vocabulary, index: int) -> bytes:
    """The piece as `decode` gives it: with U+FFFD where it is no whole character."""
    form = vocabulary.canonical[index]
    assert form is not None
    return form.text.decode(errors="replace").encode()
