"""Which runs compare, and under which names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from synthetic_results import write_model, write_run

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning.compared import collect, differing_settings
from lingraft.tasks import TASKS
from lingraft.tasks.examples import LabelPrediction, TextExample

if TYPE_CHECKING:
    from pathlib import Path


def test_the_reference_is_scratch_or_the_one_that_is_named(tmp_path: Path) -> None:
    for label in ("mbert", "scratch", "xpt"):
        write_model(tmp_path, label, 0.5, ["nsmc"], n=10)
    assert collect([tmp_path]).reference == "scratch"
    assert collect([tmp_path], "xpt").reference == "xpt"
    with pytest.raises(RecipeError, match="there are mbert, scratch, xpt"):
        collect([tmp_path], "none")


def test_seeds_in_two_folders_are_one_model(tmp_path: Path) -> None:
    write_model(tmp_path / "a", "xpt", 0.5, ["nsmc"], seeds=(0, 1), n=10)
    write_model(tmp_path / "b", "xpt", 0.5, ["nsmc"], seeds=(1, 2), n=10)
    found = collect([tmp_path / "a", tmp_path / "b"])
    assert found.labels == ("xpt",)
    assert sorted(found.parts[0].values("xpt", "accuracy")) == [0, 1, 2]


def test_other_weights_under_the_same_label_are_told_apart_by_folder(tmp_path: Path) -> None:
    cells = [tmp_path / "cells" / name / "tasks" for name in ("xpt-s0", "scratch-s0")]
    for weights, folder in enumerate(cells):
        write_model(folder, "cell", 0.5, ["nsmc"], n=10, model_fingerprint=str(weights))
    found = collect(cells)
    assert found.labels == ("xpt-s0/tasks/cell", "scratch-s0/tasks/cell")
    assert found.reference == "scratch-s0/tasks/cell"
    write_model(cells[0], "cell", 0.5, ["korsts"], n=10, model_fingerprint="other")
    with pytest.raises(DataError, match="cell stands for two models"):
        collect(cells)


def test_two_results_of_one_seed_under_different_settings_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "a", "xpt", 0.5, ["nsmc"], n=10)
    write_model(tmp_path / "b", "xpt", 0.5, ["nsmc"], n=10, fingerprint="other")
    with pytest.raises(DataError, match="under different settings"):
        collect([tmp_path / "a", tmp_path / "b"])


def test_what_was_scored_on_other_examples_is_kept_apart(tmp_path: Path) -> None:
    write_model(tmp_path, "scratch", 0.5, ["nsmc"], n=10)
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], n=12)
    write_model(tmp_path, "half", 0.5, ["nsmc"], seeds=(0, 1), n=10)
    write_model(tmp_path, "half", 0.5, ["nsmc"], seeds=(2, 3), n=12)
    (part,) = collect([tmp_path]).parts
    assert {label: [run.seed for run in runs] for label, runs in part.runs.items()} == {
        "half": [0, 1], "scratch": [0, 1],
    }  # fmt: skip
    assert {label: [run.seed for run in runs] for label, runs in part.apart.items()} == {
        "half": [2, 3], "xpt": [0, 1],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "differing"),
    [
        ({"settings": {"epochs": 3}}, {"settings": {"epochs": 9}}, ("epochs",)),
        ({"selection": "accuracy"}, {"selection": "macro_f1"}, ("selection",)),
        ({"train_examples": 100}, {"train_examples": 200}, ("training examples",)),
        ({"train_digest": "a"}, {"train_digest": "b"}, ("training examples",)),
        ({}, {"train_digest": "b"}, ()),
    ],
)
def test_models_that_were_trained_otherwise_are_told(
    first: dict[str, Any], second: dict[str, Any], differing: tuple[str, ...], tmp_path: Path
) -> None:
    for label, more in (("A", first), ("B", second)):
        write_model(tmp_path, label, 0.5, ["nsmc"], n=10, **more)
    assert differing_settings(collect([tmp_path]).parts[0]) == differing


@pytest.mark.parametrize(
    ("saved", "says"), [('"accuracy": 75.0', "75.00"), ('"old_name": 100.0', "nothing of it")]
)
def test_predictions_that_do_not_give_the_saved_score_are_refused(
    saved: str, says: str, tmp_path: Path
) -> None:
    task = TASKS["nsmc"]
    examples = [TextExample(str(i), "text", None, task.labels[0]) for i in range(4)]
    said = [LabelPrediction(one.id, task.labels[0]) for one in examples]
    file = write_run(tmp_path, "xpt", task, 0, examples, said) / "scores.json"
    file.write_text(file.read_text().replace('"accuracy": 100.0', saved))
    with pytest.raises(DataError, match=f"give accuracy 100.00, scores.json says {says}"):
        collect([tmp_path])


def saved_definition(folder: Path, **changes: object) -> None:
    """Make the results in a folder those of a task of a user's own."""
    table = {"name": "mine", "kind": "pair", "files": {"train": "gone.csv", "test": "test.csv"}}
    table |= {"labels": ["contradiction", "entailment", "neutral"], "metrics": ["macro_f1"]}
    for path in folder.glob("*/*/*/scores.json"):
        scores = json.loads(path.read_text()) | {"task": "mine", "shown": ["macro_f1"]}
        path.write_text(json.dumps(scores | {"task_definition": table | changes}))


def test_a_users_own_task_is_the_one_that_was_saved(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-nli"], n=40)
    saved_definition(tmp_path, name="nsmc")  # which may have the name of another
    (part,) = collect([tmp_path]).parts
    assert part.task.kind == "pair"
    assert part.task.labels == ("contradiction", "entailment", "neutral")  # as in the recipe
    assert part.keys == ("macro_f1",)
    assert part.note == "those of its own files"  # in older results it is "official"


def test_a_users_own_tags_are_known_without_the_training_file(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-ner"], n=10)
    labels = list(TASKS["klue-ner"].labels)
    saved_definition(tmp_path, kind="tagging", metrics=["entities"], labels=labels)
    assert collect([tmp_path]).parts[0].task.selection == "entity_f1"


def test_a_task_without_a_definition_or_with_a_broken_one_is_one_line(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-nli"], n=40)
    saved_definition(tmp_path, metrics=["rouge"])
    with pytest.raises(DataError, match=r"saved definition is broken.*fine-tune it again"):
        collect([tmp_path])
    for path in tmp_path.glob("*/*/*/scores.json"):
        path.write_text(path.read_text().replace("task_definition", "other"))
    with pytest.raises(DataError, match="no task mine, and its scores"):
        collect([tmp_path])
