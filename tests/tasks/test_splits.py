"""Cuts of a split, and predictions as they are saved and matched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from right_answers import gold

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning.recipe import decode_finetune
from lingraft.tasks import TASKS, cut, load
from lingraft.tasks.examples import TextExample, align, save
from lingraft.tasks.examples import load as load_predictions

OFFICIAL = Path(__file__).parent / "official"


def _many() -> list[TextExample]:
    return [
        TextExample(str(i), f"premise {i // 3}", f"hypothesis {i}", "neutral") for i in range(300)
    ]


def test_a_cut_keeps_documents_together_and_every_example_once() -> None:
    examples = _many()
    parts = cut(examples, {"train": 0.8, "dev": 0.1, "test": 0.1}, seed=3)
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 240,
        "dev": 30,
        "test": 30,
    }
    texts = [{example.text for example in part} for part in parts.values()]
    assert len(texts[0] | texts[1] | texts[2]) == sum(map(len, texts))
    assert sorted(int(e.id) for part in parts.values() for e in part) == list(range(300))


def test_a_cut_depends_on_the_seed_alone() -> None:
    examples = _many()
    shares = {"train": 0.5, "dev": 0.5}
    assert cut(examples, shares, 1) == cut(examples, shares, 1)
    assert cut(examples, shares, 1) != cut(examples, shares, 2)
    order = [example.id for example in cut(examples[::-1], shares, 1)["train"]]
    assert sorted(order) == sorted(example.id for example in cut(examples, shares, 1)["train"])


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ({"train": 0.8, "dev": 0.1}, "sum to 0.9; they must sum to 1"),
        ({"train": 1.2, "dev": -0.2}, "cut.train.*less than 1"),
        ({"dev": 0.5}, "of train and dev, of all three, or of dev and test"),
    ],
)
def test_shares_of_a_cut_sum_to_one(shares: dict[str, float], why: str) -> None:
    with pytest.raises(RecipeError, match=why):
        decode_finetune({"models": ["m"], "tasks": ["nsmc"], "cut": shares}, [])


def test_a_cut_without_an_example_for_a_split_is_an_error() -> None:
    with pytest.raises(DataError, match=r"gives dev no example: .* give more, or a file"):
        cut(_many()[:6], {"train": 0.8, "dev": 0.1, "test": 0.1})


def test_a_cut_is_named_in_the_data(tmp_path: Path) -> None:
    folder = tmp_path / "klue-nli-v1.1"
    folder.mkdir()
    name = "klue-nli-v1.1_dev.json"
    shutil.copy(next(OFFICIAL.rglob(name)), folder / name)
    task = TASKS["klue-nli"]
    with pytest.raises(
        DataError, match=r"train: klue-nli-v1\.1_train\.json.*cut\.train=0\.8 cut\.dev=0\.1"
    ):
        load(task, tmp_path)
    data = load(task, tmp_path, shares={"train": 0.6, "dev": 0.4}, seed=0)
    assert data.names == {
        "train": "cut of dev (60 %, seed 0)",
        "dev": "cut of dev (40 %, seed 0)",
    }
    assert data.evaluation == ("dev",)


def test_the_official_dev_can_be_cut_in_one_that_chooses_and_one_that_is_reported() -> None:
    task = TASKS["klue-nli"]
    official = load(task, OFFICIAL)
    data = load(task, OFFICIAL, shares={"dev": 0.5, "test": 0.5}, seed=0)
    assert data.splits["train"] == official.splits["train"]
    both = [one.id for name in ("dev", "test") for one in data.splits[name]]
    assert sorted(both) == sorted(one.id for one in official.splits["dev"])
    assert data.names["train"] == "train"
    assert data.names["test"] == "cut of dev (50 %, seed 0)"
    assert data.evaluation == ("test",)
    with pytest.raises(DataError, match="has no dev split that could be cut"):
        load(TASKS["nsmc"], OFFICIAL, shares={"dev": 0.5, "test": 0.5})


def test_a_task_without_a_development_set_gets_a_cut_of_train(tmp_path: Path) -> None:
    for split, n in (("train", 100), ("test", 20)):
        (tmp_path / f"ratings_{split}.txt").write_text(
            "id\tdocument\tlabel\n" + "".join(f"{i}\ttext {i}\t{i % 2}\n" for i in range(n)),
            encoding="utf-8",
        )
    data = load(TASKS["nsmc"], tmp_path)
    assert {name: len(part) for name, part in data.splits.items()} == {
        "train": 95,
        "dev": 5,
        "test": 20,
    }
    assert data.names["dev"] == "cut of train (5 %, seed 0)"


@pytest.mark.parametrize("name", ["klue-nli", "klue-sts", "klue-ner", "klue-dp", "klue-mrc"])
def test_saved_predictions_come_back_equal(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    predictions = [gold(e, task.labels) for e in load(task, OFFICIAL).splits["dev"]]
    save(tmp_path / "predictions.jsonl", predictions)
    assert load_predictions(tmp_path / "predictions.jsonl") == predictions


def test_a_line_that_is_no_prediction_is_named(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_text('{"id": "1", "score": 2.0}\n{"id": "2"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 2: is not a saved prediction"):
        load_predictions(path)
    path.write_bytes(b'{"id": "1", "label": "\xff"}\n')
    with pytest.raises(DataError, match="line 1: is not a saved prediction"):
        load_predictions(path)


def test_predictions_are_matched_by_id_and_none_may_be_missing() -> None:
    task = TASKS["klue-nli"]
    examples = load(task, OFFICIAL).splits["dev"]
    predictions = [gold(example) for example in examples]
    assert align(examples, predictions[::-1]) == predictions
    with pytest.raises(DataError, match=r"klue-nli-v1_dev_00000: no prediction"):
        align(examples, predictions[1:])
    with pytest.raises(DataError, match="no such example"):
        align(examples[1:], predictions)
    with pytest.raises(DataError, match="occurs twice"):
        align(examples, [*predictions, predictions[0]])
