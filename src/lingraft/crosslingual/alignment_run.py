"""Models against gold sets: links kept for each model and set, then rows, tables and a figure.

Without gold links `write` puts those of one layer into a file, a line a sentence pair.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lingraft import errors, log, rundir
from lingraft.crosslingual import alignment_table, bitext, layers, links
from lingraft.crosslingual.alignment import CHUNK, Aligner, Settings
from lingraft.crosslingual.alignment_table import Counts, Result, SetResult
from lingraft.crosslingual.baselines import BASELINES
from lingraft.crosslingual.by_layer import WHOLE, Reading
from lingraft.crosslingual.encoder import Encoder
from lingraft.errors import DataError, RecipeError
from lingraft.files import check_output
from lingraft.locks import growing
from lingraft.recipe import catalogue
from lingraft.report import table as tables
from lingraft.report.row import RESULTS
from lingraft.report.row import write as write_scores
from lingraft.rundir import FORMAT, Step, fingerprint
from lingraft.stats import RESAMPLES, Resampling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.crosslingual.links import GoldSet, Links
    from lingraft.report.table import Table

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """What to score."""

    models: dict[str, str]
    """Directory or Hub id, by the label that tables call it."""
    sets: tuple[GoldSet, ...]
    settings: Settings
    baselines: tuple[str, ...] = ()
    """Keys of `BASELINES`."""
    dev: int = 0
    """The first so many sentences of every set choose the layer and are not scored."""
    resamples: int = RESAMPLES
    reference: str | None = None
    """The label of the model or baseline that the others are compared with; None: first model."""
    force: bool = False
    """Put these results in place of another call's."""
    command: str = "lingraft.crosslingual.alignment_run.score(...)"

    def check(self) -> None:
        """Refuse what can be refused before a model is loaded.

        Raises:
            RecipeError: a baseline, a layer, or a set that cannot be.
        """
        for name in self.baselines:
            if name not in BASELINES:
                raise RecipeError(f"--baseline {name}: allowed: {', '.join(BASELINES)}")
            if name in self.models:
                raise RecipeError(
                    f"a model cannot be called '{name}', as a baseline is; use --label"
                )
        if not (self.models or self.baselines):
            raise RecipeError("give a model, or a --baseline")
        self._check_names()
        for gold in self.sets:
            if self.dev >= len(gold.pairs):
                raise RecipeError(
                    f"--dev {self.dev}: {gold.name} has {len(gold.pairs)} sentences, so none "
                    "would be left to score; give fewer"
                )
        for name in self.models.values():
            depth = layers.depth_of(name)
            for layer in self.settings.layers or ():
                layers.check_layer(layer, depth, name)

    def _check_names(self) -> None:
        labels = (*self.models, *self.baselines)
        if self.reference is not None and self.reference not in labels:
            raise RecipeError(f"--reference {self.reference}: allowed: {', '.join(labels)}")
        names = [gold.name for gold in self.sets]
        for name in names:
            if name == WHOLE:
                raise RecipeError(
                    f"a gold set cannot be called '{name}'; name it: --gold NAME=FILE"
                )
            if names.count(name) > 1:
                raise RecipeError(
                    f"two gold sets would be called '{name}'; name them: --gold NAME=FILE"
                )


@dataclass(frozen=True)
class Report:
    """What a call gives."""

    tables: tuple[Table, ...]
    written: tuple[Path, ...]


def score(call: Call, out: Path) -> Report:
    """Align every set by every model, and write what came out.

    Links that are there from the same model, sentences and settings are kept. `out` then holds
    `links/MODEL/SET/layer-NN.txt` (Pharaoh), results.jsonl, table.md, table.csv and aer.svg.

    Args:
        call: what to do.
        out: the folder of the results.

    Raises:
        LingraftError: whatever the user can mend, on one line.
    """
    call.check()
    marks = layers.check_distinct(call.models)
    record = {
        "models": marks,
        "baselines": sorted(call.baselines),
        "sets": {gold.name: _texts(gold) + _links(gold) for gold in call.sets},
        "method": call.settings.method,
        "clamp": call.settings.clamp,
        "layers": call.settings.layers,
        "dev": call.dev,
    }
    with layers.claimed(out, "align", record, force=call.force, command_line=call.command):
        results = [_baseline(call, out, name) for name in call.baselines]
        for label, mark in marks.items():
            results += _model(call, out, label, mark)
        return _write(call, out, results)


def _texts(gold: GoldSet) -> str:
    return fingerprint([[pair.source, pair.target] for pair in gold.pairs])


def _links(gold: GoldSet) -> str:
    return fingerprint([[sorted(pair.sure), sorted(pair.possible)] for pair in gold.gold])


def _baseline(call: Call, out: Path, name: str) -> Result:
    align, _ = BASELINES[name]
    of_sets = {}
    for gold in call.sets:
        step = Step(out / "links" / f"baseline-{name}" / gold.name)
        made_of = fingerprint(FORMAT["alignment"], name, _texts(gold))
        if not _is_kept(step, made_of, call):
            with step.building(made_of) as (folder, _):
                _write_links(folder / "links.txt", align(gold.pairs))
        predictions = _read_links(step.path / "links.txt", gold)
        of_sets[gold.name] = SetResult(Counts.of(predictions, gold.gold), {})
    return Result(name, None, of_sets, reference=True)


def _model(call: Call, out: Path, label: str, mark: str) -> list[Result]:
    """The results of each layer."""
    aligner: Aligner | None = None
    by_layer: dict[int, dict[str, SetResult]] = {}
    for gold in call.sets:
        step = Step(out / "links" / label / gold.name)
        made_of = fingerprint(FORMAT["alignment"], mark, call.settings.identity(), _texts(gold))
        if not _is_kept(step, made_of, call):
            aligner = aligner or Aligner(Encoder.load(call.models[label]), call.settings)
            with step.building(made_of) as (partial, facts):
                facts.update(_align(aligner, label, gold, partial))
        facts = step.result()
        for layer in facts["layers"]:
            predictions = _read_links(step.path / _file(layer), gold)
            by_layer.setdefault(layer, {})[gold.name] = SetResult(
                Counts.of(predictions, gold.gold), facts
            )
    return [Result(label, layer, of_sets) for layer, of_sets in by_layer.items()]


def _is_kept(step: Step, made_of: str, call: Call) -> bool:
    """Return whether the links are there; others in their place are deleted if that was asked."""
    return step.is_kept({"fingerprint": made_of}, replace=call.force, mend=layers.AGAIN)


def _align(aligner: Aligner, label: str, gold: GoldSet, folder: Path) -> dict[str, Any]:
    """Write the links of every layer; returns facts for the rows."""
    title, total = f"align {gold.name} by {label}", len(gold.pairs)
    started = time.monotonic()
    with log.progress(title, total, "sentences") as ticker:
        alignments = list(aligner.align(gold.pairs, ticker.advance))
    seconds = max(time.monotonic() - started, 1e-9)
    for place, layer in enumerate(aligner.layers):
        _write_links(folder / _file(layer), [aligned.links[place] for aligned in alignments])
    tokens = sum(aligned.tokens for aligned in alignments)
    too_long = sum(aligned.too_long for aligned in alignments)
    logger.info(
        "%s: %d sentences, %s tokens in %.1f s (%s tokens/s)",
        *(title, total, f"{tokens:,}", seconds, f"{tokens / seconds:,.0f}"),
    )
    if too_long:
        logger.warning(
            "%s: %d of %d sentence pairs have more than the %d tokens that the model reads; they "
            "have no links, and their gold links count as missed",
            *(title, too_long, total, aligner.encoder.max_tokens),
        )
    unknown = sum(aligned.unknown for aligned in alignments)
    counts = {"tokens": tokens, "unknown": unknown, "too_long": too_long}
    return {"layers": list(aligner.layers), **counts, "tokens_per_second": round(tokens / seconds)}


def _file(layer: int) -> str:
    return f"layer-{layer:02d}.txt"


def _write_links(path: Path, predictions: Sequence[Links]) -> None:
    rundir.write_text(path, "".join(links.pharaoh(of_pair) + "\n" for of_pair in predictions))


def _read_links(path: Path, gold: GoldSet) -> list[Links]:
    with errors.reading(path, f"delete {path.parent} and align again"):
        lines = path.read_text(encoding="ascii").split("\n")[:-1]
        if len(lines) != len(gold.pairs):
            raise ValueError(f"{len(lines)} lines for {len(gold.pairs)} sentence pairs")
        return [links.parsed(line) for line in lines]


def _write(call: Call, out: Path, results: list[Result]) -> Report:
    names = [gold.name for gold in call.sets]
    found = list(alignment_table.rows(results, names, call.dev, call.settings.chosen.title))
    rates = (one for one in found if one.metric == "aer")
    reading = Reading(rates, Resampling(call.resamples), lower=True)
    notes = {name: BASELINES[name][1] for name in call.baselines}
    result_tables = alignment_table.tables(found, reading, notes, call.dev, call.reference)
    texts = {
        "table.md": "\n\n".join(
            f"## {table.title}\n\n{tables.markdown(table)}" for table in result_tables
        )
        + "\n",
        "table.csv": tables.shown_as_csv(result_tables[0]),
    }
    caption = f"Mean alignment error rate by layer over {', '.join(names)}; layer 0: embeddings."
    if (figure := reading.figure("aer", "alignment error rate (%)", caption)) is not None:
        texts["aer.svg"] = figure.svg
    write_scores(out / RESULTS, found)
    for name, text in texts.items():
        rundir.write_text(out / name, text)
    return Report(tuple(result_tables), tuple(out / name for name in (RESULTS, *texts)))


def write(
    model: str, text: Sequence[Path], out: Path, settings: Settings, *, force: bool = False
) -> dict[str, Any]:
    """Align sentence pairs and write their links, a line each, words counted from 0.

    Args:
        model: directory, Hub id or name.
        text: as `bitext.read` takes it.
        out: the file.
        settings: with one layer.
        force: replace a file that is there.

    Returns:
        pairs, links; of what this call did: too_long, tokens_per_second.

    Raises:
        DataError: a file cannot be read, sides differ in length, or `out` is there already.
        RecipeError: there is no such layer.
    """
    if pipe := next((path for path in text if path.is_fifo()), None):
        raise DataError(
            f"{pipe}: is a pipe, and the text is read twice; write it into a file first"
        )
    check_output(out, text, force=force)
    where = catalogue.resolve(model)
    for layer in settings.layers or ():
        layers.check_layer(layer, layers.depth_of(where), model)
    total = sum(1 for _ in bitext.read(text))  # what is wrong with the text is said before work
    if not total:
        raise DataError(f"{text[0]}: holds no sentence; give a text with some")
    digests = [rundir.digest(path) for path in text]
    made_of = rundir.fingerprint(
        rundir.FORMAT["alignment"], layers.fingerprint_of(where), digests, settings.identity()
    )
    aligner = Aligner(Encoder.load(where), settings)
    started, tokens, too_long = time.monotonic(), 0, 0
    with (
        growing(out, made_of, CHUNK) as (file, before),
        log.progress("align", total, "sentences") as ticker,
    ):
        if before:
            logger.info("%s: goes on after %s sentences", out, f"{before:,}")
        ticker.start_at(before)
        for aligned in aligner.align(islice(bitext.read(text), before, None), ticker.advance):
            file.write(f"{links.pharaoh(aligned.links[0])}\n".encode())
            tokens += aligned.tokens
            too_long += aligned.too_long
    seconds = max(time.monotonic() - started, 1e-9)
    if too_long:
        logger.warning(
            "%s: %s sentence pairs have more than the %s tokens that the model reads; their "
            "lines are empty",
            *(out, f"{too_long:,}", f"{aligner.encoder.max_tokens:,}"),
        )
    with out.open(encoding="ascii") as lines:
        number = sum(len(line.split()) for line in lines)
    speed = round(tokens / seconds)
    return {"pairs": total, "links": number, "too_long": too_long, "tokens_per_second": speed}
