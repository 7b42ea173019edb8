"""Scores, significance and the page of models after fine-tuning."""

from __future__ import annotations

import csv
import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from snapshots import check_page
from synthetic_results import sentence, write_model, write_run

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import score_tables, significance
from lingraft.finetuning.compare import compare, score_rows, verdict
from lingraft.finetuning.compared import Comparison, answers, collect
from lingraft.finetuning.scored import block_of
from lingraft.stats import Resampling, interval
from lingraft.tasks import TASKS
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.examples import (
    LabelPrediction,
    TextExample,
    TranslationExample,
    TranslationPrediction,
    document,
)
from lingraft.tasks.translation_metrics import signatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingraft.report.table import Cell, Table


def entry(table: Table, row: str, column: int) -> Cell:
    return next(line.cells[column] for line in table.rows if line.cells[0].text == row)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models on two tasks with three seeds."""
    folder = tmp_path_factory.mktemp("results")
    for label, quality in (("scratch", 0.2), ("xpt", 0.95), ("mbert", 0.7)):
        write_model(folder, label, quality, ["klue-nli", "nsmc"], seeds=(0, 1, 2), n=80)
    write_model(folder, "half", 0.9, ["nsmc"], seeds=(0,), n=80)
    write_model(folder, "odd", 0.9, ["klue-nli"], n=60)
    return folder


@pytest.fixture(scope="module")
def found(three: Path) -> Comparison:
    return collect([three])


def test_scores_are_means_and_sample_deviations_and_the_best_are_ranked(found: Comparison) -> None:
    table = score_tables.of_tasks(found, {})
    runs = {part.title: part.runs for part in found.parts}
    for column, head in list(enumerate(table.columns))[1:-1]:
        for label in ("scratch", "xpt", "mbert"):
            values = [run.rows[head.under].value for run in runs[head.title][label]]
            cell = entry(table, label, column)
            expected = (f"{fmean(values):.1f}", f"± {stdev(values):.1f}")
            assert (cell.text, cell.under) == expected
    assert [entry(table, "xpt", i).rank for i in (1, 2)] == [1, 1]
    assert entry(table, "scratch", 1).rank == 0


def test_what_was_scored_on_other_examples_is_marked_and_not_ranked(found: Comparison) -> None:
    table = score_tables.of_tasks(found, {})
    (place,) = [at for at, head in enumerate(table.columns) if head.title == "klue-nli"]
    assert (entry(table, "odd", place).mark, entry(table, "odd", place).rank) == ("†", 0)
    rows = [row for row in score_rows(found) if row["model"] == "odd"]
    assert {(row["same_examples"], row["n"]) for row in rows} == {(False, 60)}


def test_the_verdict_counts_columns_won_alone_and_significant_differences(
    found: Comparison,
) -> None:
    tested = significance.differences(found, 200)
    assert all(test.mark for test in tested)
    first = replace(tested[0], found=replace(tested[0].found, p=0.4))
    text = verdict(found, score_tables.of_tasks(found, {}), [first, *tested[1:]])
    assert "2 of 2 columns: xpt." in text
    assert f"{len(tested) - 1} of {len(tested)} differences to scratch." in text


def test_splits_that_are_not_official_are_marked_and_named(tmp_path: Path) -> None:
    for label in ("scratch", "xpt"):
        write_model(tmp_path, label, 0.5, ["nsmc"], n=20, note="cut of dev (80 %, seed 0)")
    table = score_tables.of_tasks(collect([tmp_path]), {})
    assert table.columns[1].title == "nsmc‡"
    assert any("cut of dev (80 %, seed 0)" in note for note in table.notes)


# -- significance


def test_a_clear_difference_is_significant_and_none_is_not(tmp_path: Path) -> None:
    task = TASKS["nsmc"]
    examples = [TextExample(str(i), f"text {i}", None, task.labels[0]) for i in range(80)]
    for label, right in (("scratch", 4), ("same", 4), ("good", 76)):
        for seed in (0, 1):
            said = [
                LabelPrediction(one.id, task.labels[(i + 40 * seed) % 80 >= right])
                for i, one in enumerate(examples)
            ]
            write_run(tmp_path, label, task, seed, examples, said)
    tested = {one.label: one for one in significance.differences(collect([tmp_path]), 200)}
    assert tested["good"].mark == "*"
    assert tested["good"].found.value == pytest.approx(90)
    assert (tested["same"].found.value, tested["same"].found.p, tested["same"].mark) == (0, 1, "")


def test_examples_that_share_a_premise_share_a_block_and_blocks_give_the_score(
    tmp_path: Path,
) -> None:
    task = TASKS["nsmc"]
    examples = [TextExample(str(i), f"premise {i // 3}", None, task.labels[0]) for i in range(90)]
    said = [LabelPrediction(one.id, task.labels[i // 3 % 3 > 0]) for i, one in enumerate(examples)]
    write_run(tmp_path, "xpt", task, 0, examples, said)
    row = collect([tmp_path]).parts[0].rows("xpt", "accuracy")[(0,)]
    assert len({block_of(one) for one in examples}) <= 30
    worth = [share for share, count in row.blocks or () if count]
    assert len(worth) == len({block_of(one) for one in examples})
    assert 100 * fmean(worth) == pytest.approx(row.value)


@pytest.fixture
def translators(tmp_path: Path) -> Path:
    """Two translators with two seeds each, of which the second says more of the right words."""
    table = {"name": "en-ko", "kind": "translation", "language": "ko", "metrics": ["bleu", "chrf"]}
    table |= {"files": {"train": "train.tsv", "test": "test.tsv"}}
    task = task_of(decode(table), Path())
    drawn = random.Random(0)
    examples = [
        TranslationExample(str(number), sentence(drawn), sentence(drawn, 6), "ko")
        for number in range(40)
    ]
    for label, share in (("scratch", 0.5), ("veco", 0.3)):
        for seed in (0, 1):
            said = [
                TranslationPrediction(
                    one.id,
                    " ".join(
                        "말" if drawn.random() < share else word for word in one.translation.split()
                    ),
                )
                for one in examples
            ]
            more = {"task_definition": task.saved, "signatures": signatures(task.metrics, "ko")}
            write_run(tmp_path / "runs", label, task, seed, examples, said, split="test", **more)
    return tmp_path / "runs"


def test_the_interval_is_that_of_bleu_on_corpora_drawn_with_their_seeds(translators: Path) -> None:
    comparison = collect([translators])
    (tested,) = (one for one in significance.differences(comparison, 200) if one.key == "bleu")
    (part,) = comparison.parts
    texts = {
        (label, run.seed): [said.translation for _, said in answers(part, run)]
        for label, runs in part.runs.items()
        for run in runs
    }
    resampling, metric = Resampling(200), BLEU()
    groups = len({document(one) for one in part.examples})
    assert groups == len(part.examples)
    right = [one.translation for one in part.examples]
    gains_RS = np.empty((200, 2))
    for row, draw in enumerate(resampling.draws(groups, "documents").astype(int)):
        places = np.repeat(np.arange(len(right)), draw)
        scored = {
            key: metric.corpus_score([said[at] for at in places], [[right[at] for at in places]])
            for key, said in texts.items()
        }
        for seed in (0, 1):
            gains_RS[row, seed] = scored["veco", seed].score - scored["scratch", seed].score
    expected = interval(resampling.mean(gains_RS, [(0,), (1,)]))
    width = expected[1] - expected[0]  # blocks stand for drawing sentences and scoring anew
    assert (tested.found.low, tested.found.high) == pytest.approx(expected, abs=width / 5)
    assert tested.found.value > 5
    notes = score_tables.of_tasks(comparison, {}).notes
    assert any("en-ko bleu: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in note for note in notes)


# -- files


def test_the_page_is_written_with_all_numbers_as_csv(
    three: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    out = tmp_path / "pages" / "all.html"
    ended = command("report", three, "resamples=100", "reference=mbert", "--out", out)
    assert ended.status == 0, ended.err
    assert "nsmc" in ended.out
    check_page("comparison", out.read_text(encoding="utf-8"))
    scores, less = (
        list(csv.DictReader(out.with_name(f"all{name}.csv").read_text().splitlines()))
        for name in ("", "-differences")
    )
    assert len(scores) == 3 * 2 * 3 + 1 + 2  # models, tasks, seeds; half and odd
    means = [
        fmean(float(row["value"]) for row in scores if (row["task"], row["model"]) == ("nsmc", one))
        for one in ("xpt", "mbert")
    ]
    gains = {row["model"]: float(row["value"]) for row in less if row["task"] == "nsmc"}
    assert gains["xpt"] == pytest.approx(means[0] - means[1])
    files = {path.name for path in out.with_name("all-errors").iterdir()}
    assert {"klue-nli-confusions.csv", "nsmc-worst.csv"} <= files


def test_only_pages_and_files_of_ours_are_replaced(three: Path, tmp_path: Path) -> None:
    for mine, named in ((".html", "is no page of lingraft"), (".csv", "is there already")):
        path = tmp_path / f"mine{mine}"
        path.write_text("mine")
        with pytest.raises(DataError, match=named):
            compare([three], tmp_path / "mine.html")
        assert path.read_text() == "mine"
        path.unlink()
    with pytest.raises(RecipeError, match=r"must end in \.html"):
        compare([three], tmp_path / "page.md")
    for _ in range(2):  # its own files it does replace
        compare([three], tmp_path / "mine.html", resamples=10)
