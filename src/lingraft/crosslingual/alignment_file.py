"""Links for sentence pairs of any number, into one Pharaoh file; a killed call goes on."""

from __future__ import annotations

import logging
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from lingraft import log, rundir
from lingraft.crosslingual import bitext, links
from lingraft.crosslingual.alignment import CHUNK, Aligner
from lingraft.crosslingual.encoder import Encoder
from lingraft.crosslingual.layers import check_layer, depth_of, fingerprint_of
from lingraft.crosslingual.partial_file import PartialFile
from lingraft.errors import DataError
from lingraft.recipe import catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.crosslingual.alignment import Settings

logger = logging.getLogger(__name__)


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
    if pipe := next((path for path in text if path.is_fifo()), None):
        raise DataError(
            f"{pipe}: is a pipe, and the text is read twice; write it into a file first"
        )
    file = PartialFile(out, text, overwrite=overwrite)
    where = catalogue.resolve(model)
    for layer in settings.layers or ():
        check_layer(layer, depth_of(where), model)
    total = sum(1 for _ in bitext.read(text))  # what is wrong with the text is said before work
    if not total:
        raise DataError(f"{text[0]}: holds no sentence; give a text with some")
    digests = [rundir.digest(path) for path in text]
    made_of = rundir.fingerprint(
        rundir.FORMAT["alignment"], fingerprint_of(where), digests, settings.identity()
    )
    file.begin(made_of, "links (another model, text or layer)", pairs=0, links=0, too_long=0)
    if before := file.counts["pairs"]:
        logger.info("%s: goes on after %s sentences", out, f"{before:,}")
    aligner = Aligner(Encoder.load(where), settings)
    started, tokens = time.monotonic(), 0
    with file.growing() as stream, log.progress("align", total, "sentences") as ticker:
        ticker.start_at(before)
        for aligned in aligner.align(islice(bitext.read(text), before, None), ticker.advance):
            stream.write(f"{links.pharaoh(aligned.links[0])}\n".encode())
            file.counts["pairs"] += 1
            file.counts["links"] += len(aligned.links[0])
            file.counts["too_long"] += aligned.too_long
            tokens += aligned.tokens
            if (file.counts["pairs"] - before) % CHUNK == 0:
                file.keep(stream)
    seconds = max(time.monotonic() - started, 1e-9)
    if file.counts["too_long"]:
        logger.warning(
            "%s: %s sentence pairs have more than the %s tokens that the model reads; their "
            "lines are empty",
            *(out, f"{file.counts['too_long']:,}", f"{aligner.encoder.max_tokens:,}"),
        )
    return {**file.counts, "tokens_per_second": round(tokens / seconds)}
