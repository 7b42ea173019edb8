"""The curve of a translator's score against updates."""

import json
from pathlib import Path

import pytest
from synthetic_results import write_run

from lingraft.comparison.collect import collect
from lingraft.comparison.page import at_checks, compare, curves_of_checks
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.examples import TranslationExample, TranslationPrediction

TABLE = {"name": "en-ko", "kind": "translation", "metrics": ["bleu", "chrf"]}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A translator with two seeds, checked twice by both and a third time by one."""
    task = task_of(decode(TABLE | {"files": {"train": "train.tsv", "test": "test.tsv"}}), Path())
    examples = [TranslationExample("0", "a b c d e", "말 말 말 말 말", "ko")]
    said = [TranslationPrediction("0", "말 말 말 말 말")]
    more = {"task_definition": task.saved}
    for seed, scores in ((0, (10, 20)), (1, (14, 30, 50))):
        write_run(tmp_path / "runs", "veco", task, seed, examples, said, split="test", **more)
        rows = [{"kind": "train", "step": 1, "loss": 1.0}]
        rows += [{"kind": "valid", "step": 5 * n, "bleu": b} for n, b in enumerate(scores, 1)]
        folder = tmp_path / "runs" / "veco" / "en-ko" / f"seed-{seed}"
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "runs"


def test_a_score_that_was_no_number_is_left_out(results: Path) -> None:
    """It is null in metrics.jsonl."""
    folder = results / "veco" / "en-ko" / "seed-0"
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(text.replace('"bleu": 20', '"bleu": null'))
    assert at_checks([folder], "bleu") == {5: [10]}


def test_the_page_shows_the_dev_score_of_both_seeds_against_updates(
    results: Path, tmp_path: Path
) -> None:
    comparison = collect([results])
    folders = [run.outcome.folder for run in comparison.parts[0].runs["veco"]]
    assert at_checks(folders, "bleu") == {5: [10, 14], 10: [20, 30]}
    (figure,) = curves_of_checks(comparison)
    assert figure.description == "en-ko, bleu on dev: veco: 25.0 after 10 updates"
    _, made = compare([results], tmp_path / "page.html", resamples=20)
    assert tmp_path / "page-checks-1.svg" in made
    assert figure.caption in (tmp_path / "page.html").read_text()
