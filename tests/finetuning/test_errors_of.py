"""Confusions and lists of examples, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from synthetic_results import write_model, write_run

from lingraft.finetuning.compared import collect
from lingraft.finetuning.errors_of import Errors, analyse, confusions
from lingraft.tasks import TASKS
from lingraft.tasks.examples import (
    LabelPrediction,
    ParseExample,
    ParsePrediction,
    ScorePrediction,
    TaggedExample,
    TagPrediction,
    TextExample,
)

if TYPE_CHECKING:
    from pathlib import Path


def analysed(folder: Path, name: str, examples: list[Any], *seeds: list[Any]) -> Errors:
    for seed, said in enumerate(seeds):
        write_run(folder, "xpt", TASKS[name], seed, examples, said)
    return analyse(collect([folder]).parts[0])


def nli(gold: str, said: str, *tables: tuple[float, ...]) -> tuple[list[Any], list[Any]]:
    """Examples and predictions of entailment, contradiction and neutral by their letters."""
    names = {label[0]: label for label in TASKS["klue-nli"].labels}
    examples = [TextExample(str(i), f"{i}", "나", names[g]) for i, g in enumerate(gold)]
    rows = tables or ((),) * len(said)
    predictions = [
        LabelPrediction(str(i), names[s], row)
        for i, (s, row) in enumerate(zip(said, rows, strict=True))
    ]
    return examples, predictions


def test_confusions_are_means_over_the_seeds(tmp_path: Path) -> None:
    examples, first = nli("eeecn", "eccce")
    _, second = nli("eeecn", "ecccn")
    found = analysed(tmp_path, "klue-nli", examples, first, second)
    pairs = {
        (str(row["gold"])[0], str(row["said"])[0]): row["xpt"] for row in found.sheets["confusions"]
    }
    expected = {("e", "e"): 1, ("e", "c"): 2, ("c", "c"): 1, ("n", "e"): 0.5, ("n", "n"): 0.5}
    assert pairs == expected
    table = found.tables[0]
    assert table.rows[0].cells[1].text == "3"  # of the commonest gold label
    assert table.rows[0].cells[2].text == "contradiction 2, entailment 1"


def test_similarity_is_cut_alike_in_gold_and_predicted(tmp_path: Path) -> None:
    examples = [TextExample(str(i), "a", "b", None, one) for i, one in enumerate((3.0, 2.9, 5.0))]
    said = [ScorePrediction(str(i), one) for i, one in enumerate((2.9, 1.0, 3.0))]
    found = analysed(tmp_path, "klue-sts", examples, said)
    assert [list(row.values()) for row in found.sheets["confusions"]] == [
        ["different", "different", 1.0],
        ["similar", "different", 1.0],
        ["similar", "similar", 1.0],
    ]
    furthest = {row["id"]: row["distance"] for row in found.sheets["worst"]}
    assert list(furthest) == ["2", "1", "0"]
    assert list(furthest.values()) == pytest.approx([2.0, 1.9, 0.1])


def test_tags_with_hyphens_that_are_no_entities_are_all_counted() -> None:
    example = TaggedExample("0", ("(", "a", ")"), ("-LRB-", "NN", "-RRB-"))
    said = TagPrediction("0", ("-LRB-", "NN", "NN"))
    task = replace(TASKS["klue-ner"], labels=("-LRB-", "-RRB-", "NN"))
    found = confusions(task, [(example, said)])
    assert found == {("-LRB-", "-LRB-"): 1, ("NN", "NN"): 1, ("-RRB-", "NN"): 1}


def test_types_are_counted_where_gold_has_an_entity(tmp_path: Path) -> None:
    tags = ("B-PS", "I-PS", "I-PS", "I-PS", "O", "B-LC")
    examples = [TaggedExample("0", tuple("ab cde"), tags, characters=True)]
    said = [TagPrediction("0", ("B-PS", "I-PS", "I-PS", "O", "B-DT", "B-PS"))]
    found = analysed(tmp_path, "klue-ner", examples, said)
    pairs = {(row["gold"], row["said"]): row["xpt"] for row in found.sheets["confusions"]}
    assert pairs == {("PS", "PS"): 2, ("PS", "O"): 1, ("LC", "PS"): 1}
    (worst,) = found.sheets["worst"]
    assert (worst["gold"], worst["entities wrong"]) == ("abc (PS), e (LC)", 5)


def test_parts_of_speech_have_wrong_tags_and_no_entities(tmp_path: Path) -> None:
    examples = [
        TaggedExample("0", ("가", "나"), ("NOUN", "VERB")),
        TaggedExample("1", ("다", "라", "마"), ("NOUN", "VERB", "NOUN")),
    ]
    said = [TagPrediction("0", ("NOUN", "VERB")), TagPrediction("1", ("NOUN", "NOUN", "VERB"))]
    (first,) = analysed(tmp_path, "udpos-ko", examples, said).sheets["worst"]
    assert list(first.values())[1:] == [
        "1", "다 라 마", "라 (VERB), 마 (NOUN)", "라 (NOUN), 마 (VERB)", 2.0,
    ]  # fmt: skip


def test_a_word_is_wrong_with_another_head_or_relation(tmp_path: Path) -> None:
    example = ParseExample("0", ("가", "나", "다"), ("NNG",) * 3, (2, 3, 0), ("NP", "NP", "VP"))
    said = ParsePrediction("0", (3, 3, 0), ("NP", "AP", "VP"))
    (worst,) = analysed(tmp_path, "klue-dp", [example], [said]).sheets["worst"]
    assert worst["words wrong"] == 2
    assert worst["said"] == "가 → 다 (NP), 나 → 다 (AP)"


def test_the_most_surprising_mistakes_come_first(tmp_path: Path) -> None:
    tables = []
    for of_gold in ((0.5, 0.5, 0.0), (0.3, 0.3, 0.4), (0.98, 0.01, 0.01)):
        shares = dict(zip(("entailment", "contradiction", "neutral"), of_gold, strict=True))
        tables.append(tuple(shares[label] for label in TASKS["klue-nli"].labels))
    found = analysed(tmp_path, "klue-nli", *nli("eec", "ene", *tables)).sheets["worst"]
    against = [(row["id"], row["probability against gold"]) for row in found]
    assert against == [("2", pytest.approx(0.99)), ("1", pytest.approx(0.7))]
    (bare,) = analysed(tmp_path / "none", "klue-nli", *nli("ec", "ee")).sheets["worst"]
    assert (bare["id"], bare["probability against gold"]) == ("1", 1.0)  # none were saved


@pytest.mark.parametrize("task", ["klue-nli", "klue-re", "klue-sts", "klue-ner", "klue-mrc"])
def test_every_kind_of_task_has_tables_of_all_models(tmp_path: Path, task: str) -> None:
    for label, quality in (("scratch", 0.4), ("xpt", 0.8)):
        write_model(tmp_path, label, quality, [task], n=40)
    found = analyse(collect([tmp_path]).parts[0])
    assert all(table.rows for table in found.tables)
    named = [{row["model"] for row in rows} for rows in found.sheets.values() if "id" in rows[0]]
    assert named
    assert all(labels == {"scratch", "xpt"} for labels in named)
