"""Tatoeba and BUCC beside fine-tuned tasks: whose they are, and the average of nine."""

from __future__ import annotations

import json
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from made_up_pairs import made_up
from synthetic_transfer import write_transfer

from lingraft.comparison import transfer
from lingraft.comparison.page import compare
from lingraft.errors import DataError
from lingraft.pretrained.checkpoints import weights_fingerprint
from lingraft.tasks import xtreme

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lingraft.report.table import Table

WEIGHTS = {"A": "weights of A", "B": "weights of B"}


def tatoeba(label: str, language: str, both: tuple[float, float], own: str | None) -> list[Any]:
    """The rows of a model, as `lingraft retrieve` writes them."""
    head = {"model": label, "model_fingerprint": "f", "model_weights": own, "task": "tatoeba"}
    more = {"layer": 1, "metric": "accuracy", "n": 9, "chosen_on": "dev", "protocol": "metaxlm"}
    rows = [
        head | more | {"language": language, "direction": way, "value": value, "chosen": True}
        for way, value in zip(("en→xx", "xx→en"), both, strict=True)
    ]
    return [*rows, rows[0] | {"layer": 0, "chosen": False, "value": 99.0}]


def bucc(label: str, language: str, f1: float, own: str | None) -> list[Any]:
    head = {"model": label, "model_fingerprint": "f", "model_weights": own, "task": "bucc2018"}
    row = head | {"language": language, "layer": 2, "layer_from": "best on dev", "metric": "f1"}
    row |= {"threshold": 1.1, "threshold_from": "dev", "protocol": "lingraft", "split": "test"}
    others = [{"split": "dev", "value": 98.0}, {"metric": "recall", "value": 97.0}]
    return [row | {"value": f1}, *(row | one for one in others)]


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as a folder of `lingraft retrieve`."""

    def write(name: str, *rows: Sequence[Any]) -> Path:
        place = tmp_path / name
        place.mkdir()
        (place / "retrieve.json").write_text("{}")
        lines = [json.dumps(row) + "\n" for part in rows for row in part]
        (place / "results.jsonl").write_text("".join(lines))
        return place

    return write


def cells(table: Table, label: str) -> dict[str, str]:
    (row,) = [row for row in table.rows if row.cells[0].text == label]
    return dict(
        zip((one.title for one in table.columns), (one.text for one in row.cells), strict=True)
    )


def test_results_are_a_models_by_its_weights_or_else_by_its_name(
    folder: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    made = folder(
        "out",
        tatoeba("called otherwise", "de", (40.0, 60.0), WEIGHTS["A"]),
        tatoeba("B", "de", (10.0, 20.0), None),
        tatoeba("stranger", "de", (1.0, 1.0), "weights of another"),
    )
    (found,) = transfer.read_retrievals([made], WEIGHTS)
    assert found.values == {"A": {"de": 50.0}, "B": {"de": 15.0}}
    assert "stranger is none of the compared models (A, B)" in caplog.text


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (tatoeba("A", "de", (1, 1), "others"), "A has other weights than the fine-tuned model"),
        (tatoeba("C", "de", (1, 1), "others"), "C is none of the compared models (A, B)"),
        ([{"model": "A", "task": None, "metric": "accuracy"}], "no finished results of XTREME"),
    ],
    ids=["other weights", "another model", "no benchmark"],
)
def test_results_that_are_nobodys_are_refused(
    folder: Callable[..., Path], rows: Sequence[Any], said: str
) -> None:
    with pytest.raises(DataError) as refused:
        transfer.read_retrievals([folder("out", rows)], WEIGHTS)
    assert said in str(refused.value)


def test_two_folders_add_up_unless_they_contradict_each_other(folder: Callable[..., Path]) -> None:
    german = folder("de", bucc("A", "de", 30.0, WEIGHTS["A"]))
    french = folder("fr", bucc("A", "fr", 50.0, None), bucc("B", "fr", 20.0, None))
    (found,) = transfer.read_retrievals([german, french, german], WEIGHTS)
    assert found.average("A", "f1") == {0: 40.0}
    assert found.average("B", "f1") == {}  # lacks German
    other = folder("other", bucc("A", "de", 31.0, WEIGHTS["A"]))
    with pytest.raises(DataError, match="another number"):
        transfer.read_retrievals([german, other], WEIGHTS)


def test_the_average_of_nine_is_there_with_all_nine_alone(
    tmp_path: Path,
    tiny_source: Callable[[str], Path],
    command: Callable[..., Any],
    folder: Callable[..., Path],
) -> None:
    tuned, data, model = tmp_path / "tuned", tmp_path / "data", tiny_source("roberta")
    for task in xtreme.SEVEN:
        other = "ko" if task == "tydiqa" else "de"
        write_transfer(tuned, "A", task, {"en": 0.9, other: 0.5}, seeds=(0,), n=20)
    for path in tuned.rglob("scores.json"):
        scores = json.loads(path.read_text()) | {"model_fingerprint": weights_fingerprint(model)}
        path.write_text(json.dumps(scores))
    data.mkdir()
    pairs = made_up(60)
    for code, texts in (("deu", pairs.other), ("eng", pairs.english)):
        (data / f"tatoeba.deu-eng.{code}").write_text("\n".join(texts) + "\n")
    out = ("--languages", "de", "--layer", 1, "--out", tmp_path / "tatoeba", "--resamples", 100)
    ended = command("retrieve", model, "--task", "tatoeba", "--data", data, *out)
    assert ended.status == 0, ended.err
    rows = [
        json.loads(one) for one in (tmp_path / "tatoeba/results.jsonl").read_text().split("\n")[:-1]
    ]
    accuracy = fmean(row["value"] for row in rows if row["chosen"])
    assert 0 < accuracy < 100

    def shown(*folders: Path) -> dict[str, str]:
        (_, summary), written = compare(folders, tmp_path / "page.html", resamples=100)
        assert "tatoeba: both directions" in written[0].read_text()
        return cells(summary, "A")

    eight = shown(tuned, tmp_path / "tatoeba")
    assert eight["tatoeba"] == f"{accuracy:.1f}"
    assert "XTREME average" not in eight
    nine = shown(tuned, tmp_path / "tatoeba", folder("bucc", bucc("A", "de", 36.0, None)))
    assert float(nine["retrieval"]) == pytest.approx((accuracy + 36) / 2, abs=0.051)
    parts = [float(nine[task]) for task in xtreme.NINE]
    assert float(nine["XTREME average"]) == pytest.approx(fmean(parts), abs=0.11)
    assert nine["average of seven"] == eight["average of seven"]
