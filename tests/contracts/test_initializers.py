"""What every initializer keeps, whatever the kinds of the two tokenizers."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from pairwise import pairwise

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.embeddings.common import RULES, Material
from lingraft.models.embeddings.vectors import WORD
from lingraft.recipe import Embeddings, Tokenizer as Section
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.vocabulary import Vocabulary
from tests.support.vocabulary_kinds import keys_of

WIDTH = 8
FAMILIES = ("bert", "roberta", "xlm-roberta")  # one of each kind of tokenizer
KINDS = ("unigram", "byte-bpe", "wordpiece")
DRAWN = ("random", "random-statistics")
NAMES = tuple(name for name, record in INITIALIZERS.items() if not record.runs_model)
"""Those that run the source model too are in tests/models/embeddings/test_token_distillation.py."""
COPYING = tuple(name for name in NAMES if name not in DRAWN)
NEEDING = tuple(name for name in COPYING if name != "match")

DTYPES = ("float32", "bfloat16", "float16")
COVER = pairwise(NAMES, FAMILIES, KINDS, DTYPES)

names = pytest.mark.parametrize("name", NAMES)
cases = pytest.mark.parametrize(("name", "family", "kind", "dtype"), COVER)


class Side(NamedTuple):
    """A tokenizer and its vocabulary."""

    tokenizer: object
    vocabulary: Vocabulary


@pytest.fixture(scope="module")
def text(tiny_text):
    """Of the target language, with words that the sources have not seen."""
    return [*tiny_text[1:6], *["Größe 東京へ行く 큰 고양이"] * 4]


@pytest.fixture(scope="module")
def targets(text):
    """A target vocabulary of each kind."""
    made = {}
    for kind in KINDS:
        section = Section(**keys_of(kind), vocab_size=360, character_coverage=1.0)
        ours = tokenizer_files.train(section, None, lambda: text, pad_id=None, seed=0)
        made[kind] = Side(ours, Vocabulary.of(ours))
    return made


@pytest.fixture(scope="module")
def sources(tiny_tokenizer):
    return {f: Side(tiny_tokenizer(f), Vocabulary.of(tiny_tokenizer(f))) for f in FAMILIES}


@pytest.fixture(scope="module")
def resources(tmp_path_factory, text, tiny_text, targets):
    """Files of every kind of resource; the two files of vectors differ in width."""
    folder = tmp_path_factory.mktemp("resources")
    words = {
        "target": sorted({word for line in text for word in WORD.findall(line)}),
        "source": sorted({word for line in tiny_text[:3] for word in WORD.findall(line)}),
    }
    drawn = np.random.default_rng(0)
    for side, width in (("target", 6), ("source", 7)):
        lines = [f"{len(words[side])} {width}"]
        lines += [" ".join([word, *map(str, drawn.normal(size=width))]) for word in words[side]]
        (folder / f"{side}.vec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pieces = {
        form.text.decode(errors="ignore")
        for side in targets.values()
        for form in side.vocabulary.canonical
        if form is not None
    }
    known = sorted(word for word in {*words["target"], *pieces} if WORD.fullmatch(word))
    meanings = ("the", "dog", "and")
    lexicon = [f"{word}\t{meanings[i % 3]}" for i, word in enumerate(known)]
    (folder / "lexicon.tsv").write_text("\n".join(lexicon) + "\n", encoding="utf-8")
    return Embeddings(
        lexicons=(str(folder / "lexicon.tsv"),),
        source_vectors=str(folder / "source.vec"),
        target_vectors=str(folder / "target.vec"),
    )


@pytest.fixture(scope="module")
def run(sources, targets, text, resources):
    """Calls an initializer: `run(name, source_VD, family, kind, seed=0, **options)`."""

    def call(name, source_VD, family, kind, seed=0, **options):
        source, target = sources[family], targets[kind]
        given = Material(source.tokenizer, target.tokenizer, lambda: text, resources, seed=0)
        copies = Embeddings(init=name).copies_special_tokens
        return INITIALIZERS[name].function(
            source_VD,
            source.vocabulary,
            target.vocabulary,
            generator=torch.Generator().manual_seed(seed),
            **{"material": given, "copy_special_tokens": copies, **options},
        )

    return call


def rows(vocabulary: Vocabulary, dtype: str = "float32") -> torch.Tensor:
    """Source embeddings with a few rows more than pieces, as padded vocabularies have."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(vocabulary.size + 3, WIDTH, generator=generator).to(getattr(torch, dtype))


def test_every_pair_of_initializer_family_kind_and_dtype_is_a_case():
    for first, second in itertools.combinations(range(4), 2):
        factors = (NAMES, FAMILIES, KINDS, DTYPES)
        wanted = set(itertools.product(factors[first], factors[second]))
        assert {(row[first], row[second]) for row in COVER} == wanted


@cases
def test_rows_are_float32_finite_no_longer_than_the_source_s_and_zero_for_padding_alone(
    name, family, kind, dtype, sources, targets, run
):
    target = targets[kind].vocabulary
    source_VD = rows(sources[family].vocabulary, dtype)
    made = run(name, source_VD, family, kind)
    assert made.target_UD.shape == (target.size, WIDTH)
    assert made.target_UD.dtype == torch.float32
    assert made.target_UD.isfinite().all()
    zero = (made.target_UD == 0).all(dim=1).nonzero().flatten().tolist()
    assert zero == [target.specials["pad"]]
    drawn_as_the_source = 2.0 if name == "random-statistics" else 1.0
    longest = source_VD.float().norm(dim=1).max()
    assert made.target_UD.norm(dim=1).max() <= longest * drawn_as_the_source * 1.0001


@cases
def test_the_result_follows_the_generator_and_nothing_else(name, family, kind, dtype, sources, run):
    source_VD = rows(sources[family].vocabulary, dtype)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    drawn = {"copy_special_tokens": False}  # so that something is left to the generator
    first = run(name, source_VD, family, kind, **drawn)
    torch.manual_seed(6)
    np.random.seed(6)  # noqa: NPY002
    again = run(name, source_VD, family, kind, **drawn)
    other = run(name, source_VD, family, kind, seed=1, **drawn)
    assert torch.equal(first.target_UD, again.target_UD)
    assert not torch.equal(first.target_UD, other.target_UD)
    assert first.provenance.rules == again.provenance.rules == other.provenance.rules


@cases
def test_the_source_is_not_touched_and_not_shared(name, family, kind, dtype, sources, run):
    source_VD = rows(sources[family].vocabulary, dtype).requires_grad_()
    before = source_VD.detach().clone()
    made = run(name, source_VD, family, kind, copy_special_tokens=True)
    assert not made.target_UD.requires_grad
    made.target_UD.zero_()
    assert torch.equal(source_VD.detach(), before)


@cases
def test_every_row_is_what_its_provenance_says(name, family, kind, dtype, sources, targets, run):
    target = targets[kind].vocabulary
    source_VD = rows(sources[family].vocabulary, dtype).float()
    made = run(name, source_VD, family, kind, copy_special_tokens=False)
    provenance = made.provenance
    assert len(provenance.rules) == len(provenance.source_ids) == target.size
    assert set(provenance.rules) <= set(RULES)
    for index, (rule, origin) in enumerate(
        zip(provenance.rules, provenance.source_ids, strict=True)
    ):
        if rule in ("mean", "combined"):
            ids, weights, _ = provenance.combinations[index]
            assert len(set(ids.tolist())) == len(ids) > 0
            expected_D = torch.from_numpy(weights) @ source_VD[torch.from_numpy(ids)]
            assert torch.allclose(made.target_UD[index], expected_D, atol=1e-5)
            assert origin == -1
        elif rule in ("fresh", "pad"):
            assert origin == -1
        else:
            assert torch.equal(made.target_UD[index], source_VD[origin])
    assert {i for i, rule in enumerate(provenance.rules) if rule in ("mean", "combined")} == set(
        provenance.combinations
    )
    drawn = made.target_UD[torch.tensor([rule == "fresh" for rule in provenance.rules])]
    assert len(drawn) >= 4
    low, high = (0.5, 1.2) if name == "random-statistics" else (0.005, 0.1)
    assert low < drawn.abs().mean() < high
    assert not (drawn[:, None] == source_VD[None]).all(dim=2).any()
    counts = provenance.counts()
    assert sum(counts.values()) == target.size
    if name in NEEDING:  # pieces that do not match are made of others
        assert counts[name if name in ("dictionary", "mean") else "combined"] > 0


@cases
def test_special_tokens_are_copied_by_role_or_drawn_when_asked_for(
    name, family, kind, dtype, sources, targets, run
):
    source, target = sources[family].vocabulary, targets[kind].vocabulary
    source_VD = rows(source, dtype)
    plain = run(name, source_VD, family, kind, copy_special_tokens=False).provenance
    made = run(name, source_VD, family, kind, copy_special_tokens=True)
    for role in ("bos", "eos", "unk", "mask"):
        index = target.specials[role]
        assert plain.rules[index] == "fresh"
        assert made.provenance.rules[index] == "special"
        assert made.provenance.source_ids[index] == source.specials[role]
        assert torch.equal(made.target_UD[index], source_VD[source.specials[role]])
    assert made.provenance.rules[target.specials["pad"]] == "pad"


@names
def test_special_tokens_are_copied_unless_every_row_is_drawn(name, sources, targets, run):
    target = targets["unigram"].vocabulary
    made = run(name, rows(sources["roberta"].vocabulary), "roberta", "unigram").provenance
    found = {made.rules[target.specials[role]] for role in ("bos", "eos", "unk", "mask")}
    assert found == ({"fresh"} if name in DRAWN else {"special"})
    assert Embeddings(init=name).copies_special_tokens is (name not in DRAWN)


@names
def test_more_pieces_than_embedding_rows_are_refused(name, sources, run):
    source_VD = rows(sources["roberta"].vocabulary)
    with pytest.raises(UnsupportedModelError, match=r"320 pieces but the model only 319"):
        run(name, source_VD[:319], "roberta", "unigram")


@pytest.mark.parametrize("name", NEEDING)
def test_what_needs_material_says_so_in_a_line(name, sources, run):
    source_VD = rows(sources["roberta"].vocabulary)
    with pytest.raises(RecipeError, match=rf"^embeddings\.init: '{name}' needs .*source\.model"):
        run(name, source_VD, "roberta", "unigram", material=None)


@names
def test_table_and_docstring_say_what_it_does_what_it_needs_and_where_it_is_from(name):
    record = INITIALIZERS[name]
    assert record.plan.__name__ == name.replace("-", "_")
    assert record.summary
    assert record.paper
    assert ("Material: " in record.plan.__doc__) is (name in NEEDING)


@pytest.mark.parametrize("name", COPYING)
@pytest.mark.parametrize(
    ("family", "kind", "least"),
    [("roberta", "byte-bpe", 256), ("bert", "wordpiece", 50), ("xlm-roberta", "unigram", 50)],
)
def test_every_identically_spelt_piece_is_copied_from_its_own_row(
    name, family, kind, least, sources, targets, run
):
    source, target = sources[family].vocabulary, targets[kind].vocabulary
    source_VD = rows(source)
    made = run(name, source_VD, family, kind)
    shared = [
        (index, source.pieces.index(piece))
        for index, piece in enumerate(target.pieces)
        if piece in source.pieces and target.canonical[index] is not None
    ]
    texts = [target.canonical[index].text.decode(errors="replace") for index, _ in shared]
    assert len(shared) >= least
    assert kind != "byte-bpe" or sum("\ufffd" in text for text in texts) >= 128
    for index, origin in shared:
        assert made.provenance.rules[index] == "exact"
        assert made.provenance.source_ids[index] == origin
        assert torch.equal(made.target_UD[index], source_VD[origin])
