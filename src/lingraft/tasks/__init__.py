"""Tasks for judging a model by what it does after fine-tuning: files, labels, metrics, settings.

A task is a record (`Task`); adding one is a record and its line in `ALL` of its benchmark. Nothing
here loads torch or transformers.
"""

from lingraft.tasks import glue, klue, korean, pawsx
from lingraft.tasks.splits import Data, cut, find, load
from lingraft.tasks.task import Hub, Settings, Spans, Split, Task

TASKS: dict[str, Task] = {
    task.name: task for task in (*klue.ALL, *pawsx.ALL, *korean.ALL, *glue.ALL)
}

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
