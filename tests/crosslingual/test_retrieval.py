"""Accuracy by nearest neighbours, beside computations that share no code with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from made_up_pairs import made_up
from sklearn.neighbors import NearestNeighbors
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual import retrieval
from lingraft.crosslingual.encoder import Encoder
from lingraft.crosslingual.retrieval import Pairs, best_layer, nearest
from lingraft.errors import DataError
from lingraft.report import row


def reference(folder, pairs):
    """[L, 2] Accuracy in percent of every layer in both directions.

    A sentence at a time through transformers, nearest neighbours by scikit-learn: the smallest
    distance of vectors of unit length is the highest cosine.
    """
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(texts):
        rows = []
        for text in texts:
            with torch.no_grad():
                inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=128)
                states = model(**inputs, output_hidden_states=True).hidden_states
            rows.append([state[0].mean(0).numpy() for state in states])
        vectors = np.swapaxes(np.array(rows, dtype=np.float64), 0, 1)
        return vectors / np.linalg.norm(vectors, axis=2, keepdims=True)

    found = []
    for x, y in zip(encode(pairs.english), encode(pairs.other), strict=True):
        ways = []
        for queries, searched in ((x, y), (y, x)):
            index = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(searched)
            nearest = index.kneighbors(queries, return_distance=False)[:, 0]
            ways.append(100 * np.mean(nearest == np.arange(len(queries))))
        found.append(ways)
    return np.array(found)


@pytest.fixture
def pair_file(tmp_path):
    def write(name, number=60, seed=0):
        made = made_up(number, seed)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        rows = zip(made.english, made.other, strict=True)
        path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
        return path

    return write


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_accuracies_are_those_of_scikit_learn(family, tiny_source):
    folder, pairs = str(tiny_source(family)), made_up(80)
    places_WLN = nearest(Encoder.load(folder), pairs, "mean")
    right_WLN = places_WLN == np.arange(places_WLN.shape[-1])
    expected_LW = reference(folder, pairs)
    np.testing.assert_allclose(100 * right_WLN.mean(axis=2).T, expected_LW)
    assert 5 < expected_LW.max() < 100  # neither hopeless nor trivial
    assert best_layer({"xx": right_WLN}) == expected_LW.mean(axis=1).argmax()


def rows_of(folder):
    return row.read(folder / "results.jsonl")


def test_the_command_reports_both_directions_at_the_layer_that_dev_chose(
    command, tiny_source, tmp_path, pair_file
):
    given = {"test": [], "dev": []}
    for seed, (split, code) in enumerate(itertools.product(given, ("ko", "de"))):
        number = {"test": 60, "dev": 50}[split]
        given[split].append(f"{code}={pair_file(f'{split}/{code}.tsv', number, seed)}")
    models = [tiny_source(family) for family in ("roberta", "bert")]
    out = tmp_path / "out"
    ended = command(
        "analyze", "retrieval", *models, "--pairs", *given["test"], "--dev", *given["dev"],
        "--out", out,
    )  # fmt: skip
    assert ended.status == 0, ended.err
    rows = rows_of(out)
    assert len(rows) == 2 * 2 * 2 * 3  # models, languages, directions, layers
    assert {one.facts["chosen_on"] for one in rows} == {"dev"}
    for model in ("roberta", "bert"):
        folder = str(tiny_source(model))
        curves = [reference(folder, made_up(50, seed)).mean(axis=1) for seed in (2, 3)]
        (layer,) = {r.axes["layer"] for r in rows if r.model == model and r.reported}
        assert layer == int(np.argmax(np.mean(curves, axis=0)))
    assert "less roberta" in ended.out
    assert (out / "curve.svg").read_text("utf-8").startswith("<svg")
    assert "oracle" not in ended.out


def test_dev_pairs_are_other_pairs_of_the_same_languages():
    test = Pairs("ko", ("a", "b"), ("x", "y"))
    for dev, says in (
        (Pairs("ko", ("b",), ("y",)), "1 pairs of"),
        (Pairs("de", (), ()), "no pair"),
    ):
        with pytest.raises(DataError, match=says):
            retrieval.check([test], [dev])
