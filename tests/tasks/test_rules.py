"""Rules that need no model: what they say, by hand, and that every task is scored with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from official_files import HERE

from lingraft.finetuning.outcomes import told
from lingraft.tasks import TASKS, find, rules
from lingraft.tasks.examples import ParseExample, TaggedExample, TextExample
from lingraft.tasks.splits import read_split

OFFICIAL = Path(__file__).parent / "official"
WITHOUT = {"regression", "span"}


def _texts(labels: str) -> list[TextExample]:
    return [TextExample(str(i), "text", None, label) for i, label in enumerate(labels)]


def test_the_most_frequent_label_is_that_of_the_training_examples() -> None:
    task = TASKS["nsmc"]
    found = rules.scores(task, _texts("11110"), _texts("0001"))
    assert {name: scores["accuracy"] for name, scores in found.items()} == {
        "most frequent label": 25.0
    }


def test_the_neighbours_are_the_heads_and_the_commonest_relation_theirs() -> None:
    task = TASKS["klue-dp"]
    one = ParseExample("1", ("a", "b", "c"), ("NNG",) * 3, (3, 3, 0), ("NP", "NP", "VP"))
    found = rules.scores(task, [one], [one])
    assert {name: round(scores["uas"], 1) for name, scores in found.items()} == {
        "left neighbour": 0.0,
        "right neighbour": 66.7,
    }
    assert round(found["right neighbour"]["las"], 1) == 33.3


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


def test_a_note_says_what_the_rules_reach() -> None:
    reached = {"left neighbour": {"uas": 12.34, "las_macro_f1": 1.0}}
    assert told(reached, ("uas", "las_macro_f1")) == "uas 12.3, las macro f1 1.0 (left neighbour)"
    assert told({}, ("uas",)) == ""
