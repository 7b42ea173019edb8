"""Find a task's files, and cut one split into several where official ones are missing."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import COMPRESSED
from lingraft.errors import DataError, RecipeError
from lingraft.tasks.examples import document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.tasks.definition import Split
    from lingraft.tasks.examples import Example, Examples
    from lingraft.tasks.task import Task

    Shares = Mapping[str, float]
    Cut = dict[str, list[Example]]

TRAIN, DEV, TEST = "train", "dev", "test"
SELECTION = {TRAIN: 0.95, DEV: 0.05}
"""Shares of the training set, for choosing checkpoints where a task has no development set."""


@dataclass(frozen=True)
class Data:
    """Examples of a task, and what every split really is."""

    splits: Mapping[str, list[Example]]
    names: Mapping[str, str]
    """Split → "train", or "cut of dev (80 %, seed 0)": to be shown wherever its scores are."""
    evaluation: tuple[str, ...]
    """The splits to report."""
    partners: Mapping[str, Mapping[str, Example]] = field(default_factory=dict)
    """By split and id the translation of an example, for models that are plugged in."""


def find(task: Task, directory: Path, required: Sequence[str] = ()) -> dict[str, tuple[Path, ...]]:
    """Find the files of the task's splits that lie in a directory.

    Args:
        task: says how the files are called and in which folders they may lie.
        directory: holds the files, or one of the task's folders.
        required: splits that must be there; without any, at least one labelled split must.

    Returns:
        For each split that is complete its files, in the order of its parts.

    Raises:
        DataError: something is missing; the line names the files and says where they come from.
        RecipeError: a user's own task has two files where one is read.
    """
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory; it must hold the files of {task.name}")
    by_split: dict[str, tuple[Path, ...]] = {}
    for name, split in task.splits.items():
        if task.is_own:
            _check_alone(task.name, name, split)
        parts = [find_part(spellings, directory, task.folders) for spellings in split.parts]
        if all(parts):
            by_split[name] = tuple(file for files in parts for file in files)
    absent = [name for name in required if name not in by_split]
    if absent or not any(name in by_split for name in task.labelled_splits):
        raise DataError(_missing(task, directory, absent or list(task.labelled_splits)))
    return by_split


def _check_alone(task: str, name: str, split: Split) -> None:
    """Refuse a user's list of files that was meant as all of them, of which one would be read."""
    for spellings in split.parts:
        here = [Path(spelling).name for spelling in spellings if find_part([spelling], Path(), ())]
        if len(here) > 1:
            raise RecipeError(
                f"task {task}: files.{name} is a list of names that one file may have, and "
                f"{', '.join(here)} are there; to read them all write "
                + str([[file] for file in here])
            )


def find_part(
    spellings: Sequence[str], directory: Path, folders: Sequence[str]
) -> tuple[Path, ...]:
    """Return the file of the first spelling that is there, or the files that its * fits."""
    for folder in (directory / name for name in (".", *folders)):
        for spelling in spellings:
            by_name: dict[str, Path] = {}
            for packed in reversed(("", *COMPRESSED)):
                path = folder / f"{spelling}{packed}"
                paths = [path] if path.is_file() else []
                if "*" in spelling and not spelling.startswith("/"):
                    paths += folder.glob(f"{spelling}{packed}")
                by_name |= {path.name.removesuffix(packed): path for path in paths}
            if by_name:
                return tuple(by_name[name] for name in sorted(by_name))
    return ()


def _missing(task: Task, directory: Path, splits: Sequence[str]) -> str:
    """Return what is missing, and where it is from."""
    for name in splits:
        if name not in task.splits:
            return (
                f"{task.name}: has no {name} set; of a task in several languages train in one "
                "that has, and test in this one (--train-language en --test-language …)"
            )
    wanted = "; ".join(
        f"{name}: " + " and ".join(" or ".join(part) for part in task.splits[name].parts)
        for name in splits
    )
    where = f" in {directory} or in one of its folders {', '.join(task.folders)}"
    return (
        f"{task.name}: no such file ({wanted}){where if task.folders else ''}; it is from "
        f"{task.files_from} (.gz .xz .zst .bz2 are read too)"
    )


def read_split(
    task: Task, name: str, files: Sequence[Path], *, unanswered: bool = False
) -> list[Example]:
    """Read the examples of all parts of a split; of several parts, ids are made distinct.

    Args:
        task: of which it is a split.
        name: of the split.
        files: as `find` gives them.
        unanswered: whether answers may be missing, also where the split should have them.

    Raises:
        DataError: a file is broken, or an answer is missing that the split should have.
    """
    hidden = unanswered or not task.splits[name].labelled
    parts = [task.read(file, hidden=hidden) for file in files]
    if len(files) == 1:
        return parts[0]
    return [
        replace(example, id=f"{number}/{example.id}")
        for number, part in enumerate(parts)
        for example in part
    ]


def cut(examples: Examples, shares: Shares, seed: int = 0) -> Cut:
    """Cut examples into splits of the given shares, the same at every run and on every machine.

    Examples with the same document (passage, premise, sentence) stay together. Documents are put
    in the order of a hash of (seed, document) and dealt out; within a split, examples keep
    their order. Sizes are exact but for the last document of each split.

    Args:
        examples: labelled.
        shares: of the examples, by split; above 0 and together 1.
        seed: another one gives another cut.

    Raises:
        DataError: a split would be empty.
    """
    groups: dict[str, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(document(example), []).append(index)
    order = sorted(groups, key=lambda text: _hash(text, seed))
    names = list(shares)
    limits = [round(len(examples) * sum(list(shares.values())[: i + 1])) for i in range(len(names))]
    indices: dict[str, list[int]] = {name: [] for name in names}
    dealt = current = 0
    for text in order:
        while current + 1 < len(names) and dealt >= limits[current]:
            current += 1
        indices[names[current]] += groups[text]
        dealt += len(groups[text])
    if not all(indices.values()):
        raise DataError(f"{len(groups)} documents are too few to cut in {', '.join(names)}")
    return {name: [examples[i] for i in sorted(members)] for name, members in indices.items()}


def _hash(text: str, seed: int) -> bytes:
    data = f"{seed}\n{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).digest()


def origin_of(split: str, name: str) -> str:
    """Return the split whose files hold the examples of a split that is really this."""
    cut_from = re.search(r"cut of (\w+) \(", name)
    return cut_from[1] if cut_from else split


def named_cut(
    examples: Examples, shares: Shares, seed: int, origin: str
) -> tuple[Cut, dict[str, str]]:
    """Cut as `cut`, and name each part in every output; `origin` is what the split was."""
    names = {
        name: f"cut of {origin} ({100 * share:g} %, seed {seed})" for name, share in shares.items()
    }
    return cut(examples, shares, seed), names


def load(task: Task, directory: Path, *, shares: Shares | None = None, seed: int = 0) -> Data:
    """Return the examples of a task.

    Without `shares` the official splits; where the task has no development set (NSMC), 5 % of the
    training set become one. With `shares` (train, dev and test) the labelled split that is
    there, dev before train, is cut, and official splits are not used; but with shares for dev and
    test alone the official dev is cut, and train is the official one.

    Raises:
        DataError: files are missing or broken, or cannot be cut.
    """
    if shares is not None:
        return _load_cut(task, directory, shares, seed)
    # A user's own task may report a dev set that it has not: a part of train becomes one below.
    required = [TRAIN, *(name for name in (DEV, *task.evaluation) if name in task.splits)]
    by_split = find(task, directory, list(dict.fromkeys(required)))
    splits = {
        name: read_split(task, name, files) for name, files in by_split.items() if name in required
    }
    names = {name: name for name in splits}
    return with_selection(splits, names, task.evaluation, seed)


def with_selection(
    splits: Cut, names: dict[str, str], evaluation: tuple[str, ...], seed: int = 0
) -> Data:
    """Return data with a part of train as the development set that it lacks."""
    if DEV not in splits:
        parts, cuts = named_cut(splits[TRAIN], SELECTION, seed, TRAIN)
        splits, names = splits | parts, names | cuts
    return Data(splits, names, evaluation)


def _load_cut(task: Task, directory: Path, shares: Shares, seed: int) -> Data:
    by_split = find(task, directory, [TRAIN, DEV] if TRAIN not in shares else [])
    order = (DEV, TRAIN, *task.labelled_splits)
    origin = next(name for name in order if name in by_split and name in task.labelled_splits)
    parts, names = named_cut(read_split(task, origin, by_split[origin]), shares, seed, origin)
    if TRAIN not in shares:
        parts |= {TRAIN: read_split(task, TRAIN, by_split[TRAIN])}
        names |= {TRAIN: TRAIN}
    return Data(parts, names, (TEST if TEST in shares else DEV,))
