"""Jobs of `lingraft data clean` on made-up text, and what comes out of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lingraft.corpus.engine import job
from lingraft.corpus.split import SPLITS
from lingraft.recipe import Corpus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def corpus(sources: list[str], **changes: Any) -> Corpus:
    return Corpus(text=tuple(sources), **({"valid": 0.1, "test": 0.1} | changes))


def settings(part_bytes: int = 9_000, processes: int = 1, **changes: Any) -> job.JobSettings:
    return job.JobSettings(jobs=processes, part_bytes=part_bytes, **changes)


def made(section: Corpus, out: Path, chosen: job.JobSettings | None = None) -> dict[str, Any]:
    return job.make(section, "ko", out, chosen or settings())


def documents(out: Path, split: str) -> list[dict[str, Any]]:
    shards = sorted((out / split).glob("*.jsonl"))
    return [json.loads(line) for shard in shards for line in shard.read_text().splitlines()]


def text(out: Path) -> dict[str, str]:
    return {s: "".join(row["text"] + "\n" for row in documents(out, s)) for s in SPLITS}


class Killed(BaseException):
    pass


def die_at(call: int, function: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    def wrapped(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return function(*arguments, **named)

    return wrapped
