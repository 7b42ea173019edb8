"""Tasks for judging a model by what it does after fine-tuning: files, labels, metrics, settings.

A task is a TOML table (`definition`): those of the benchmarks are in `catalogue/`. Nothing here
loads torch or transformers.
"""

from lingraft.tasks import catalogue
from lingraft.tasks.sentences import Group, Retrieval
from lingraft.tasks.splits import Data, cut, find, load
from lingraft.tasks.task import Task

TASKS: dict[str, Task] = catalogue.tasks()
GROUPS: dict[str, Group] = catalogue.groups(catalogue.BENCHMARKS)
"""Tasks that are there in several languages: the record of one is `TASKS[group.member("ko")]`."""
RETRIEVALS: dict[str, Retrieval] = catalogue.retrievals()
"""Tasks without training, a language each."""
RETRIEVAL_GROUPS: dict[str, Group] = catalogue.groups(catalogue.RETRIEVALS)
"""The benchmarks of these: the record of a language is `RETRIEVALS[group.member("ko")]`."""


def names() -> dict[str, str]:
    """Return what tasks are called in a list, those of several languages once: `xnli-{lang}`.

    Returns:
        The name in the list, and the first record that it stands for, or its only one.
    """
    listing: dict[str, str] = {}
    grouped = {
        group.member(language): group.name
        for group in GROUPS.values()
        for language in group.languages
    }
    for name in TASKS:
        listing.setdefault(f"{grouped[name]}-{{lang}}" if name in grouped else name, name)
    return listing
