"""A study of seconds: tiny sources and text, and cells that run in this process."""

from __future__ import annotations

import logging

from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import recipe_from
from lingraft.study import cell, runner
from lingraft.study.recipe import read_study

BATCH = "8 sentences"


def base_recipe(source, text, /, **changes):
    """A recipe as a user would write it, with phases of its own."""
    data = {
        "name": "base",
        "language": "ko",
        "source": {"model": str(source)},
        "corpus": {"text": [str(text)], "valid": 0.05, "test": 0.1},
        "tokenizer": {"vocab_size": 300, "max_tokens": 64},
        "training": {"method": "xpt", "preset": "xpt2021", "budget": "4 steps", "batch": BATCH},
        "hardware": {"row_tokens": 64, "precision": "fp32"},
        "evaluation": {"max_sentences": 20, "max_words": 20, "samples": 1},
    }
    return recipe_from(data | changes)


HEAD = """
name = "tiny"
base = "base.toml"
[set]
"training.budget" = { value = 4, unit = "steps" }
"training.batch" = { size = 8, unit = "sentences" }
"""
GRID = """
[[grids]]
method = ["scratch", "xpt-sp"]
seed = [0, 1]
"""


def write_study(folder, source, text, body=GRID, head=HEAD, /, **changes):
    """The study in a folder of its own, read back."""
    (folder / "base.toml").write_text(to_toml(base_recipe(source, text, **changes)))
    path = folder / "study.toml"
    path.write_text(head + body, "utf-8")
    return read_study(path)


class Here:
    """Runs cells in this process, at once, and keeps their names."""

    def __init__(self, statuses=None):
        self.started = []
        self.statuses = statuses or {}
        """By name of folder: a status to end with, in place of the work."""

    def __call__(self, folder, slot, _, /):
        self.started.append(folder.name)
        status = self.statuses.get(folder.name)
        return Ended(cell.work(folder) if status is None else status)


class Ended:
    """A cell that has ended."""

    def __init__(self, status):
        self.status = status

    def poll(self):
        return self.status

    def terminate(self):
        raise AssertionError("nothing runs any more")

    kill = terminate


def run_here(study, out, **options):
    """Run a study in this process; the tally, and the cells that were started."""
    here = options.pop("start", None) or Here()
    logger = logging.getLogger("lingraft")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return runner.run(study, out, runner.RunnerOptions(start=here, **options)), here.started
    finally:
        logger.setLevel(level)
