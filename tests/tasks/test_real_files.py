"""Gold through readers, alignment and metrics, on our fixtures and on the real files if present."""

from __future__ import annotations

from pathlib import Path

import pytest
from right_answers import gold

from lingraft.errors import DataError
from lingraft.tasks import RETRIEVAL_GROUPS, RETRIEVALS, TASKS, find, sentences
from lingraft.tasks.examples import labelled
from lingraft.tasks.splits import read_split

OFFICIAL = Path(__file__).parent / "official"
DATA = Path(__file__).parents[2] / "data"
HERE = {
    "klue-sts": ("dev", 519),
    "klue-ner": ("dev", 5000),
    "klue-dp": ("dev", 2000),
    "pawsx-ko": ("test", 1972),
    "xnli-de": ("test", 5010),
    "udpos-ko": ("test", 989 + 2287 + 1343 + 1000),
    "panx-ko": ("dev", 10000),
    "xquad-th": ("test", 1190),
    "mlqa-zh": ("dev", 504),
    "tydiqa-ko": ("train", 1625),
    "korsts": ("test", 1379),
    "khs": ("dev", 471),
    "nsmc": ("test", 50000),
    "glue-stsb": ("dev", 1500),
}
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the real corpora (data/) are not in this checkout"
)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", HERE)
def test_gold_scores_100_on_the_real_file(name: str) -> None:
    task = TASKS[name]
    split, count = HERE[name]
    try:
        files = find(task, DATA, [split])[split]
    except DataError as error:
        pytest.skip(f"not in this checkout: {error}")
    examples = read_split(task, split, files)
    assert len(examples) == count
    assert all(map(labelled, examples))
    scores = task.score(examples, [gold(example, task.labels) for example in examples])
    assert {key: value for key, value in scores.items() if value != pytest.approx(100)} == {}


@needs_data
def test_all_of_tatoeba_has_as_many_pairs_as_laser() -> None:
    found = {}
    for name in RETRIEVAL_GROUPS["tatoeba"].languages:
        try:
            found[name] = sentences.read(RETRIEVALS[f"tatoeba-{name}"], DATA)
        except DataError as error:
            pytest.skip(f"not in this checkout: {error}")
    short = {"jv": 205, "ml": 687, "ta": 307, "te": 234, "ka": 746, "th": 548, "sw": 390, "kk": 575}
    assert {name: len(one.source) for name, one in found.items()} == {
        name: short.get(name, 1000) for name in found
    }
    assert found["ko"].target["0"] != found["ko"].source["0"]


@pytest.mark.slow
@needs_data
def test_conversions_and_official_files_hold_the_same_examples() -> None:
    pairs = {
        "klue-sts": ("official/KLUE/klue-sts-v1.1_dev.json", "task_klue_sts/dev.jsonl.xz"),
        "klue-nli": ("official/KLUE/klue-nli-v1.1_dev.json", "task_klue_nli/dev.jsonl.xz"),
        "klue-dp": ("official/KLUE/klue-dp-v1.1_dev.tsv", "task_klue_dp/dev.jsonl.xz"),
        "klue-ner": ("official/KLUE/klue-ner-v1.1_dev.tsv.xz", "task_klue_ner/dev.jsonl.xz"),
        "korsts": ("official/KorSTS/sts-test.tsv", "task_korsts/test.jsonl.xz"),
        "kornli": ("official/KorNLI/xnli.test.ko.tsv", "task_kornli/test.jsonl.xz"),
    }
    for name, (official, converted) in pairs.items():
        if (DATA / official).exists() and (DATA / converted).exists():
            task = TASKS[name]
            assert task.read(DATA / official) == task.read(DATA / converted), name
