"""Vectors, search, retrieval and mining, beside computations that share no code."""

import itertools
import json

import numpy as np
import pytest
import torch
from made_up_pairs import made_up
from sklearn.neighbors import NearestNeighbors
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual import encoder, mining, retrieval
from lingraft.crosslingual.encoder import Encoder, both_ways, sentence_vectors
from lingraft.crosslingual.mining import Mined, Texts
from lingraft.crosslingual.retrieval import Pairs, best_layer, nearest
from lingraft.crosslingual.sentence_export import export
from lingraft.errors import DataError
from lingraft.report import row
from lingraft.tasks import sentences
from lingraft.tasks.sentences import Bitext


def reference(folder, pairs):
    """[L, 2] Accuracy in percent of every layer in both directions.

    A sentence at a time through transformers, nearest neighbours by scikit-learn: the smallest
    distance of vectors of unit length is the highest cosine.
    """

    def encode(texts):
        found = stock_states(folder, texts)
        rows = [[state[0].mean(0).numpy() for state in states] for states in found]
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
    command, tiny_source, tmp_path
):
    given = {"test": [], "dev": []}
    for seed, (split, code) in enumerate(itertools.product(given, ("ko", "de"))):
        _, english, other = made_up({"test": 60, "dev": 50}[split], seed)
        path = tmp_path / f"{split}-{code}.tsv"
        path.write_text("\n".join(map("\t".join, zip(english, other, strict=True))), "utf-8")
        given[split].append(f"{code}={path}")
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
    for says, *dev in (("1 pairs of", "ko", ("b",), ("y",)), ("no pair", "de", (), ())):
        with pytest.raises(DataError, match=says):
            retrieval.check([test], [Pairs(*dev)])


def brute_force(x_ND, y_MD, k):
    """Mine a pair at a time."""
    cosines = x_ND.astype(np.float64) @ y_MD.astype(np.float64).T
    near_x = [np.argsort(-row)[:k] for row in cosines]
    near_y = [np.argsort(-column)[:k] for column in cosines.T]
    mean_x = [cosines[i, near].mean() for i, near in enumerate(near_x)]
    mean_y = [cosines[near, j].mean() for j, near in enumerate(near_y)]

    def margin(i, j):
        return float(cosines[i, j] / ((mean_x[i] + mean_y[j]) / 2))

    candidates = [max((margin(i, j), i, j) for j in near) for i, near in enumerate(near_x)]
    candidates += [max((margin(i, j), i, j) for i in near) for j, near in enumerate(near_y)]
    taken, used_x, used_y = [], set(), set()
    for value, i, j in sorted(set(candidates), reverse=True):
        if i not in used_x and j not in used_y:
            taken.append((value, i, j))
            used_x.add(i)
            used_y.add(j)
    return taken


def test_mined_pairs_are_those_of_a_pair_at_a_time():
    generator = np.random.default_rng(0)
    y_MD = generator.standard_normal((70, 16)) + 1
    x_ND = y_MD[:50] + 0.8 * generator.standard_normal((50, 16))
    x_ND, y_MD = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x_ND, y_MD))
    x_ND, y_MD = x_ND.astype(np.float32), y_MD.astype(np.float32)
    mined = mining.mine(*both_ways(x_ND, y_MD, 4))
    expected = brute_force(x_ND, y_MD, 4)
    found = list(zip(mined.sources_P.tolist(), mined.targets_P.tolist(), strict=True))
    assert found == [(i, j) for _, i, j in expected]
    np.testing.assert_allclose(mined.margins_P, [value for value, _, _ in expected], rtol=1e-5)
    right = sum(i == j for i, j in found)
    assert 25 < right < 50


def mined_of(*pairs):
    return Mined(*(np.array(column) for column in zip(*pairs, strict=True)))


def ten(*gold):
    """Two sides of ten sentences, called 0 to 9, and the pairs to be found in them."""
    sides = ({str(n): f"{side}{n}" for n in range(10)} for side in "ab")
    return Texts.of(Bitext(*sides, frozenset((str(i), str(j)) for i, j in gold)))


def test_the_threshold_is_half_way_after_the_rank_of_the_best_f1():
    mined = mined_of((3.0, 0, 0), (2.0, 1, 1), (1.5, 2, 9), (1.0, 3, 8), (0.5, 4, 4))
    gold = ten((0, 0), (1, 1), (4, 4))
    assert mining.best_threshold(mined, gold) == 1.75
    score = mining.score(mined.above(1.75), gold)
    assert (score["precision"], score["found"]) == (100, 2)
    assert score["recall"] == pytest.approx(200 / 3)
    assert score["f1"] == pytest.approx(80)


def test_the_last_pair_and_equal_margins_are_thresholds_too():
    every = ten((0, 0), (1, 1))
    assert mining.best_threshold(mined_of((3.0, 0, 0), (2.0, 1, 1)), every) == 2.0
    tied = mined_of((3.0, 0, 0), (2.0, 1, 1), (2.0, 2, 5), (1.0, 3, 7))
    assert mining.best_threshold(tied, every) == 1.5  # one of equals cannot be taken alone
    none = ten((7, 7))
    assert mining.best_threshold(tied, none) == float("inf")
    assert mining.score(tied.above(float("inf")), none)["f1"] == 0


def test_equal_sentences_are_one_and_parity_leaves_them_out(tmp_path):
    (tmp_path / "en").write_text("a-1\tone\na-2\ttwo\na-3\tone\n", "utf-8")
    (tmp_path / "ko").write_text("b-1\t하나\nb-2\t둘\n", "utf-8")
    (tmp_path / "gold").write_text("a-1\tb-1\na-3\tb-1\na-2\tb-2\n", "utf-8")
    read = sentences.mixed(tmp_path / "en", tmp_path / "ko", tmp_path / "gold")
    found, by_id = Texts.of(read), Texts.of(read, by_id=True)
    assert found.source.texts == ("one", "two")
    assert found.source.ids == (("a-1", "a-3"), ("a-2",))
    assert found.gold == {("a-1", "b-1"), ("a-2", "b-2")}
    assert len(by_id.gold) == 3
    left = mined_of((2.0, 0, 0), (1.0, 1, 1))
    left = left.without(found.source.repeated(), found.target.repeated())
    assert left.sources_P.tolist() == [1]
    assert mining.score(left, by_id)["recall"] == pytest.approx(100 / 3)


def write_texts(folder, name, seed):
    """Two texts in BUCC's form that share half of their sentences, and the gold pairs."""
    pairs, noise = made_up(40, seed), made_up(40, seed + 50)
    left, right = [*pairs.english, *noise.english], [*noise.other, *pairs.other]
    gold = (f"a-{one}\tb-{other}" for one, other in zip(*pairs[1:], strict=True))
    contents = {
        "en": (f"a-{line}\t{line}" for line in dict.fromkeys(left)),
        "xx": (f"b-{line}\t{line}" for line in dict.fromkeys(right)),
        "gold": gold,
    }
    files = [folder / f"{name}.{end}" for end in contents]
    for path, lines in zip(files, contents.values(), strict=True):
        path.write_text("\n".join(lines), "utf-8")
    return files


def test_the_command_tunes_on_dev_alone_and_writes_what_it_mined(
    command, tiny_source, tmp_path, monkeypatch
):
    (source, target, gold), dev = (write_texts(tmp_path, *one) for one in (("test", 0), ("dev", 7)))
    out = tmp_path / "out"
    arguments = ("data", "mine", tiny_source("bert"), "--text", source, target, "--out", out)
    held = (f"gold={gold}", f"dev={json.dumps(list(map(str, dev)))}")
    ended = command(*arguments, *held)
    assert ended.status == 0, ended.err
    (f1,) = (one for one in rows_of(out) if (one.split, one.metric) == ("test", "f1"))
    assert (f1.facts["threshold_from"], f1.facts["chosen_on"]) == ("dev", "best on dev")
    lines = (out / "bert" / "mined.tsv").read_text("utf-8").splitlines()[1:]
    assert len(lines) == f1.n
    wanted = set(gold.read_text("utf-8").splitlines())
    found = ["\t".join(line.split("\t")[1:3]) for line in lines]
    assert sum(pair in wanted for pair in found) == f1.facts["found"] > 0
    margins = [float(line.split("\t")[0]) for line in lines]
    assert margins == sorted(margins, reverse=True)
    assert margins[-1] >= f1.axes["threshold"] - 1e-6

    # vectors of one layer at a time, where those of all would not fit
    monkeypatch.setattr(mining, "MOST_BYTES", 1)
    few = command(*arguments[:-1], tmp_path / "few", *held)
    assert few.status == 0, few.err
    assert (tmp_path / "few" / "bert" / "mined.tsv").read_text("utf-8").splitlines()[1:] == lines

    # other gold pairs on the test change nothing of what is mined
    gold.write_text("".join(f"{line}\n" for line in sorted(wanted)[:3]), "utf-8")
    again = command(*arguments, *held, "--force")
    assert again.status == 0, again.err
    assert (out / "bert" / "mined.tsv").read_text("utf-8").splitlines()[1:] == lines


TEXTS = ["a", "the cat sat on the mat", "two words", "the cat sat on the mat", "한국어 문장"]


def stock_states(folder, texts):
    """Of a text at a time through transformers: the states of all layers."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in texts:
        with torch.no_grad():
            inputs = tokenizer(text, return_tensors="pt")
            yield model(**inputs, output_hidden_states=True).hidden_states


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "modernbert"])
@pytest.mark.parametrize("pool", ["mean", "cls"])
def test_a_vector_is_the_pooled_states_at_unit_length(family, pool, tiny_source):
    folder = str(tiny_source(family))
    encoder = Encoder.load(folder)
    found_LND = sentence_vectors(encoder, TEXTS, pool)
    chosen = {"mean": slice(None), "cls": slice(1)}[pool]
    assert found_LND.shape[:2] == (3, len(TEXTS))
    for place, states in enumerate(stock_states(folder, TEXTS)):
        for layer, state_BTD in enumerate(states):
            expected_D = state_BTD[0, chosen].mean(0).numpy()
            expected_D /= np.linalg.norm(expected_D)
            np.testing.assert_allclose(found_LND[layer, place], expected_D, atol=1e-5)
    assert (found_LND[:, 1] == found_LND[:, 3]).all()
    assert (sentence_vectors(encoder, TEXTS, pool, [2, 0]) == found_LND[[2, 0]]).all()


def test_an_encoder_that_gives_no_numbers_is_refused(tiny_source):
    encoder = Encoder.load(str(tiny_source("bert")))
    with torch.no_grad():
        next(encoder.model.encoder.parameters())[0, 0] = torch.nan
    with pytest.raises(DataError, match="not finite"):
        sentence_vectors(encoder, TEXTS)


def unit(number, width, seed, common=0.0):
    """Vectors of length 1; the more they have in common, the closer all of them are."""
    generator = np.random.default_rng(seed)
    x_ND = generator.standard_normal((number, width)) + common
    return (x_ND / np.linalg.norm(x_ND, axis=1, keepdims=True)).astype(np.float32)


def all_products(x_ND, y_MD, k):
    """[N, K] Places by all products in fp64; of equal ones the first."""
    products_NM = x_ND.astype(np.float64) @ y_MD.astype(np.float64).T
    return np.argsort(-products_NM, axis=1, kind="stable")[:, :k]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    for name, size in {"ROWS": 64, "COLUMNS": 128, "GATHERED": 1_000}.items():
        monkeypatch.setattr(encoder, name, size)


@pytest.mark.parametrize(("n", "m"), [(300, 500), (64, 128), (1, 700), (33, 5)])
@pytest.mark.parametrize("common", [0.0, 5.0])
def test_both_directions_have_the_neighbours_of_all_products(n, m, common):
    x_ND, y_MD = unit(n, 24, 0, common), unit(m, 24, 1, common)

    forward, backward = encoder.both_ways(x_ND, y_MD, 4)

    for found, one, other in ((forward, x_ND, y_MD), (backward, y_MD, x_ND)):
        places_NK = all_products(one, other, 4)
        expected = np.take_along_axis(one @ other.T, places_NK, axis=1)
        np.testing.assert_allclose(found.scores_NK, expected, atol=2e-6)
        # two products that differ by less than their rounding may change places
        same = found.places_NK == places_NK
        products = np.take_along_axis(one.astype(float) @ other.T, found.places_NK, axis=1)
        assert (same | (np.abs(products - expected) < 1e-6)).all()
        assert same.mean() > 0.99


def test_of_equal_vectors_the_first_wins_however_many_there_are():
    x_ND = unit(40, 16, 0)
    y_MD = np.tile(x_ND, (30, 1))  # 30 copies: more than the candidates that are remembered

    forward, backward = encoder.both_ways(x_ND, y_MD, 3)

    numbers = np.arange(40)
    assert (forward.places_NK == np.stack([numbers, numbers + 40, numbers + 80], axis=1)).all()
    assert (backward.places_NK[:, 0] == np.tile(numbers, 30)).all()
    assert (forward.scores_NK[:, 0] == forward.scores_NK[:, 2]).all()


SENTENCES = ["the cat sat on the mat", "a", "한국어 문장"]
FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "modernbert"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_plain_transformers_gives_the_states_of_the_layer(family, layer, tiny_source, tmp_path):
    out, source = tmp_path / "out", tiny_source(family)
    export(str(source), out, layer)
    config = json.loads((out / "config.json").read_text("utf-8"))
    assert config["num_hidden_layers"] == min(layer + 1, 2)
    both = (list(stock_states(folder, SENTENCES)) for folder in (out, source))
    for found, wanted in zip(*both, strict=True):
        torch.testing.assert_close(found[layer], wanted[layer], rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("family", "layer"), [("bert", 0), ("modernbert", 1), ("bert", 2)])
@pytest.mark.parametrize("pool", ["mean", "cls"])
def test_sentence_transformers_gives_the_same_embeddings(
    family, layer, pool, tiny_source, tmp_path
):
    from sentence_transformers import SentenceTransformer

    source = str(tiny_source(family))
    export(source, tmp_path / "out", layer, pool)
    found = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(SENTENCES)
    expected = sentence_vectors(Encoder.load(source), SENTENCES, pool, [layer])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
