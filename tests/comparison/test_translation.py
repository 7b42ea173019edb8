"""Translators compared: BLEU is no mean over sentences, so corpora are drawn, not scores."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from synthetic_results import sentence, write_run

from lingraft.comparison.collect import answers, collect
from lingraft.comparison.page import compare
from lingraft.comparison.significance import differences
from lingraft.stats import Resampling, interval
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.examples import TranslationExample, TranslationPrediction, document
from lingraft.tasks.translation_metrics import signatures

DEFINITION = {
    "name": "en-ko",
    "kind": "translation",
    "language": "ko",
    "files": {"train": "train.tsv", "test": "test.tsv"},
    "metrics": ["bleu", "chrf"],
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two translators with two seeds each, of which the second says more of the right words."""
    task = task_of(decode(DEFINITION), Path())
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


def test_the_interval_is_that_of_bleu_on_corpora_drawn_with_their_seeds(results: Path) -> None:
    comparison = collect([results])
    found = next(one for one in differences(comparison, 200) if one.key == "bleu").found
    (part,) = comparison.parts
    texts = {
        (label, run.seed): [one.translation for one in answers(part, run).predictions]
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
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)
    assert found.value > 5
    assert found.p is not None
    assert found.p < 0.05


def test_the_page_says_how_scores_were_made_and_shows_bleu_by_length(
    results: Path, tmp_path: Path
) -> None:
    (table, *_), written = compare([results], tmp_path / "compare.html", resamples=100)
    page = written[0].read_text(encoding="utf-8")
    assert [column.under for column in table.columns[1:3]] == ["bleu", "chrf"]
    assert "en-ko bleu: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in page
    assert any("en-ko chrf: nrefs:1" in note for note in table.notes)
    lengths = (tmp_path / "compare-errors" / "en-ko-length.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lengths[1:]] == ["10"] * 4
    assert "By length of the text: bleu" in page
