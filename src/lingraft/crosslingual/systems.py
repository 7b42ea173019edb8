"""Translations of several systems against references: one table of scores. No torch here.

Scores, intervals and p are sacrebleu's own: its command with `--paired-bs` gives the same numbers,
but for p. Of systems with equal scores it gives the smallest p, here it is 1; of fewer than
`FEWEST_BLOCKS` lines, whose draws tell too little, there is none here.
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft import log, rundir
from lingraft.corpus.extras import require
from lingraft.errors import DataError, RecipeError
from lingraft.report import numbers
from lingraft.report.table import BEST, Cell, comma_separated, table
from lingraft.stats import FEWEST_BLOCKS, Resampling, interval
from lingraft.tasks import sentences
from lingraft.tasks.reading import json_document
from lingraft.tasks.translation_metrics import EXTRA, SCORERS, check_language, moses_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.report.table import Table

logger = logging.getLogger(__name__)

RESAMPLES = 1_000
"""As sacrebleu."""
LEVEL = 0.05
COMET = "comet"
RESULTS, SCORES = "results.jsonl", "scores.csv"
TITLES = {"bleu": "BLEU", "chrf": "chrF++", COMET: "COMET"}
"""Of scores, where that is not their name."""


@dataclass(frozen=True)
class Systems:
    """Translations of one text by several systems; line n of each belongs to line n of another."""

    systems: Mapping[str, Sequence[str]]
    """By name; the others are compared with the first."""
    references: Sequence[Sequence[str]]
    source: Sequence[str] = ()

    @classmethod
    def read(
        cls, systems: Mapping[str, Path], references: Sequence[Path], source: Path | None = None
    ) -> Systems:
        """Of files with a sentence a line; a translation may be empty.

        Raises:
            DataError: a file cannot be read, is empty, or has another number of lines than the
                first reference.
        """
        texts = {path: _lines(path) for path in (*references, *systems.values())}
        if source:
            texts[source] = _lines(source)
        count = len(texts[references[0]])
        for path, lines in texts.items():
            if len(lines) != count:
                raise DataError(
                    f"{path} has {len(lines):,} lines and {references[0]} has {count:,}; "
                    "line n of one must translate line n of the other"
                )
        for name, path in systems.items():
            if empty := sum(not line for line in texts[path]):
                logger.warning("%s: %s of %s lines are empty", name, empty, f"{count:,}")
        outputs = {name: texts[path] for name, path in systems.items()}
        return cls(outputs, [texts[path] for path in references], texts[source] if source else ())


def _lines(path: Path) -> list[str]:
    lines = [line.rstrip() for line in sentences.lines(path)]
    if not any(lines):
        raise DataError(f"{path}: holds no sentence; give a file with a sentence a line")
    return lines


@dataclass(frozen=True)
class Result:
    """What one system reaches on one score."""

    system: str
    metric: str
    score: float
    mean: float
    """Over the draws."""
    interval: float
    """Half of the width of the 95 % interval of the draws."""
    p: float | None
    """That the first system is as good, from the paired bootstrap; None for the first, and of
    fewer than `FEWEST_BLOCKS` lines."""
    signature: str

    @property
    def mark(self) -> str:
        """'*' where the difference from the first system is significant at `LEVEL`."""
        return "*" if self.p is not None and self.p < LEVEL else ""


def score(
    texts: Systems,
    metrics: Sequence[str] = ("bleu", "chrf"),
    *,
    language: str = "en",
    resamples: int = RESAMPLES,
) -> list[Result]:
    """Score every system by sacrebleu, and compare it with the first.

    Args:
        texts: translations and references.
        metrics: keys of `translation_metrics.SCORERS`.
        language: of the translations, by whose rules words are cut.
        resamples: draws of the paired bootstrap (Koehn 2004, as sacrebleu has it).

    Raises:
        DataError: sacrebleu is not installed, or the references have no spaces, and the language
            has some.
        RecipeError: there is no such metric or language.
    """
    for name in metrics:
        if name not in SCORERS:
            raise RecipeError(f"--metrics {name}: allowed: {', '.join(SCORERS)}")
    if "bleu" in metrics:
        check_language(language, texts.references[0], "--lang")
    results: list[Result] = []
    names = dict.fromkeys(metrics)  # each once
    with log.progress("score", len(names), "scores") as ticker:
        for name in names:
            results += _of_metric(texts, name, language, resamples)
            ticker.advance()
    return results


def _of_metric(texts: Systems, name: str, language: str, resamples: int) -> Iterator[Result]:
    significance = require("sacrebleu.significance", "scores of translations", EXTRA)
    scorer = SCORERS[name]
    systems, references = list(texts.systems.items()), texts.references
    if scorer.moses:
        systems = [(system, moses_words(lines, language)) for system, lines in systems]
        references = [moses_words(right, language) for right in references]
    signatures, scores = significance.PairedTest(
        systems, {name: scorer.metric(language)}, references, test_type="bs", n_samples=resamples
    )()
    (title,) = signatures
    signature = ("moses-a|" if scorer.moses else "") + signatures[title].format()
    for system, result in zip(texts.systems, scores[title], strict=True):
        mean, half = float(result.mean), float(result.ci)  # of chrF they are numpy's
        p = None if len(references[0]) < FEWEST_BLOCKS else result.p_value
        if p is not None and result.score == scores[title][0].score:
            p = 1.0
        yield Result(system, name, result.score, mean, half, p, f"{title}|{signature}")


def export_comet(texts: Systems, folder: Path) -> str:
    """Write the files that `comet-score` reads.

    Args:
        texts: with the source.
        folder: for src.txt, ref.txt and a file a system; made here.

    Returns:
        The command that scores them.

    Raises:
        RecipeError: there are several references; or a system is called as the file of the source
            or the reference.
    """
    if (several := len(texts.references)) > 1:
        raise RecipeError(
            f"--export-comet: COMET reads one reference, and {several} are given; give one"
        )
    if clash := [name for name in ("src", "ref") if name in texts.systems]:
        raise RecipeError(
            f"--export-comet: a system is called '{clash[0]}', as COMET's own file is; give it "
            "another name: SYSTEM=FILE"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in {"src": texts.source, "ref": texts.references[0], **texts.systems}.items():
        rundir.write_text(folder / f"{name}.txt", "".join(f"{line}\n" for line in lines))
    files = {name: str(folder / f"{name}.txt") for name in ("src", "ref", *texts.systems)}
    sides = ("-s", files.pop("src"), "-r", files.pop("ref"))
    words = (*sides, "-t", *files.values(), "--to_json", str(folder / "comet.json"))
    return shlex.join(["comet-score", *words])


def read_comet(path: Path, texts: Systems, resamples: int = RESAMPLES) -> list[Result]:
    """The scores that `comet-score --to_json` wrote, with intervals and p from `stats`.

    Args:
        path: JSON: by file of translations, whose name is the system's, a list of segments with
            `mt` and `COMET`.
        texts: what was scored.
        resamples: draws of the paired bootstrap.

    Raises:
        DataError: it is no such file, a system is missing there, or its translations are others.
    """
    stored = json_document(path)
    if not isinstance(stored, dict):
        raise DataError(
            f"{path}: holds no scores by file; give the file that comet-score --to_json wrote"
        )
    values = {name: _segments(path, stored, name, lines) for name, lines in texts.systems.items()}
    first = next(iter(values.values()))
    drawing, results = Resampling(resamples), []
    draws_RN = drawing.draws(len(first), "sentences")
    draws_RN = draws_RN / draws_RN.sum(1, keepdims=True)
    for name, value_N in values.items():
        means_R = draws_RN @ value_N
        low, high = interval(means_R)
        gain_N = value_N - first
        tested = drawing.difference({(0,): float(gain_N.mean())}, (draws_RN @ gain_N)[:, None])
        p = None if value_N is first or len(first) < FEWEST_BLOCKS else tested.p
        mean, half = float(means_R.mean()), (high - low) / 2
        results.append(Result(name, COMET, fmean(value_N), mean, half, p, f"COMET|{path.name}"))
    return results


def _segments(path: Path, stored: Any, name: str, lines: Sequence[str]) -> np.ndarray[Any, Any]:
    by_system = {
        file.rpartition("/")[2].removesuffix(".txt"): rows for file, rows in stored.items()
    }
    rows = by_system.get(name)
    if rows is None:
        raise DataError(
            f"{path}: has no scores of {name}; it has {', '.join(by_system)}: give comet-score the "
            "files that --export-comet wrote"
        )
    try:
        texts, value_N = [row["mt"] for row in rows], [float(row["COMET"]) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"{path}: the segments of {name} have no 'mt' and 'COMET'; give the file that "
            "comet-score --to_json wrote"
        ) from None
    if texts != [line.strip() for line in lines]:
        raise DataError(f"{path}: scores other translations of {name}; run comet-score again")
    return np.array(value_N)


def shown(texts: Systems, results: Sequence[Result], resamples: int = RESAMPLES) -> Table:
    """Systems × scores, with intervals and marks; the signatures stand beneath."""
    metrics = list(dict.fromkeys(result.metric for result in results))
    cells = {(result.system, result.metric): result for result in results}
    first, *rest = texts.systems
    lines = len(texts.references[0])
    few = lines < FEWEST_BLOCKS
    rows: list[list[str | Cell]] = []
    for system in texts.systems:
        row: list[str | Cell] = [system]
        for metric in metrics:
            result, decimals = cells[system, metric], 3 if metric == COMET else 1
            best = max(cells[name, metric].score for name in texts.systems)
            under = "" if few else f"± {numbers.fixed(result.interval, decimals)}"
            under += "" if result.p is None else f" p {result.p:.3f}"
            rank = BEST if rest and result.score == best else 0
            row.append(Cell(numbers.fixed(result.score, decimals), under, rank, result.mark))
        rows.append(row)
    about = f"; ± half of the 95 % interval of {resamples:,} draws"
    about += f"; p and * (p < {LEVEL}): against {first}, paired bootstrap" if rest else ""
    about = "; too few lines for intervals and p" if few else about
    notes = [f"{log.counted(lines, 'line')}{about}."]
    notes += [f"{title_of(name)}: {cells[first, name].signature}" for name in metrics]
    return table("Scores of translations", ("system", *map(title_of, metrics)), rows, notes)


def title_of(metric: str) -> str:
    """What a table calls a score."""
    return TITLES.get(metric, metric)


def check_ours(out: Path, *, comet: bool = False) -> None:
    """Refuse to write over files that are not of an earlier call.

    Args:
        out: a folder, which need not be there.
        comet: whether it is that of `export_comet`, else that of `write`.

    Raises:
        DataError: it holds something else.
    """
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if comet:
        others = {name for name in names if not name.endswith(".txt")} - {"comet.json"}
        is_ours = {"src.txt", "ref.txt"} <= names
    else:
        rows = out / RESULTS
        others = names - {RESULTS, SCORES}
        is_ours = rows.is_file() and rundir.begins_with(rows, ("system", "metric", "signature"))
    if names and (others or not is_ours):
        raise DataError(
            f"{out}: holds {min(others or names)}, which score-translations did not write; choose "
            "another folder"
        )


def write(out: Path, results: Sequence[Result]) -> None:
    """Write results.jsonl and scores.csv, to full precision, into a folder."""
    rows = [vars(result) for result in results]
    out.mkdir(parents=True, exist_ok=True)
    rundir.write_rows(out / RESULTS, rows)
    text = comma_separated(rows[0], (row.values() for row in rows))
    rundir.write_text(out / SCORES, text)
