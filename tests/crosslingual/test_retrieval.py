"""Accuracy by nearest neighbours, beside computations that share no code with it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import real_data
import tiny_translators
import torch
from made_up_pairs import made_up
from sklearn.neighbors import NearestNeighbors
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual import pairs as sets
from lingraft.crosslingual.encoder import Encoder
from lingraft.crosslingual.retrieval import WAYS, Answers, nearest
from lingraft.report import row

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingraft.report.row import Score

ROOT = Path(__file__).parents[2]
TATOEBA = real_data.folder("par_tatoeba")


def reference(folder: str, english: list[str], other: list[str]) -> np.ndarray:
    """[L, 2] Accuracy in percent of every layer in both directions.

    A sentence at a time through transformers, nearest neighbours by scikit-learn: the smallest
    distance of vectors of unit length is the highest cosine.
    """
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            with torch.no_grad():
                inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=128)
                states = model(**inputs, output_hidden_states=True).hidden_states
            rows.append([state[0].mean(0).numpy() for state in states])
        vectors = np.swapaxes(np.array(rows, dtype=np.float64), 0, 1)
        return vectors / np.linalg.norm(vectors, axis=2, keepdims=True)

    found = []
    for x, y in zip(encode(english), encode(other), strict=True):
        ways = []
        for queries, searched in ((x, y), (y, x)):
            index = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(searched)
            nearest = index.kneighbors(queries, return_distance=False)[:, 0]
            ways.append(100 * np.mean(nearest == np.arange(len(queries))))
        found.append(ways)
    return np.array(found)


@pytest.fixture
def pair_file(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, number: int = 60, seed: int = 0) -> Path:
        made = made_up(number, seed)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        rows = zip(made.english, made.other, strict=True)
        path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
        return path

    return write


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_accuracies_are_those_of_scikit_learn(
    family: str, tiny_source: Callable[[str], Any]
) -> None:
    folder, pairs = str(tiny_source(family)), made_up(80)
    answers = Answers.of(pairs.language, nearest(Encoder.load(folder), pairs, "mean"))
    expected_LW = reference(folder, list(pairs.english), list(pairs.other))
    found_LW = np.stack([answers.accuracies(way) for way in WAYS], axis=1)
    np.testing.assert_allclose(found_LW, expected_LW)
    assert 5 < expected_LW.max() < 100  # neither hopeless nor trivial


@pytest.mark.slow
@pytest.mark.skipif(not TATOEBA.is_dir(), reason="shared/data/par_tatoeba is not here")
@pytest.mark.parametrize("language", ["de", "ko"])
def test_accuracies_on_real_test_sets_are_those_of_scikit_learn(language: str) -> None:
    (pairs,) = sets.read([str(TATOEBA)], [language])
    pairs = pairs.first(60)
    folder = str(ROOT / "demo" / "source")
    answers = Answers.of(pairs.language, nearest(Encoder.load(folder), pairs, "mean"))
    expected_LW = reference(folder, list(pairs.english), list(pairs.other))
    found_LW = np.stack([answers.accuracies(way) for way in WAYS], axis=1)
    np.testing.assert_allclose(found_LW, expected_LW)
    assert expected_LW.max() > 1


def test_a_perfect_answer_is_all_and_a_shifted_one_nothing() -> None:
    right_LN = np.tile(np.arange(5), (2, 1))
    answers = Answers(
        "xx", {WAYS[0]: right_LN, WAYS[1]: (right_LN + 1) % 5}, dict.fromkeys(WAYS, right_LN * 1.0)
    )
    assert answers.accuracies(WAYS[0]).tolist() == [100, 100]
    assert answers.accuracies(WAYS[1]).tolist() == [0, 0]
    assert answers.gains(WAYS).mean(axis=1).tolist() == [50, 50]


def rows_of(folder: Path) -> list[Score]:
    return row.read(folder / "results.jsonl")


def test_the_command_reports_both_directions_at_the_layer_that_dev_chose(
    command: Callable[..., Any],
    tiny_source: Callable[[str], Any],
    tmp_path: Path,
    pair_file: Callable[..., Path],
) -> None:
    pair_file("test/eng-kor.tsv")
    pair_file("test/eng-deu.tsv", seed=1)
    for code, seed in (("kor", 2), ("deu", 3)):
        pair_file(f"dev/eng-{code}.tsv", 40, seed)
    models = [tiny_source(family) for family in ("roberta", "bert")]
    arguments = (
        "analyze",
        "retrieval",
        *models,
        "--pairs",
        tmp_path / "test",
        "--lang",
        "ko",
        "de",
    )
    arguments += ("--dev", tmp_path / "dev", "--out", tmp_path / "out", "resamples=200")
    ended = command(*arguments)
    assert ended.status == 0, ended.err
    rows = rows_of(tmp_path / "out")
    assert len(rows) == 2 * 2 * 2 * 3  # models, languages, directions, layers
    assert {one.facts["chosen_on"] for one in rows} == {"dev"}
    for model in ("roberta", "bert"):
        curve = dev_curve(str(tiny_source(model)), tmp_path / "dev")
        (layer,) = {r.axes["layer"] for r in rows if r.model == model and r.reported}
        assert layer == int(np.argmax(curve))
    predicted = (tmp_path / "out" / "bert" / "predictions-ko.tsv").read_text("utf-8")
    table = list(csv.DictReader(predicted.splitlines(), delimiter="\t"))
    share = 100 * np.mean([row["line"] == row["en→xx found"] for row in table])
    chosen = next(
        one.value
        for one in rows
        if (one.model, one.data, one.axes["direction"], one.reported)
        == ("bert", "pairs-ko", "en→xx", True)
    )
    assert share == pytest.approx(chosen)
    assert "Less roberta" in ended.out
    assert (tmp_path / "out" / "curve.svg").read_text("utf-8").startswith("<svg")
    assert "oracle" not in ended.out


def dev_curve(folder: str, dev: Path) -> np.ndarray:
    """[L] By the reference: the mean over languages and directions."""
    curves = []
    for file in sorted(dev.iterdir()):
        rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
        english, other = ([row[side] for row in rows] for side in (0, 1))
        curves.append(reference(folder, english, other).mean(axis=1))
    return np.mean(curves, axis=0)


def test_answers_that_are_there_are_kept_and_other_settings_are_refused(
    command: Callable[..., Any],
    tiny_source: Callable[[str], Any],
    tmp_path: Path,
    pair_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, out = pair_file("eng-kor.tsv"), tmp_path / "out"
    arguments = ("analyze", "retrieval", tiny_source("bert"), "--pairs", file, "--out", out)
    first = command(*arguments)
    assert first.status == 0, first.err
    assert "oracle" in first.out  # the layer is chosen on the test itself, and that is said
    before = rows_of(out)

    def no_model(*_: object) -> None:
        raise AssertionError("the answers were there")

    monkeypatch.setattr(Encoder, "load", no_model)
    again = command(*arguments)
    assert (again.status, again.out) == (0, first.out)
    assert rows_of(out) == before
    other = command(*arguments, "layer=1")
    assert other.status == 1
    assert "--force" in other.err
    replaced = command(*arguments, "layer=1", "--force")
    assert replaced.status == 0, replaced.err
    assert {one.facts["chosen_on"] for one in rows_of(out)} == {"given"}
    with pytest.raises(AssertionError):  # stops where it needs the model
        command(*arguments, "pool=cls", "--force")
    assert not (out / "results.jsonl").exists()  # they would be another call's


def test_parity_with_xtreme_counts_the_direction_from_english_alone(
    command: Callable[..., Any],
    tiny_source: Callable[[str], Any],
    tmp_path: Path,
    pair_file: Callable[..., Path],
) -> None:
    file, out = pair_file("eng-kor.tsv"), tmp_path / "out"
    arguments = ("analyze", "retrieval", tiny_source("bert"), "--pairs", file, "--out", out)
    refused = command(*arguments, "parity=xtreme")
    assert "add layer=N" in refused.err  # two layers: XTREME has no such model
    ended = command(*arguments, "parity=xtreme", "layer=1")
    assert ended.status == 0, ended.err
    rows = rows_of(out)
    assert {one.axes["direction"] for one in rows} == {"en→xx"}
    english, other = made_up(60).english, made_up(60).other
    expected = reference(str(tiny_source("bert")), list(english), list(other))[1, 0]
    assert [one.value for one in rows if one.reported] == [pytest.approx(expected)]


def test_a_benchmark_is_read_as_its_files_are(
    command: Callable[..., Any],
    tiny_source: Callable[[str], Any],
    tmp_path: Path,
    pair_file: Callable[..., Path],
) -> None:
    pair_file("tatoeba/eng-kor.tsv")
    pair_file("tatoeba/eng-deu.tsv", seed=1)
    for out, how in {
        "task": ("--task", "tatoeba", "--data", tmp_path),
        "files": ("--pairs", tmp_path / "tatoeba"),
    }.items():
        given = ("analyze", "retrieval", tiny_source("bert"), *how, "--lang", "ko", "de")
        ended = command(*given, "resamples=200", "--out", tmp_path / out)
        assert ended.status == 0, ended.err
    named = rows_of(tmp_path / "task")
    assert {(one.axes["task"], one.data) for one in named} == {
        ("tatoeba", "tatoeba-ko"), ("tatoeba", "tatoeba-de"),
    }  # fmt: skip
    values = [[one.value for one in rows] for rows in (named, rows_of(tmp_path / "files"))]
    assert values[0] == values[1]
    predicted = [(tmp_path / out / "bert/predictions-ko.tsv") for out in ("task", "files")]
    assert predicted[0].read_bytes() == predicted[1].read_bytes()


def test_an_english_side_in_alphabetical_order_is_warned_of(
    command: Callable[..., Any], tiny_source: Callable[[str], Any], tmp_path: Path
) -> None:
    rows = (f"{n:03} words\t{n:03} in Korean\n" for n in range(30))
    (tmp_path / "eng-kor.tsv").write_text("".join(rows), "utf-8")
    arguments = ("analyze", "retrieval", tiny_source("bert"), "--pairs", tmp_path / "eng-kor.tsv")
    ended = command(*arguments, "layer=1", "--out", tmp_path / "out")
    assert ended.status == 0
    assert "'kor' (test) is in alphabetical order" in ended.err
    for name, step in (("dev", 1), ("test", 7)):
        (tmp_path / name).mkdir()
        rows = (f"{n * step % 30:03} {name}\t{n} in Korean\n" for n in range(30))
        (tmp_path / name / "eng-kor.tsv").write_text("".join(rows), "utf-8")
    pairs = ("--pairs", tmp_path / "test", "--dev", tmp_path / "dev")
    ended = command(
        "analyze", "retrieval", tiny_source("bert"), *pairs, "--out", tmp_path / "with-dev"
    )
    assert ended.status == 0, ended.err
    assert "(test) is in" not in ended.err
    assert "'kor' (dev) is in alphabetical order" in ended.err


@pytest.mark.parametrize("kind", ["folder", "translator"])
def test_a_second_model_that_is_no_encoder_is_refused_before_the_first_one_reads(
    kind: str,
    tiny_source: Callable[[str], Path],
    pair_file: Callable[..., Path],
    tmp_path: Path,
    command: Any,
) -> None:
    wrong = tmp_path / kind
    wrong.mkdir()
    if kind == "translator":
        tiny_translators.save(wrong, "bart")
    pairs = pair_file("eng-kor.tsv", 4)
    ended = command(
        *(
            "analyze",
            "retrieval",
            tiny_source("roberta"),
            wrong,
            "--pairs",
            pairs,
            "--out",
            tmp_path / "out",
        )
    )
    says = {"folder": "holds no config.json", "translator": "is an encoder–decoder"}
    assert says[kind] in ended.err
    assert not (tmp_path / "out").exists()
