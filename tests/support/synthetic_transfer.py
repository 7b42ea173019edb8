"""Results of a training across languages, made up: what `lingraft finetune` would have written."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING

from synthetic_results import made_examples, said_of, write_run

from lingraft.tasks import GROUPS, TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def write_transfer(
    folder: Path,
    label: str,
    task: str,
    quality: Mapping[str, float],
    *,
    train: Sequence[str] = ("en",),
    seeds: Sequence[int] = (0, 1),
    n: int = 60,
    select_on: str = "en",
) -> None:
    """A model that was trained in some languages of a benchmark and scored in several."""
    names = {one: GROUPS[task].member(one) for one in dict.fromkeys((*train, *quality))}
    whole = f"{task}-from-{'+'.join(train)}"
    for seed in seeds:
        for language in quality:
            record = TASKS[names[language]]
            examples = made_examples(record, n)
            rng = random.Random(f"{label} {language} {seed}")
            said = [said_of(record, one, quality[language], rng) for one in examples]
            place = folder / label / whole / f"seed-{seed}"
            part = folder / f"part-{language}"
            written = write_run(part, label, record, seed, examples, said)
            place.mkdir(parents=True, exist_ok=True)
            for kind in ("predictions", "examples"):
                (written / f"{kind}-dev.jsonl").rename(place / f"{kind}-test-{language}.jsonl")
    _join(folder, label, whole, task, train, names, tuple(quality), select_on)


def _join(
    folder: Path,
    label: str,
    whole: str,
    task: str,
    train: Sequence[str],
    names: Mapping[str, str],
    tested: Sequence[str],
    select_on: str,
) -> None:
    """Make one scores.json of those of the languages, as a training across languages leaves it."""
    for place in (folder / label / whole).iterdir():
        parts = {
            one: json.loads(
                (
                    folder / f"part-{one}" / label / names[one] / place.name / "scores.json"
                ).read_text()
            )
            for one in tested
        }
        data = parts[tested[0]] | {
            "task": whole,
            "splits": {f"test-{one}": parts[one]["splits"]["dev"] for one in tested},
            "evaluation": [f"test-{one}" for one in tested],
            "shown": list(TASKS[names[tested[0]]].shown),
            "fingerprint": f"{label} {whole} {place.name}",
            "transfer": {
                "task": task,
                "train": list(train),
                "selection": list(train),
                "select_on": select_on,
                "test": list(tested),
                "names": dict(names),
                "definitions": {},
            },
        }
        (place / "scores.json").write_text(json.dumps(data))
    for one in tested:
        shutil.rmtree(folder / f"part-{one}")
