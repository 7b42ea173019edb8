"""Tasks for judging a model by what it does after fine-tuning: files, labels, metrics, settings.

A task is a TOML table (`definition`): those of the benchmarks are in `catalogue/`. Nothing here
loads torch or transformers.
"""

from lingraft.tasks import catalogue
from lingraft.tasks.splits import Data, cut, find, load
from lingraft.tasks.task import Hub, Settings, Spans, Split, Task

TASKS: dict[str, Task] = catalogue.tasks()

__all__ = [
    "TASKS",
    "Data",
    "Hub",
    "Settings",
    "Spans",
    "Split",
    "Task",
    "cut",
    "find",
    "load",
]
