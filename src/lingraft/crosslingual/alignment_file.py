"""Links for sentence pairs of any number, into one Pharaoh file; a killed call goes on."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lingraft import log, rundir
from lingraft.crosslingual import bitext, links
from lingraft.crosslingual.alignment import CHUNK, Aligner
from lingraft.crosslingual.encoder import Encoder
from lingraft.crosslingual.layers import check_layer, depth_of, fingerprint_of
from lingraft.errors import DataError
from lingraft.recipe import catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.crosslingual.alignment import Settings

logger = logging.getLogger(__name__)

FORMAT = 1


@dataclass
class Progress:
    """What of the file is done."""

    made_of: str
    pairs: int = 0
    size: int = 0
    """Bytes of the links of those pairs."""
    links: int = 0
    too_long: int = 0


def write(
    model: str, text: Sequence[Path], out: Path, settings: Settings, *, overwrite: bool = False
) -> dict[str, Any]:
    """Align sentence pairs and write their links, a line each, words counted from 0.

    Until all is done the file is `OUT.partial`, with its state in `OUT.partial.json`.

    Args:
        model: directory, Hub id or name.
        text: as `bitext.read` takes it.
        out: the file.
        settings: with one layer.
        overwrite: replace a file that is there.

    Returns:
        pairs, links, too_long, tokens_per_second (of what this call did).

    Raises:
        DataError: a file cannot be read, sides differ in length, or `out` is there already.
        RecipeError: there is no such layer.
    """
    if out.is_dir() or (out.exists() and not overwrite):
        raise DataError(f"{out}: is there already; choose another --out, or --overwrite")
    if not out.parent.is_dir():
        raise DataError(f"{out}: there is no folder {out.parent}; make it or choose another --out")
    where = catalogue.resolve(model)
    for layer in settings.layers or ():
        check_layer(layer, depth_of(where), model)
    total = sum(1 for _ in bitext.read(text))  # what is wrong with the text is said before work
    if not total:
        raise DataError(f"{text[0]}: holds no sentence; give a text with some")
    return _Writer(where, text, out, settings, total).write()


class _Writer:
    """One file in the making."""

    def __init__(
        self, model: str, text: Sequence[Path], out: Path, settings: Settings, total: int
    ) -> None:
        self.text, self.out, self.total = text, out, total
        self.model, self.settings = model, settings
        self.partial = out.with_name(f"{out.name}.partial")
        self.state = out.with_name(f"{out.name}.partial.json")

    def write(self) -> dict[str, Any]:
        done = self._begun()
        aligner = Aligner(Encoder.load(self.model), self.settings)
        started, before, tokens = time.monotonic(), done.pairs, 0
        with self.partial.open("ab") as file:
            file.truncate(done.size)
            pairs = islice(bitext.read(self.text), before, None)
            with log.progress("align", self.total, "sentences") as ticker:
                ticker.start_at(before)
                for aligned in aligner.align(pairs, ticker.advance):
                    line = links.pharaoh(aligned.links[0]) + "\n"
                    file.write(line.encode())
                    done.pairs += 1
                    done.size += len(line)
                    done.links += len(aligned.links[0])
                    done.too_long += aligned.too_long
                    tokens += aligned.tokens
                    if (done.pairs - before) % CHUNK == 0:
                        self._keep(file, done)
            self._keep(file, done)
        self.partial.replace(self.out)
        self.state.unlink()
        seconds = max(time.monotonic() - started, 1e-9)
        if done.too_long:
            logger.warning(
                "%s: %s sentence pairs have more than the %s tokens that the model reads; their "
                "lines are empty",
                *(self.out, f"{done.too_long:,}", f"{aligner.encoder.max_tokens:,}"),
            )
        counts = {"pairs": done.pairs, "links": done.links, "too_long": done.too_long}
        return {**counts, "tokens_per_second": round(tokens / seconds)}

    def _begun(self) -> Progress:
        """What an earlier call left of the same file, or nothing."""
        texts = [rundir.digest(path) for path in self.text]
        made_of = rundir.fingerprint(
            FORMAT, fingerprint_of(self.model), texts, self.settings.identity()
        )
        if self.partial.is_file() and self.state.is_file():
            done = Progress(**rundir.read_json(self.state))
            if done.made_of != made_of or self.partial.stat().st_size < done.size:
                raise DataError(
                    f"{self.partial}: is half of other links (another model, text or layer); "
                    "delete it, or choose another --out"
                )
            logger.info("%s: goes on after %s sentences", self.out, f"{done.pairs:,}")
            return done
        if self.partial.exists():
            raise DataError(f"{self.partial}: is in the way; delete it, or choose another --out")
        done = Progress(made_of)
        rundir.write_json(self.state, asdict(done))
        return done

    def _keep(self, file: Any, done: Progress) -> None:
        file.flush()
        os.fsync(file.fileno())
        rundir.write_json(self.state, asdict(done))
