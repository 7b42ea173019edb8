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
    seeds: Sequence[int] = (0, 1),
    n: int = 60,
) -> None:
    """A model that was trained in English on a benchmark and scored in several languages."""
    records = {language: TASKS[GROUPS[task].member(language)] for language in quality}
    whole, tests = f"{task}-from-en", [f"test-{language}" for language in quality]
    for seed in seeds:
        place, parts = folder / label / whole / f"seed-{seed}", {}
        place.mkdir(parents=True)
        for language, record in records.items():
            examples = made_examples(record, n)
            rng = random.Random(f"{label} {language} {seed}")
            said = [said_of(record, one, quality[language], rng) for one in examples]
            written = write_run(folder / "part", label, record, seed, examples, said)
            for kind in ("predictions", "examples"):
                (written / f"{kind}-dev.jsonl").rename(place / f"{kind}-test-{language}.jsonl")
            parts[f"test-{language}"] = json.loads((written / "scores.json").read_text())
        first, names = parts[tests[0]], {one: record.name for one, record in records.items()}
        transfer = {"task": task, "train": ["en"], "selection": ["en"], "select_on": "en"}
        data = first | {
            "task": whole,
            "splits": {split: of["splits"]["dev"] for split, of in parts.items()},
            "evaluation": tests,
            "fingerprint": f"{label} {whole} {place.name}",
            "transfer": transfer | {"test": list(quality), "names": names, "definitions": {}},
        }
        (place / "scores.json").write_text(json.dumps(data))
    shutil.rmtree(folder / "part")
