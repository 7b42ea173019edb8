"""Mining against a brute-force computation, and the texts that it reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_up_pairs import made_up

from lingraft.crosslingual import mining
from lingraft.crosslingual.encoder import both_ways
from lingraft.crosslingual.mining import Mined, Texts
from lingraft.report import row
from lingraft.tasks import sentences
from lingraft.tasks.sentences import Bitext


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
    x_ND, y_MD = (
        (one / np.linalg.norm(one, axis=1, keepdims=True)).astype(np.float32)
        for one in (x_ND, y_MD)
    )
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


@pytest.fixture
def texts(tmp_path):
    """Two texts in BUCC's form that share half of their sentences, and the gold pairs."""

    def write(name, seed):
        pairs, noise = made_up(40, seed), made_up(40, seed + 50)
        left, right = [*pairs.english, *noise.english], [*noise.other, *pairs.other]
        files = tuple(tmp_path / f"{name}.{end}" for end in ("en", "xx", "gold"))
        for path, side, lines in zip(files, "ab", (left, right), strict=False):
            rows = (f"{side}-{line}\t{line}\n" for line in dict.fromkeys(lines))
            path.write_text("".join(rows), "utf-8")
        both = zip(pairs.english, pairs.other, strict=True)
        gold = (f"a-{one}\tb-{other}\n" for one, other in both)
        files[2].write_text("".join(gold), "utf-8")
        return files

    return write


def test_the_command_tunes_on_dev_alone_and_writes_what_it_mined(
    command, tiny_source, tmp_path, texts, monkeypatch
):
    (source, target, gold), dev = texts("test", 0), texts("dev", 7)
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


def rows_of(folder):
    return row.read(folder / "results.jsonl")
