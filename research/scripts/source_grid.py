"""Run the source x target grid: sources and grafts, one after the other; a rerun goes on.

    python research/scripts/build_source_grid_data.py data build/source-grid
    python research/scripts/source_grid.py

The sources go to build/sources/LANGUAGE, their runs to build/source-grid/runs; the study's folder
is build/source-grid/study; its rows go to research/rows/source-grid.jsonl.xz. An hour and a
half on one core.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import archive

if TYPE_CHECKING:
    from collections.abc import Iterable

RECIPES = Path("research/recipes")
FOLDER = Path("build/source-grid")
SOURCES = Path("build/sources")
LANGUAGES = ("en", "fr", "es", "ja", "ko", "zh")
TARGETS = ("ko", "ja", "es", "zh", "fr")


def lingraft(*words: str | Path) -> None:
    """One command, in a process of its own; its failure ends this script."""
    subprocess.run([sys.executable, "-m", "lingraft", *map(str, words)], check=True)


def source(language: str) -> None:
    """Train a source, if it is not there, and put it where the study expects it."""
    place, run = SOURCES / language, FOLDER / "runs" / language
    if place.is_dir():
        return
    text = FOLDER / "source" / f"{language}.jsonl"
    settings = (f"language={language}", f'corpus.text=["{text}"]')
    lingraft("adapt", RECIPES / "source-grid-source.toml", *settings, "--out", run, "--update")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(run / "model", place)


def grafts(targets: Iterable[str], seed: int, method: str = "xpt") -> None:
    """The cells of a seed, target by target, so that finished targets compare."""
    for target in targets:
        only = f"method={method},language={target},seed={seed}"
        study = ("study", "run", RECIPES / "source-grid.toml")
        lingraft(*study, "--out", FOLDER / "study", "--only", only)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for language in LANGUAGES:
        source(language)
    grafts(TARGETS, 0)
    grafts(TARGETS, 0, "scratch")
    grafts(TARGETS, 1)
    archive.pack("source-grid", [FOLDER / "study" / "results.jsonl"])


if __name__ == "__main__":
    main()
