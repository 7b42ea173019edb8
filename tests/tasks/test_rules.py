"""Rules that need no model: what they say, by hand, and that every task is scored with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from official_files import HERE

from lingraft.tasks import TASKS, find, rules
from lingraft.tasks.examples import TaggedExample, TextExample
from lingraft.tasks.splits import read_split

OFFICIAL = Path(__file__).parent / "official"
WITHOUT = {"regression", "span", "parsing"}


def _texts(labels: str) -> list[TextExample]:
    return [TextExample(str(i), "text", None, label) for i, label in enumerate(labels)]


def test_the_most_frequent_label_is_that_of_the_training_examples() -> None:
    task = TASKS["nsmc"]
    found = rules.scores(task, _texts("11110"), _texts("0001"))
    assert {name: scores["accuracy"] for name, scores in found.items()} == {
        "most frequent label": 25.0
    }


def test_all_units_get_the_most_frequent_tag() -> None:
    sentence = TaggedExample("1", tuple("abcd"), ("B-PS", "O", "O", "O"), characters=True)
    (scores,) = rules.scores(TASKS["klue-ner"], [sentence], [sentence]).values()
    assert scores["entity_macro_f1"] == 0.0


@pytest.mark.parametrize("name", [name for name in HERE if "train" in TASKS[name].splits])
def test_every_task_is_scored_with_its_rules(name: str) -> None:
    task = TASKS[name]
    files = find(task, OFFICIAL, ("train", task.evaluation[0]))
    train = read_split(task, "train", files["train"])
    split = next(one for one in files if task.splits[one].labelled and one != "train")
    found = rules.scores(task, train, read_split(task, split, files[split]))
    assert (not found) is (task.kind in WITHOUT)
    for scores in found.values():
        assert set(task.shown) <= set(scores)
        assert all(value <= 100 for key, value in scores.items() if key in task.shown)
