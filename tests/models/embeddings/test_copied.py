"""Rows that are copied, combined of a piece's own parts, or drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import BertTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from lingraft.errors import DataError
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.embeddings.common import (
    Combination,
    Initialised,
    Material,
    Provenance,
    RowPlan,
    build,
)
from lingraft.models.embeddings.match import find_matches
from lingraft.recipe import Embeddings
from lingraft.tokenizer.vocabulary import Vocabulary, canonical_form


def vocabulary(*pieces: str, kind: str = "unigram", pad: bool = False) -> Vocabulary:
    """A vocabulary of these pieces, behind a padding token if asked for."""
    forms = [None] * pad + [canonical_form(piece, kind) for piece in pieces]
    special = {"pad": 0} if pad else {}
    named = ["<pad>"] * pad + list(pieces)
    return Vocabulary(len(forms), named, forms, special, frozenset(special.values()))


def initialised(
    name: str,
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    material: Material | None = None,
    **options: bool,
) -> Initialised:
    generator = torch.Generator().manual_seed(0)
    function = INITIALIZERS[name].function
    return function(source_VD, source, target, generator=generator, material=material, **options)


def built(source_VD: torch.Tensor, *plan: object) -> Initialised:
    """Three new rows for three of the source."""
    sides = vocabulary("a", "b", "c"), vocabulary("x", "y", "z")
    generator = torch.Generator().manual_seed(0)
    return build(source_VD, *sides, RowPlan(*plan), generator=generator, copy_special_tokens=False)


def test_the_table_has_a_line_a_token_with_tabs_and_line_ends_escaped(tmp_path):
    sums = {1: Combination(np.array([3, 1]), np.array([0.25, -0.5], dtype=np.float32))}
    provenance = Provenance(("exact", "combined", "lower"), np.array([1, -1, 0]), sums)
    path = tmp_path / "provenance.tsv"
    provenance.write(path, vocabulary("a\tb", "집", "c\\n"), vocabulary("C\n", "a\tb"))
    assert path.read_text(encoding="utf-8").split("\n") == [
        "target_id\tpiece\trule\tsource_id\tsource_piece\tsources",
        "0\ta\\tb\texact\t1\ta\\tb\t",
        "1\t집\tcombined\t-1\t\t1:-0.5,3:0.25",
        "2\tc\\\\n\tlower\t0\tC\\n\t",
        "",
    ]


def test_a_combined_row_is_the_weighted_sum_of_its_sources():
    source_VD = torch.tensor([[1.0, 0.0], [0.0, 2.0], [4.0, 4.0]], dtype=torch.bfloat16)
    sums = {
        0: Combination(np.array([0, 2]), np.array([0.5, -0.25], dtype=np.float32)),
        1: Combination.mean([1, 1, 0, 2]),
        2: Combination.mean([0]),
    }
    made = built(source_VD, {2: ("exact", 1)}, sums)
    assert made.target_UD.tolist() == [[-0.5, -1.0], [1.25, 2.0], [0.0, 2.0]]
    assert made.provenance.rules == ("combined", "mean", "exact")
    assert made.provenance.source_ids.tolist() == [-1, -1, 1]
    assert list(made.provenance.combinations) == [0, 1]


def test_the_output_bias_is_carried_over_as_the_rows_were():
    combination = Combination(np.array([0, 2]), np.array([0.75, 0.25], dtype=np.float32))
    rules = ("fresh", "exact", "combined", "pad", "learnt")  # the last one without a bias
    sums = {2: combination, 4: combination}
    provenance = Provenance(rules, np.array([-1, 1, -1, -1, -1]), sums)
    bias_V = torch.tensor([4.0, 5.0, 8.0, 9.0], dtype=torch.bfloat16)
    assert provenance.carry(bias_V).tolist() == [0.0, 5.0, 5.0, 0.0, 0.0]


@pytest.mark.parametrize("roles", [("eos",), ("bos", "eos"), ("unk",)])
def test_a_padding_token_that_is_read_has_the_row_of_its_other_role(roles):
    def with_roles(*pieces: str, **specials: int) -> Vocabulary:
        forms = [None] * 2 + [canonical_form(piece, "unigram") for piece in pieces[2:]]
        return Vocabulary(len(pieces), list(pieces), forms, specials, frozenset({0, 1}))

    source = with_roles("<p>", "</s>", "a", pad=0, **dict.fromkeys(roles, 1))
    target = with_roles("<s>", "<end>", "a", pad=1, **dict.fromkeys(roles, 1))
    rows = torch.tensor([[9.0], [5.0], [1.0]])
    made = initialised("match", rows, source, target, copy_special_tokens=True)
    assert made.target_UD[1:].tolist() == [[5.0], [1.0]]
    assert made.provenance.rules[1:] == ("special", "exact")


def test_bytes_have_the_rows_of_byte_level_pieces():
    letter, high = "e", bytes_to_unicode()[0xEA]
    source = vocabulary(letter, high, kind="byte-bpe")
    target = vocabulary("<0x65>", "<0xEA>", "<0xEB>")
    rows = torch.tensor([[1.0], [2.0]])
    made = initialised("match", rows, source, target, copy_special_tokens=True)
    assert made.provenance.rules == ("fresh", "exact", "fresh")
    assert made.target_UD[1].tolist() == [2.0]


def test_signs_and_chinese_of_wordpiece_stand_within_words_elsewhere():
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *("国", "##国", ",", "##,", "th", "##th"),
    ]
    of_words = BertTokenizer(vocab={piece: index for index, piece in enumerate(pieces)})
    bert = Vocabulary.of(of_words)
    assert {pieces[index] for index in bert.alone} == {"国", ","}
    rows = torch.arange(float(len(pieces)))[:, None]
    asked = ("▁国", "国", ",", "▁,", "th")
    made = initialised("match", rows, bert, vocabulary(*asked))
    assert [pieces[i] for i in made.provenance.source_ids] == ["国", "国", ",", ",", "##th"]
    source = vocabulary("▁国", "国", "▁,", "th")  # and in the other direction
    made = initialised("match", torch.arange(4.0)[:, None], source, bert)
    found = dict(zip(pieces, made.provenance.source_ids.tolist(), strict=True))
    assert (found["国"], found[","], found["##国"], found["##th"]) == (1, 2, -1, 3)


def test_fresh_rows_do_not_depend_on_what_is_matched():
    drawn, matched = (built(torch.ones(3, 4), m).target_UD for m in ({}, {1: ("exact", 2)}))
    assert torch.equal(drawn[[0, 2]], matched[[0, 2]])
    assert torch.equal(matched[1], torch.ones(4))


def test_a_case_of_three_tokens_by_hand():
    source = vocabulary("Ġthe", "ĠcafÃ©", kind="byte-bpe", pad=True)
    target = vocabulary("▁café", "▁The", "▁집", pad=True)
    made = initialised("match", torch.tensor([[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]]), source, target)
    drawn = torch.empty(4, 2).normal_(0, 0.02, generator=torch.Generator().manual_seed(0))
    assert made.target_UD.tolist() == [[0.0, 0.0], [3.0, 4.0], [1.0, 2.0], drawn[3].tolist()]
    assert made.provenance.rules == ("pad", "exact", "lower", "fresh")
    assert made.provenance.source_ids.tolist() == [-1, 2, 1, -1]
    assert made.provenance.counts() == {"exact": 1, "lower": 1, "pad": 1, "fresh": 1}


@pytest.mark.parametrize(
    ("piece", "kind", "expected"),
    [
        ("▁café", "unigram", ("exact", 0)),
        ("▁ｃａｆé", "unigram", ("nfkc", 0)),
        ("▁CAFÉ", "unigram", ("lower", 0)),
        ("▁Cafe\u0301", "unigram", ("lower", 0)),
        ("▁cafè", "unigram", ("accents", 1)),  # as it is, before the first in its normal form
        ("▁Cafe", "unigram", ("lower", 1)),
        ("▁tHE", "unigram", ("lower", 2)),  # of several the lowest
        ("▁й", "unigram", ("accents", 4)),
        ("▁ガ", "unigram", None),  # a voicing mark is no accent
        ("café", "unigram", None),
        ("café", "wordpiece", ("exact", 0)),
        ("##café", "wordpiece", None),
    ],
)
def test_the_first_stage_that_hits_wins(piece, kind, expected):
    source = vocabulary("▁café", "▁cafe", "▁THE", "▁The", "▁и", "▁カ")
    assert find_matches(source, vocabulary(piece, kind=kind)).get(0) == expected


def test_pieces_of_half_a_character_match_byte_for_byte_only():
    source = vocabulary("ì", "ìķ", "Ġì", kind="byte-bpe")
    target = vocabulary("ìķ", "Ġì", "Ġìķ", "í", kind="byte-bpe")
    assert find_matches(source, target) == {0: ("exact", 1), 1: ("exact", 2)}


@pytest.fixture
def translated(tmp_path, tiny_tokenizer):
    """The rows' sources in three words, by lexicons: `translated([lexicon, …], "▁집", …)`."""

    def call(lexicons, *pieces):
        paths = [tmp_path / f"{number}.txt" for number in range(len(lexicons))]
        for path, lexicon in zip(paths, lexicons, strict=True):
            path.write_text(lexicon, encoding="utf-8")
        tokenizer, named = tiny_tokenizer("roberta"), Embeddings(lexicons=tuple(map(str, paths)))
        material = Material(tokenizer, tokenizer, tuple, named, 0)
        source = vocabulary("Ġhouse", "Ġdog", "Ġcaf", kind="byte-bpe")
        source_VD = torch.arange(640.0).reshape(320, 2)
        return initialised("dictionary", source_VD, source, vocabulary(*pieces), material)

    return call


def test_a_case_of_four_pieces_by_hand(translated):
    made = translated(["집 house\n개 hound\n개 dog\n새 bird\n"], "▁집", "▁개", "▁새", "집")
    assert made.provenance.rules == ("dictionary", "dictionary", "fresh", "fresh")
    assert made.provenance.source_ids.tolist() == [0, 1, -1, -1]
    assert made.target_UD[:2].tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("lexicons", "pieces", "expected"),
    [
        (["집 HOUSE\nжурнал dog\n"], "▁집 ▁Журнал", [0, 1]),  # in the cascade of match
        (["집 house\n개 dog\ndog 개\n"], "▁집 ▁개", [0, 1]),  # a word of both languages
        (
            ["집 HOUSE\n개 hound\n새 bird\n", "개 dog\nдом house\n집 dog\n"],
            "▁집 ▁개 ▁дом ▁새 ▁кот",
            [0, 1, 0, -1, -1],
        ),
    ],
)
def test_the_first_dictionary_with_a_known_translation_wins(lexicons, pieces, expected, translated):
    made = translated(lexicons, *pieces.split())
    assert made.provenance.source_ids.tolist() == expected


@pytest.mark.parametrize(
    ("lexicon", "said"),
    [
        ("house 집\ndog 개\ncat 집\n", "0 words that are new to the source stand first and 3 sec"),
        ("새 bird\n", r"translate no word .*; .*embeddings.source_first ="),
        ("집 maison\n개 chien\n", r"translate no word .*; .*embeddings.source_first ="),
    ],
)
def test_a_lexicon_with_its_columns_swapped_or_that_gives_no_row_is_refused(
    lexicon, said, translated
):
    with pytest.raises(DataError, match=said):
        translated([lexicon], "▁집", "▁개")


def test_a_piece_is_the_mean_of_the_source_pieces_of_its_text_or_the_first_of_them(tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    source_VD = torch.randn(320, 4, generator=torch.Generator().manual_seed(1))
    sides = Vocabulary.of(tokenizer), vocabulary("Ġdogsss", "ì·ģ", "s", kind="byte-bpe")
    material = Material(tokenizer, tokenizer, tuple, Embeddings(), 0)
    mean, first = (
        initialised(name, source_VD, *sides, material) for name in ("mean", "first-piece")
    )
    dog = tokenizer(" dogsss", add_special_tokens=False)["input_ids"]
    half = tokenizer.convert_tokens_to_ids(["ì", "·", "ģ"])
    assert len(dog) > 1
    for index, ids in enumerate((dog, half)):
        assert torch.allclose(mean.target_UD[index], source_VD[ids].mean(dim=0), atol=1e-6)
        assert torch.equal(first.target_UD[index], source_VD[ids[0]])
    assert torch.equal(mean.target_UD[2], source_VD[tokenizer.convert_tokens_to_ids("s")])
    assert mean.provenance.rules == ("mean", "mean", "exact")


@pytest.mark.parametrize("name", ["random", "random-statistics"])
def test_rows_have_the_mean_and_deviation_that_is_asked_for_dimension_by_dimension(name):
    source_VD = torch.tensor([[99.0, 99.0], [1.0, -5.0], [3.0, -5.0], [99.0, 99.0]])
    target = vocabulary(*(f"▁{number}" for number in range(20_000)), pad=True)
    made = initialised(name, source_VD, vocabulary("▁0", "▁1", pad=True), target)
    assert made.provenance.counts() == {"pad": 1, "fresh": 20_000}
    rows = made.target_UD[1:]
    if name == "random":
        assert rows.mean(0).tolist() == pytest.approx([0, 0], abs=3 * 0.02 / 20_000**0.5)
        assert rows.std(0).tolist() == pytest.approx([0.02, 0.02], abs=0.0002)
    else:
        assert rows.mean(0).tolist() == pytest.approx([2.0, -5.0], abs=0.03)
        assert rows.std(0).tolist() == pytest.approx([1.0, 0.0], abs=0.02)
        assert torch.equal(rows[:, 1], torch.full((20_000,), -5.0))
