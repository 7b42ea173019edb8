"""Results of mteb: the form that it writes since version 1.11, and the older one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lingraft.crosslingual import mteb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def scores(**subsets: float) -> dict[str, Any]:
    """What mteb 2.26 writes of a task, in its own order of keys."""
    rows = [
        {
            "accuracy": value + 0.1,
            "f1": value,
            "main_score": value,
            "hf_subset": subset,
            "languages": ["kor-Hang", "eng-Latn"],
            "mteb_version": "2.26.24",
        }
        for subset, value in subsets.items()
    ]
    return {
        "dataset_revision": "abc",
        "task_name": "Tatoeba",
        "mteb_version": "2.26.24",
        "scores": {"test": rows},
        "evaluation_time": 3.0,
        "kg_co2_emissions": None,
        "date": None,
        "evaluation_phases": None,
    }


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), "utf-8")


def test_models_stand_beside_each_other_with_the_mean_over_subsets(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    ours, other = tmp_path / "results" / "runs__ko" / "r1", tmp_path / "results" / "bert" / "no"
    write(ours / "Tatoeba.json", scores(**{"kor-eng": 0.5, "deu-eng": 0.7}))
    write(ours / "model_meta.json", {"name": "me/ko", "revision": "r1"})
    write(other / "Tatoeba.json", scores(**{"kor-eng": 0.25}))
    table = mteb.shown(mteb.read(tmp_path / "results"))
    assert [column.title for column in table.columns][3:] == ["bert", "me/ko"]
    cells = {row.cells[2].text: [cell.text for cell in row.cells[3:]] for row in table.rows}
    assert cells == {"kor-eng": ["25.0", "50.0"], "deu-eng": ["–", "70.0"], "mean": ["–", "60.0"]}
    ended = command("retrieve", "--mteb", tmp_path / "results")
    assert ended.status == 0, ended.err
    assert "me/ko" in ended.out
    for idle in (("bert",), ("--languages", "ko")):
        refused = command("retrieve", *idle, "--mteb", tmp_path / "results")
        assert refused.status == 1
        assert "has no effect with --mteb alone; add --pairs" in refused.err


def test_results_that_are_not_there_are_told_before_anything_is_computed(
    tmp_path: Path, tiny_source: Any, command: Any
) -> None:
    pairs = tmp_path / "eng-kor.tsv"
    pairs.write_text("A cat.\t고양이.\nTwo dogs.\t개 두 마리.\n", encoding="utf-8")
    ended = command(
        *("retrieve", tiny_source("roberta"), "--pairs", pairs, "--mteb", tmp_path / "gone"),
        *("--out", tmp_path / "out"),
    )
    assert "gone: no such directory; give the folder of mteb's results" in ended.err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_one_model_is_read_too(tmp_path: Path) -> None:
    write(tmp_path / "runs__ko" / "r1" / "Tatoeba.json", scores(default=0.5))
    (found,) = mteb.read(tmp_path / "runs__ko")
    assert (found.model, found.value) == ("runs/ko", 50.0)


@pytest.mark.parametrize(
    ("test", "subset"),
    [
        ({"kor-eng": {"accuracy": 0.6, "main_score": 0.5}, "evaluation_time": 2.0}, "kor-eng"),
        ({"accuracy": 0.6, "main_score": 0.5, "evaluation_time": 2.0}, "default"),
    ],
)
def test_the_older_form_is_read(tmp_path: Path, test: dict[str, Any], subset: str) -> None:
    data = {
        "dataset_version": None,
        "mteb_dataset_name": "BUCC",
        "mteb_version": "1.0",
        "test": test,
    }
    write(tmp_path / "bert" / "BUCC.json", data)
    (found,) = mteb.read(tmp_path / "bert")
    assert (found.task, found.split, found.subset, found.value) == ("BUCC", "test", subset, 50.0)
    assert found.model == "bert"
