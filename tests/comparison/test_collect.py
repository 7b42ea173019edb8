"""Which runs compare, and under which names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from synthetic_results import write_model

from lingraft.comparison import tables
from lingraft.comparison.collect import collect, differing_settings
from lingraft.errors import DataError, RecipeError
from lingraft.tasks import TASKS

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
    write_model(tmp_path / "a", "xpt", 0.5, ["nsmc"], n=10)
    write_model(tmp_path / "b", "xpt", 0.5, ["nsmc"], n=10, model_fingerprint="other")
    assert collect([tmp_path / "a", tmp_path / "b"]).labels == ("a/xpt", "b/xpt")


def test_the_tasks_of_a_study_s_cells_are_told_apart_by_cell(tmp_path: Path) -> None:
    cells = [tmp_path / "cells" / name / "tasks" for name in ("xpt-s0", "scratch-s0")]
    for fingerprint, folder in enumerate(cells):
        write_model(folder, "cell", 0.5, ["nsmc"], n=10, model_fingerprint=str(fingerprint))
    found = collect(cells)
    assert found.labels == ("xpt-s0/tasks/cell", "scratch-s0/tasks/cell")
    assert found.reference == "scratch-s0/tasks/cell"


def test_two_models_of_one_label_in_one_folder_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], n=10)
    write_model(tmp_path, "xpt", 0.5, ["korsts"], n=10, model_fingerprint="other")
    with pytest.raises(DataError, match="xpt stands for two models"):
        collect([tmp_path])


def test_two_results_of_one_seed_under_different_settings_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "a", "xpt", 0.5, ["nsmc"], n=10)
    write_model(tmp_path / "b", "xpt", 0.5, ["nsmc"], n=10, fingerprint="other")
    with pytest.raises(DataError, match="under different settings"):
        collect([tmp_path / "a", tmp_path / "b"])


def test_a_model_that_was_scored_on_other_examples_is_kept_apart(tmp_path: Path) -> None:
    write_model(tmp_path, "scratch", 0.5, ["nsmc"], n=10)
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], n=12)
    part = collect([tmp_path]).parts[0]
    assert (list(part.runs), list(part.apart)) == (["scratch"], ["xpt"])


def test_seeds_that_were_scored_on_other_examples_than_the_others_are_named(tmp_path: Path) -> None:
    """Of a model that has both: the files have changed between two calls."""
    write_model(tmp_path, "scratch", 0.5, ["nsmc"], n=10)
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], n=10)
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], seeds=(2, 3), n=12)
    comparison = collect([tmp_path])
    part = comparison.parts[0]
    assert [run.seed for run in part.runs["xpt"]] == [0, 1]
    (note,) = (note for note in tables.scores(comparison).notes if "left out" in note)
    assert note == (
        "nsmc: left out of xpt, since scored on other examples than its other seeds: seed 2, 3."
    )


def test_trainings_that_chose_a_learning_rate_are_no_results(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], seeds=(0,), n=10)
    rates = tmp_path / "xpt" / "nsmc" / "learning-rates"
    rates.mkdir()
    (rates.parent / "seed-0").rename(rates / "0.0001")
    with pytest.raises(DataError, match="holds no results of lingraft finetune"):
        collect([tmp_path / "xpt"])  # where OUT was meant


def test_settings_that_differ_between_models_are_named(tmp_path: Path) -> None:
    write_model(tmp_path, "scratch", 0.5, ["nsmc"], n=10)
    write_model(tmp_path, "xpt", 0.5, ["nsmc"], n=10, settings={"epochs": 9, "learning_rate": 5e-5})
    assert differing_settings(collect([tmp_path]).parts[0]) == ("epochs",)


@pytest.mark.parametrize(
    ("first", "second", "differing"),
    [
        ({"selection": "accuracy"}, {"selection": "macro_f1"}, ("selection",)),
        ({"train_examples": 100}, {"train_examples": 200}, ("training examples",)),
        ({"train_digest": "a"}, {"train_digest": "b"}, ("training examples",)),
        ({}, {"train_digest": "b"}, ()),
    ],
)
def test_models_that_learnt_from_other_examples_are_told(
    first: dict[str, Any], second: dict[str, Any], differing: tuple[str, ...], tmp_path: Path
) -> None:
    for label, more in (("A", first), ("B", second)):
        write_model(tmp_path, label, 0.5, ["nsmc"], **more)
    assert differing_settings(collect([tmp_path]).parts[0]) == differing


def test_a_task_that_is_not_known_and_not_defined_is_one_line(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-nli"], n=40)
    for folder in (tmp_path / "xpt" / "klue-nli").iterdir():
        scores = folder / "scores.json"
        scores.write_text(scores.read_text().replace('"task": "klue-nli"', '"task": "mine"'))
    with pytest.raises(
        DataError, match=r"no task mine, and its scores.json has no task_definition"
    ):
        collect([tmp_path])


def saved_definition(folder: Path, **changes: object) -> None:
    """Make the results in a folder those of a task of a user's own."""
    table = {"name": "mine", "kind": "pair", "files": {"train": "mine.csv", "test": "test.csv"}}
    table |= {"labels": ["contradiction", "entailment", "neutral"], "metrics": ["macro_f1"]}
    for path in folder.glob("*/scores.json"):
        scores = json.loads(path.read_text())
        scores |= {"task": "mine", "task_definition": table | changes}
        path.write_text(json.dumps(scores))


def test_a_users_own_task_is_the_one_that_was_saved(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-nli"], n=40)
    saved_definition(tmp_path / "xpt" / "klue-nli")
    comparison = collect([tmp_path])
    part = comparison.parts[0]
    assert part.task.labels == ("contradiction", "entailment", "neutral")  # as in the recipe
    assert part.keys == ("macro_f1",)
    assert part.note == "those of its own files"  # in older results it is "official"
    assert part.official
    (note,) = (one for one in tables.scores(comparison).notes if one.startswith("mine: "))
    assert "a task of your own (pair, labels contradiction, entailment, neutral)" in note
    assert "scores macro f1, in percent, higher is better" in note


def test_a_users_own_task_may_have_the_name_of_another(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-nli"], n=40)
    saved_definition(tmp_path / "xpt" / "klue-nli", name="nsmc")
    assert collect([tmp_path]).parts[0].task.kind == "pair"


def test_a_users_own_tags_are_known_without_the_training_file(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-ner"], n=10)
    names = {"name": "mine", "files": {"train": "gone.jsonl"}, "metrics": ["entities"]}
    table = names | {"kind": "tagging", "labels": list(TASKS["klue-ner"].labels)}
    for path in tmp_path.glob("*/*/*/scores.json"):
        scores = json.loads(path.read_text())
        path.write_text(json.dumps(scores | {"task": "mine", "task_definition": table}))
    assert collect([tmp_path]).parts[0].task.selection == "entity_f1"


def test_a_broken_definition_is_one_line(tmp_path: Path) -> None:
    write_model(tmp_path, "xpt", 0.7, ["klue-nli"], n=40)
    saved_definition(tmp_path / "xpt" / "klue-nli", metrics=["rouge"])
    with pytest.raises(DataError, match=r"saved definition is broken.*fine-tune it again"):
        collect([tmp_path])


def test_a_folder_without_results_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no results of lingraft finetune"):
        collect([tmp_path])
