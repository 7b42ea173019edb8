"""Tasks for judging a model by what it does after fine-tuning: files, labels, metrics, settings.

A task is a TOML table (`definition`): those of the benchmarks are in `catalogue/`. Nothing here
loads torch or transformers.
"""

from lingraft.tasks import catalogue
from lingraft.tasks.group import Group
from lingraft.tasks.splits import Data, cut, find, load, tested
from lingraft.tasks.task import Hub, Settings, Spans, Split, Task

TASKS: dict[str, Task] = catalogue.tasks()
GROUPS: dict[str, Group] = catalogue.groups()
"""Tasks that are there in several languages: the record of one is `TASKS[group.member("ko")]`."""

__all__ = [
    "GROUPS",
    "TASKS",
    "Data",
    "Group",
    "Hub",
    "Settings",
    "Spans",
    "Split",
    "Task",
    "cut",
    "find",
    "load",
    "tested",
]
