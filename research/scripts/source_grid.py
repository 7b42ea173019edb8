"""Run the source x target grid: sources and grafts, one after the other; a rerun goes on.

    python research/scripts/build_source_grid_data.py data build/source-grid
    python research/scripts/source_grid.py

The sources go to build/sources/LANGUAGE, their runs to build/source-grid/runs; the study's folder
is build/source-grid/study. Rows: build/source-grid/rows/TARGET.jsonl, and all of them in
research/rows/source-grid.jsonl.xz. An hour and a half on one core.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import archive

from lingraft import log
from lingraft.study import cell, runner
from lingraft.study.recipe import read_study

if TYPE_CHECKING:
    from collections.abc import Iterable

RECIPES = Path("research/recipes")
FOLDER = Path("build/source-grid")
SOURCES = Path("build/sources")
RESULTS = FOLDER / "rows"
LANGUAGES = ("en", "fr", "es", "ja", "ko", "zh")
STOPPED = 128
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
    settings = ("--set", f"language={language}", "--set", f'corpus.text=["{text}"]')
    lingraft("adapt", RECIPES / "source-grid-source.toml", *settings, "--out", run, "--resume")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(run / "model", place)


class Ended:
    """A cell that was trained in this process, which spares it the start of one of its own."""

    def __init__(self, folder: Path, *_: int) -> None:
        self.status = cell.work(folder)
        if self.status > STOPPED:  # a signal reached the cell: it wrote a checkpoint
            sys.exit(self.status)

    def poll(self) -> int:
        return self.status

    wait = poll

    def terminate_once(self) -> None:
        pass

    kill = terminate_once


def grafts(targets: Iterable[str], seed: int, method: str = "xpt") -> None:
    """The cells of a seed, target by target, so that finished targets compare."""
    study = read_study(RECIPES / "source-grid.toml")
    for target in targets:
        only = (f"method={method},language={target},seed={seed}",)
        results = RESULTS / f"{target}.jsonl"
        runner.run(study, FOLDER / "study", runner.Options(only=only, results=results, start=Ended))


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for language in LANGUAGES:
        source(language)
    log.set_up()
    grafts(TARGETS, 0)
    grafts(TARGETS, 0, "scratch")
    grafts(TARGETS, 1)
    files = [RESULTS / f"{target}.jsonl" for target in TARGETS]
    archive.pack("source-grid", files)


if __name__ == "__main__":
    main()
