"""What of a task decides a result: a change of it does all kept fine-tunings again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lingraft.rundir import fingerprint
from lingraft.tasks import TASKS
from lingraft.tasks.decoding import decode, task_of

BENCHMARKS = {
    "klue-nli": "94ce2f34a1cc4567",
    "korsts": "21edc4c6a64f506a",
    "klue-ner": "2a7ed5ba663dfe25",
    "klue-re": "d0278bbe3f8a97c5",
    "klue-dp": "c853057698468825",
    "xquad-en": "e7677315db697d51",
    "udpos-en": "78f5a3801aae807c",
}
"""One of each kind, and the fingerprint that its decisive part has had since November 2026."""
OWN = {
    "name": "own",
    "kind": "translation",
    "files": {"train": "pairs.tsv"},
    "codes": ["en_XX", "ko_KR"],
    "epochs": 3,
    "clip": 0.0,
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_fingerprint_of_a_benchmark_is_that_of_kept_results(name: str) -> None:
    assert fingerprint(TASKS[name].decisive()) == BENCHMARKS[name]


def test_the_fingerprint_of_ones_own_task_is_that_of_kept_results() -> None:
    assert fingerprint(task_of(decode(OWN), Path()).decisive()) == "2713c7cf48765ea9"


def test_numbers_of_a_paper_s_settings_stay_as_they_were_written() -> None:
    papers = task_of(decode(OWN), Path()).alternatives
    assert json.dumps(papers["veco2021"].warmup) == "16000"  # a float has another fingerprint
    assert json.dumps(TASKS["xquad-en"].alternatives["xtreme2020"].warmup) == "500.0"
