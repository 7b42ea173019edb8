from __future__ import annotations

import numpy as np
import pytest
import torch

from lingraft.corpus.pairs import Pair
from lingraft.embeddings import INITIALISERS, ramen, translation
from lingraft.embeddings.material import Material
from lingraft.errors import DataError
from lingraft.recipe import Resources, Tokenizer
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.vocabulary import Vocabulary

NOTHING = 9


def pair(target: list[int], source: list[int]) -> translation.Pair:
    return np.array(target, dtype=np.int32), np.array(source, dtype=np.int32)


def table(pairs: list[translation.Pair], iterations: int) -> dict[tuple[int, int], float]:
    made = translation.learn(pairs, nothing=NOTHING, iterations=iterations)
    keys = zip(made.target_ids.tolist(), made.source_ids.tolist(), strict=True)
    return dict(zip(keys, made.probabilities.tolist(), strict=True))


def test_one_round_by_hand():
    """Pair 1 gives x to piece 0 and to nothing by halves; pair 2 gives x and y by thirds."""
    made = table([pair([0], [5]), pair([0, 1], [5, 6])], iterations=1)
    assert made == pytest.approx(
        {
            (0, 5): (5 / 6) / (7 / 6),
            (0, 6): (1 / 3) / (7 / 6),
            (1, 5): 1 / 2,
            (1, 6): 1 / 2,
            (NOTHING, 5): (5 / 6) / (7 / 6),
            (NOTHING, 6): (1 / 3) / (7 / 6),
        }
    )


def test_pieces_are_told_apart_by_where_they_do_not_stand():
    """Das Haus, das Buch, ein Buch (Brown et al. 1993; Koehn 2010, §4.2)."""
    das, haus, buch, ein, the, house, book, a = 0, 1, 2, 3, 0, 1, 2, 3
    pairs = [pair([das, haus], [the, house]), pair([das, buch], [the, book])]
    pairs += [pair([ein, buch], [a, book])]
    made = table(pairs, iterations=50)
    assert made[haus, house] > 0.9
    assert made[ein, a] > 0.9
    assert made[das, the] > made[das, house] + 0.5
    assert made[buch, book] > made[buch, the] + 0.5


def test_probabilities_sum_to_one_and_parts_do_not_matter(monkeypatch):
    drawn = np.random.default_rng(0)
    pairs = [
        pair(drawn.integers(0, 9, size).tolist(), drawn.integers(0, 7, size + 1).tolist())
        for size in drawn.integers(1, 6, 30)
    ]
    whole = table(pairs, iterations=5)
    for target_id in {key[0] for key in whole}:
        of_target = [share for key, share in whole.items() if key[0] == target_id]
        assert sum(of_target) == pytest.approx(1.0)
    monkeypatch.setattr(translation, "LINKS_AT_ONCE", 20)
    assert table(pairs, iterations=5) == pytest.approx(whole)


def test_the_best_translations_come_in_order():
    made = translation.Translations(
        np.array([0, 0, 0, 4]), np.array([1, 2, 3, 2]), np.array([0.2, 0.5, 0.3, 1.0])
    )
    best = made.best(2)
    assert best[0][0].tolist() == [2, 3]
    assert best[0][1].tolist() == [0.5, 0.3]
    assert best[4][0].tolist() == [2]


@pytest.fixture
def run(tmp_path, tiny_tokenizer):
    """Calls it from Korean in XLM-R's pieces to English in RoBERTa's: `run(parallel text)`."""

    def call(text):
        path = tmp_path / "parallel.tsv"
        path.write_text(text, encoding="utf-8")
        source, target = tiny_tokenizer("roberta"), tiny_tokenizer("xlm-roberta")
        source_VD = torch.randn(320, 4, generator=torch.Generator().manual_seed(1))
        made = INITIALISERS["ramen"].function(
            source_VD,
            Vocabulary.of(source),
            Vocabulary.of(target),
            generator=torch.Generator().manual_seed(0),
            material=Material(source, target, tuple, Resources(parallel=(str(path),)), 0),
        )
        return source_VD, made

    return call


def test_a_new_row_is_the_mean_of_its_translations(run, tiny_tokenizer):
    source_VD, made = run("집\tthe\n" * 3)
    index = tiny_tokenizer("xlm-roberta")("집", add_special_tokens=False)["input_ids"][-1]
    ids = tiny_tokenizer("roberta")("the", add_special_tokens=False)["input_ids"]
    assert made.provenance.rules[index] == "combined"
    assert set(made.provenance.combinations[index].source_ids.tolist()) == set(ids)
    assert torch.allclose(made.target_UD[index], source_VD[ids].mean(dim=0), atol=1e-6)


def test_pairs_that_are_the_other_way_round_are_refused():
    """Each of the two knows the words of its own language and cuts the other's into characters."""
    pair = Pair("나는 학교에 가서 친구를 만났다", "I went to school and met a friend")
    section = Tokenizer(kind="byte-bpe", vocab_size=400)
    korean = tokenizer_files.train(section, None, lambda: [pair.target] * 9, pad_id=1, seed=0)
    english = tokenizer_files.train(section, None, lambda: [pair.source] * 9, pad_id=1, seed=0)
    material = Material(english, korean, tuple, Resources(), 0)
    ramen._check_direction(material, [pair] * 3)
    with pytest.raises(DataError, match=r"^resources\.parallel: seems to be the other way round"):
        ramen._check_direction(material, [Pair(*reversed(pair))] * 3)


def test_sentences_that_are_too_long_are_left_out(run):
    with pytest.raises(DataError, match=r"of 1 sentence pairs none has 1 to 100 pieces"):
        run("집에 와서\t" + "the dog " * 80 + "\n")
