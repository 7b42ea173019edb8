"""A pass of a corpus as a datatrove pipeline block.

datatrove has blocks of its own for repetition, near-duplicates and language, which need a word
tokenizer or a model for each language from further packages, and its executors know no order of
parts, so that which of two duplicates stays depends on the cut. What is datatrove's here are the
executors. A block reads the plan from the folder, so that it can be sent to another machine as it
is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from datatrove.pipeline.base import PipelineStep

from lingraft.corpus.engine.passes import run_task
from lingraft.corpus.engine.plan import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator


class Pass(PipelineStep):
    """One pass; the task's number is that of a part, or of a bucket of hashes."""

    type = "corpus"

    def __init__(self, out: str, name: str) -> None:
        self.name = name
        super().__init__()
        self.folder = Folder(Path(out))

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        run_task(self.folder, self.name, rank)
        yield from ()
