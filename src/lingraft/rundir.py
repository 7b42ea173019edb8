"""A run on disk, and the one resumable step.

All that is done once and goes on after a kill is a `Step`: stages and phases of a run, seeds of
fine-tunings, cells of studies, answers of crosslingual models.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from lingraft.errors import DataError, reading
from lingraft.files import remove, removed_on_failure, write_json, write_rows, write_text
from lingraft.processes import is_locked_now, lock_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

FORMAT: dict[str, Any] = {
    "corpus": 4,
    "read": 7,  # of corpora of dumps, or whose languages are identified
    "tokenizer": 1,
    "graft": 1,
    "phase": 1,
    "evaluation": 3,  # fp32 logits, unigrams without special tokens, words deep in long sentences
    "causal evaluation": "documents by characters in windows that begin as texts",
    "model": 1,
    "fine-tuning": 6,  # special tokens in texts are text, but for those that somebody added
    "retrieval": 1,
    "mining": 2,
    "alignment": 1,
    "translation": 1,
    "study": 1,  # of a cell: raising it makes all committed results stale
}
"""Version of stages and commands, in fingerprints; raised if equal inputs give another result."""
SHARED_STAGES = ("corpus", "tokenizer")
ENVIRONMENT = "environment.json"
DONE, INPUTS = "done.json", "inputs"
"""In the folder of a step: that it is finished; what it is made from, as long as it goes on."""
DIGEST = "digest"
"""In a record: a hash of all else in it."""
CHECKPOINT_FILES = (".json", ".safetensors", ".bin", ".txt", ".model", ".spm", ".codes")
LARGE = 1 << 24
"""Bytes of a file whose digest is remembered from one process to the next: a shard of plain text,
too, of which a large corpus has a thousand."""


def fingerprint(*parts: Any) -> str:
    """Hash plain data and pydantic models: equal input, equal hash, in any process.

    Values of a model that are the defaults are not part of it, so that a key which a later version
    adds makes nothing stale; a version that changes what a default does raises `FORMAT`.
    """
    plain = [
        part.model_dump(mode="json", exclude_defaults=True) if isinstance(part, BaseModel) else part
        for part in parts
    ]
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file's content; read again only where its size or time of change differ."""
    stat, place = path.stat(), path.resolve()
    if stat.st_size < LARGE:
        return _digest(place, stat.st_size, stat.st_mtime_ns)
    with contextlib.suppress(OSError, RuntimeError):  # no home, or none that can be written to
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lingraft"
        known = cache / fingerprint(str(place), stat.st_size, stat.st_mtime_ns, stat.st_ino)
        if known.is_file():
            return known.read_text(encoding="ascii")
        cache.mkdir(parents=True, exist_ok=True)
        write_text(known, _digest(place, stat.st_size, stat.st_mtime_ns))
    return _digest(place, stat.st_size, stat.st_mtime_ns)


@functools.cache
def _digest(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checkpoint_digests(folder: Path) -> list[list[str]]:
    """Return name and content of the files of a model and its tokenizer, by name."""
    files = sorted(path for path in folder.iterdir() if path.suffix in CHECKPOINT_FILES)
    return [[path.name, digest(path)] for path in files if path.name != DONE]


def write_record(path: Path, data: Mapping[str, Any]) -> None:
    """Write what `read_json` refuses once it is changed: results and what they were made from."""
    write_json(path, {**data, DIGEST: _digest_of(data)})


def _digest_of(data: Mapping[str, Any]) -> str:
    """Return a hash of plain data that is the same once it is written and read."""
    return fingerprint(json.loads(json.dumps(data)))


def read_json(path: Path) -> Any:
    """Read a JSON file of ours.

    Raises:
        DataError: the file is missing or broken, or a record that was changed.
    """
    with reading(path, f"delete {path.parent}, and run the command that makes it (--update)"):
        data = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(data, dict) and DIGEST in data and data.pop(DIGEST) != _digest_of(data):
        raise DataError(
            f"{path}: was changed after lingraft wrote it; undo that, or delete {path.parent} and "
            "run the command that made it again"
        )
    return data


@dataclass(frozen=True)
class Step:
    """Work that is done once: a folder that ends with `done.json`, which is written last.

    What is made in one go is built under `NAME.partial` and renamed (`building`). What leaves
    something on its way says in `inputs` what it is made from (`begin`), and ends with `finish`.
    """

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def done_path(self) -> Path:
        return self.path / DONE

    def fingerprint(self) -> str | None:
        """Return the fingerprint of what the work was made from; None if it is not finished."""
        return str(self.done()["fingerprint"]) if self.done_path.is_file() else None

    def is_done(self, fingerprint: str) -> bool:
        """Return whether the work is finished and was made from these inputs."""
        return self.fingerprint() == fingerprint

    def done(self) -> dict[str, Any]:
        """Return what `done.json` holds: fingerprint, seconds, and counts of its own as `result`.

        Raises:
            DataError: the work is not finished, or the file is none of ours.
        """
        data = read_json(self.done_path)
        with reading(self.done_path, f"delete {self.path} and run the command that made it again"):
            return {key: data[key] for key in ("fingerprint", "seconds", "result")}

    def result(self) -> dict[str, Any]:
        """Return the counts of finished work.

        Raises:
            DataError: it is not finished.
        """
        return dict(self.done()["result"])

    def inputs(self) -> dict[str, Any]:
        """Return what lies in the folder is made from, finished or not; nothing if none knows."""
        mark = self.path / INPUTS
        if not mark.is_file():
            return {"fingerprint": self.fingerprint()} if self.done_path.is_file() else {}
        text = mark.read_text(encoding="utf-8")
        if not text.startswith("{"):  # a phase of an earlier version
            return {"fingerprint": text}
        return dict(read_json(mark))

    def is_of(self, command: str) -> bool:
        """Return whether the folder holds what a command of lingraft has made or begun."""
        return bool(self.inputs().get("command") == command)

    def is_kept(self, inputs: Mapping[str, Any], *, replace: bool, mend: str) -> bool:
        """Return whether the work is done; what was made from other inputs is deleted or refused.

        Args:
            inputs: plain data; what counts is its `fingerprint`.
            replace: delete what was made from others.
            mend: what a user can do.

        Raises:
            DataError: it was made from others, and is not to be replaced.
        """
        before = self.inputs()
        if before and before["fingerprint"] != inputs["fingerprint"]:
            if not replace:
                keys = {key for key in before.keys() & inputs.keys() if before[key] != inputs[key]}
                differing = ", ".join(sorted(keys - {"fingerprint"})) or "model, text or settings"
                raise DataError(
                    f"{self.path}: was made from other inputs (they differ in: {differing}); {mend}"
                )
            self.clear()
        return self.is_done(str(inputs["fingerprint"]))

    def begin(self, inputs: Mapping[str, Any], keep: Collection[str] = ()) -> None:
        """Make the folder ready for work that leaves something in it on its way.

        What equal inputs have left stays; of what others have left only what `keep` names.
        """
        if self.path.exists() and self.inputs().get("fingerprint") != inputs["fingerprint"]:
            self.clear(keep)
        self.path.mkdir(parents=True, exist_ok=True)
        self.done_path.unlink(missing_ok=True)
        write_record(self.path / INPUTS, inputs)

    def finish(self, fingerprint: str, result: Mapping[str, Any], seconds: float) -> None:
        """Mark the work as finished."""
        write_record(
            self.done_path,
            {"fingerprint": fingerprint, "seconds": round(seconds, 3), "result": result},
        )

    @contextlib.contextmanager
    def building(self, fingerprint: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Build in one go: fill the given folder and dict; both appear at the end.

        Yields:
            A fresh folder `NAME.partial`, and a dict that becomes `result` in done.json.
        """
        started = time.monotonic()
        partial = self.path.with_name(self.path.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        result: dict[str, Any] = {}
        with removed_on_failure(partial):
            yield partial, result
            Step(partial).finish(fingerprint, result, time.monotonic() - started)
        self.clear()
        partial.replace(self.path)

    def clear(self, keep: Collection[str] = ()) -> None:
        """Delete what the folder holds but for these names.

        done.json goes first and `inputs` last: a kill half-way leaves a step that is not finished,
        and that the same call knows as its own.
        """
        self.done_path.unlink(missing_ok=True)
        for path in self.path.iterdir() if self.path.exists() else ():
            if path.name not in (INPUTS, *keep):
                remove(path)
        (self.path / INPUTS).unlink(missing_ok=True)
        if not keep and self.path.exists():
            self.path.rmdir()


@dataclass(frozen=True)
class Run:
    """A run's folder.

    `parent` is the run whose corpus and tokenizer this one uses (baselines, study cells).
    """

    path: Path
    parent: Path | None = None

    @classmethod
    def existing(cls, path: Path) -> Run:
        """Return the run in a folder; a run's baseline has the run's corpus and tokenizer.

        Raises:
            DataError: there is none.
        """
        folder, run = path.resolve().parent, cls(path)
        if folder.name == "baselines" and cls(folder.parent).recipe_path.is_file():
            run = cls(path, folder.parent)
        if not run.recipe_path.is_file():
            raise DataError(f"{path}: holds no run (no recipe.toml); lingraft adapt makes one")
        return run

    def stage(self, name: str) -> Step:
        """Return the folder of a stage, which need not exist yet."""
        shared = self.parent is not None and name in SHARED_STAGES
        return Step((self.parent if shared and self.parent else self.path) / name)

    def weights(self, phases: Sequence[str]) -> Path:
        """Return the checkpoint after these phases of training; after none, the graft."""
        stage, name = (phases[-1], "best") if phases else ("graft", "model")
        return self.stage(stage).path / name

    @property
    def recipe_path(self) -> Path:
        return self.path / "recipe.toml"

    @property
    def choices_path(self) -> Path:
        """Return the file of what was asked for and what was decided (`pipeline.completing`)."""
        return self.path / "choices.json"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def model_path(self) -> Path:
        return self.path / "model"

    def metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl; a last line cut short by a kill is left out.

        Raises:
            DataError: another line is no row of training.
        """
        if not self.metrics_path.is_file():
            return []
        text = self.metrics_path.read_bytes()
        lines = text[: text.rfind(b"\n") + 1].splitlines()
        with reading(self.metrics_path, "delete the line that is no row of training"):
            return [row for row in map(json.loads, lines) if row["step"] >= 0]

    def keep_metrics(self, keep: Callable[[dict[str, Any]], bool]) -> None:
        """Leave only some rows of metrics.jsonl, and no half line that a kill left."""
        write_rows(self.metrics_path, filter(keep, self.metrics()))

    @contextlib.contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """Keep a second process away from the run; the lock goes with the process, however it ends.

        Args:
            patience: for so many seconds, wait for a process that has the run.

        Raises:
            DataError: another process works on this run.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with lock_file(self.path / ".lock") as file:
            deadline = time.monotonic() + patience
            while not is_locked_now(file):
                if time.monotonic() > deadline:
                    raise DataError(
                        f"{self.path}: another lingraft is working on this run; wait for it or "
                        "stop it"
                    )
                time.sleep(0.5)
            yield
