"""Cuts of a split, and predictions as they are saved and matched."""

from __future__ import annotations

from pathlib import Path

import pytest
from right_answers import gold

from lingraft.errors import DataError
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


def test_predictions_are_matched_by_id_and_none_may_be_missing() -> None:
    task = TASKS["klue-nli"]
    examples = load(task, OFFICIAL).splits["dev"]
    predictions = [gold(example) for example in examples]
    assert align(examples, predictions[::-1]) == predictions
    with pytest.raises(DataError, match="klue-nli-v1_dev_00000: no prediction"):
        align(examples, predictions[1:])
    with pytest.raises(DataError, match="it has no example"):
        align(examples[1:], predictions)
