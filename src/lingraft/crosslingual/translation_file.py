"""A text file translated line by line; a killed call goes on."""

from __future__ import annotations

import logging
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from lingraft import log, rundir
from lingraft.corpus.readers.lines import batched
from lingraft.crosslingual.layers import fingerprint_of
from lingraft.crosslingual.partial_file import PartialFile
from lingraft.crosslingual.translator import Translator
from lingraft.errors import DataError
from lingraft.recipe import catalogue
from lingraft.tasks import sentences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft.crosslingual.translator import Settings

logger = logging.getLogger(__name__)

BLOCK = 1_024
"""Lines that are sorted by length together, and kept together."""
STANDARD_INPUT = "-"


class Text:
    """Lines to translate, of a file, or of standard input or a pipe, which are read once and whole.

    Raises:
        DataError: it cannot be read, is not UTF-8, or holds no line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[str] | None = None
        if str(path) == STANDARD_INPUT:
            self._lines = list(_standard_input())
        elif not path.is_file():
            self._lines = list(sentences.lines(path))
        self.total = sum(1 for _ in self)
        if not self.total:
            raise DataError(f"{path}: holds no line; give a text with a sentence a line")

    def __iter__(self) -> Iterator[str]:
        return iter(sentences.lines(self.path) if self._lines is None else self._lines)

    def digest(self) -> str:
        """Of the content."""
        if self._lines is None:
            return rundir.digest(self.path)
        return rundir.fingerprint(self._lines)


def _standard_input() -> Iterator[str]:
    try:
        for number, line in enumerate(sys.stdin.buffer):
            yield line.decode("utf-8" if number else "utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(
            "-: standard input is not UTF-8; convert it: iconv -f ENCODING -t UTF-8"
        ) from None


def translations(translator: Translator, text: Text, done: int = 0) -> Iterator[list[str]]:
    """Blocks of translated lines, in order.

    Args:
        translator: is asked.
        text: all lines.
        done: so many of them are left out.
    """
    rest = islice(text, done, None)
    with log.progress("translate", text.total, "lines") as ticker:
        ticker.start_at(done)
        for block in batched(rest, BLOCK):
            yield translator.translate(block, ticker.advance)


def write(
    model: str, path: Path, out: Path, settings: Settings, *, overwrite: bool = False
) -> dict[str, Any]:
    """Translate a text, a line for a line.

    Args:
        model: directory, Hub id or name of any stock encoder–decoder.
        path: the text, also .gz .xz .bz2 .zst, or "-" for standard input.
        out: the file of translations.
        settings: of decoding.
        overwrite: replace a file that is there.

    Returns:
        lines, empty (of what lies in the file), lines_per_second (of what this call did).

    Raises:
        DataError: a file cannot be read, or `out` is there already or the text itself.
        RecipeError: the model does not know a language.
        UnsupportedModelError: it is no encoder–decoder.
    """
    file, where = PartialFile(out, [path], overwrite=overwrite), catalogue.resolve(model)
    text = Text(path)
    made_of = rundir.fingerprint(
        rundir.FORMAT["translation"], fingerprint_of(where), text.digest(), settings.identity()
    )
    file.begin(made_of, "translations (another model, text or options)", lines=0, empty=0)
    if before := file.counts["lines"]:
        logger.info("%s: goes on after %s lines", out, f"{before:,}")
    translator = Translator.load(where, settings)
    started = time.monotonic()
    with file.growing() as stream:
        for block in translations(translator, text, before):
            stream.write("".join(f"{line}\n" for line in block).encode())
            file.counts["lines"] += len(block)
            file.counts["empty"] += sum(not line for line in block)
            file.keep(stream)
    seconds = max(time.monotonic() - started, 1e-9)
    return {**file.counts, "lines_per_second": (text.total - before) / seconds}
