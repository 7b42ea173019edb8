"""What `lingraft sources` leaves: rows of JSON, tables in Markdown, and a page."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import yaml

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models.families import check_masked
from lingraft.pipeline import source_files
from lingraft.pipeline.source_files import source_of
from lingraft.pretrained import load
from lingraft.pretrained.checkpoints import folder_of
from lingraft.probing.facts import FACTS, OF_TEXT, Profile, limited, of_texts, of_tokenizer
from lingraft.probing.sources import verdict, with_source
from lingraft.report import numbers, page
from lingraft.report.next_step import NextStep, command
from lingraft.report.table import BEST, Cell, Column, markdown, row, table
from lingraft.rundir import clear_temporary, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.probing.sources import Candidate, Standing
    from lingraft.recipe import Recipe
    from lingraft.report.table import Table

logger = logging.getLogger(__name__)

ROWS, TABLES, PAGE, PROBE = "sources.jsonl", "sources.md", "sources.html", "probe"
OURS = {ROWS, PROBE}
"""What a folder of ours holds, one at least."""
DECIMALS = 3
FEW_SEEDS = (
    "The intervals are over blocks of words and over seeds: one seed tells nothing of others, with "
    "two they are rather too narrow, and with many candidates some pair differs by chance. Where "
    "it matters, --seeds 5."
)

Row = dict[str, Any]
"""Of one candidate: its name, `model`, what is known of it, the facts, and after the probe its
standing."""


def checked_folder(out: Path) -> Path:
    """OUT, where nothing lies that is not ours.

    Raises:
        RecipeError: something else does.
    """
    if out.exists() and not out.is_dir():
        raise RecipeError(f"--out: {out} is a file; name a folder")
    clear_temporary(out)
    present = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if present and not OURS & set(present):
        raise RecipeError(
            f"{out}: holds files but nothing of lingraft sources ({present[0]} …); "
            "choose another --out"
        )
    return out


# -- facts


def about(candidate: Candidate, recipe: Recipe) -> Row:
    """Kind, parameters and licence of a candidate, from its files; None for what is not there.

    Of one on the Hub config.json and README.md are downloaded.

    Raises:
        DataError: there is no such model, or its files are broken.
        UnsupportedModelError: it is of a family that lingraft does not graft onto.
    """
    is_on_hub = folder_of(candidate.model) is None
    if is_on_hub:
        load.fetch_card(candidate.model)
    try:
        source = source_of(with_source(recipe, candidate))
        family, folder = source.family, source.folder
        if family is not None:
            check_masked(family, "sources")
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"candidate '{candidate.label}': {error}") from None
    assert family is not None  # its config.json is here by now
    assert folder is not None
    shapes = source_files.tensor_shapes(folder)
    if shapes is not None:
        parameters: int | None = sum(math.prod(shape) for shape in shapes.values())
    else:
        parameters = load.hub_parameters(candidate.model) if is_on_hub else None
    return {"kind": family.model_type, "parameters": parameters, "licence": licence(folder)}


def licence(folder: Path) -> str | None:
    """What the front matter of a model's README calls its licence."""
    path = folder / "README.md"
    if not path.is_file():
        return None
    _, _, rest = path.read_text(encoding="utf-8", errors="replace").partition("---\n")
    try:
        front = yaml.safe_load(rest.partition("\n---")[0])
    except yaml.YAMLError:
        return None
    value = front.get("license") if isinstance(front, dict) else None
    return str(value) if value else None


def facts_of(recipe: Recipe, candidates: Sequence[Candidate]) -> tuple[list[Row], Row]:
    """A row for each candidate with all that is known of it, and what is known of the target.

    Raises:
        LingraftError: a text or a candidate cannot be read.
    """
    from lingraft.corpus.stage import read_clean
    from lingraft.tokenizer import files

    rows: list[Row] = []
    for candidate in candidates:  # what is wrong with the last one is said before work begins
        rows.append({"candidate": candidate.label, "model": candidate.model})
        rows[-1] |= about(candidate, recipe)
    (stream,) = recipe.texts
    every_row = stream.corpus.model_copy(update={"where": None})  # that chooses the target's rows
    sentences = list(limited(read_clean(stream.corpus.text, stream.corpus, stream.language)))
    if not sentences:
        named = ", ".join(stream.corpus.text)
        raise DataError(f"{named}: holds no sentences to choose by; give UTF-8 text")
    target = Profile.of(sentences)
    for candidate, facts in zip(candidates, rows, strict=True):
        tokenizer = files.load(candidate.model)
        facts["vocabulary"] = len(tokenizer)
        facts |= of_tokenizer(tokenizer, sentences, target)
        facts |= dict.fromkeys(OF_TEXT)
        if candidate.texts:
            own = Profile.of(read_clean(candidate.texts, every_row, stream.language))
            facts |= of_texts(target, own)
        logger.info("facts of %s: done", candidate.label)
    target_facts = {"sentences": len(sentences), "characters": sum(map(len, sentences))}
    return rows, target_facts | {"ttr": target.ratio(), "ttr_words": len(target.first)}


# -- tables


def fact_table(rows: Sequence[Row], target: Row) -> Table:
    """The free facts, a row each candidate; columns in which nothing is known are left out."""
    names = [name for name in FACTS if any(facts.get(name) is not None for facts in rows)]
    head: list[str | Column] = ["candidate", Column("kind", "text"), "parameters", "pieces"]
    head += [FACTS[name].title for name in names]
    has_licences = any(facts["licence"] for facts in rows)
    if has_licences:
        head.append(Column("licence", "text"))
    table_rows = []
    for facts in rows:
        cells = [str(facts["candidate"]), facts["kind"] or numbers.ABSENT]
        cells += [numbers.short(facts["parameters"]), numbers.count(facts["vocabulary"])]
        cells += [_shown(facts.get(name), FACTS[name].shown_as) for name in names]
        if has_licences:
            cells.append(facts["licence"] or numbers.ABSENT)
        table_rows.append(cells)
    ratio = numbers.fixed(target["ttr"], DECIMALS)
    notes = [f"Target text: {target['characters']:,} characters; type-token ratio {ratio} over "
             f"{target['ttr_words']:,} words."]  # fmt: skip
    notes += [f"{FACTS[name].title}: {FACTS[name].note}." for name in names]
    if has_licences:
        notes.append("Licence: as the model's README says.")
    if not set(OF_TEXT) & set(names):
        notes.append("With --source-text CANDIDATE=PATH the two texts are compared as well.")
    return table("what is known without training", head, table_rows, notes)


def _shown(value: float | None, shown_as: str) -> str:
    return numbers.percent(value) if shown_as == "share" else numbers.fixed(value, 2)


def probe_table(ranking: Sequence[Standing], steps: int, asked: int) -> Table:
    """The probe's ranking; those that the intervals do not tell apart share a rank."""
    best = min((standing.bits for standing in ranking), default=0.0)
    head = ("candidate", "rank", "bits/char", "more than the lowest", "seeds")
    head_row = (*head, Column("ahead of", "long"))
    ranks = [standing.rank for standing in ranking]
    rows = [
        row(
            standing.candidate,
            f"{standing.rank}{' =' if ranks.count(standing.rank) > 1 else ''}",
            Cell(
                numbers.fixed(standing.bits, DECIMALS),
                under=numbers.between(standing.low, standing.high, DECIMALS),
                rank=BEST if standing.rank == 1 and ranks.count(1) == 1 else 0,
            ),
            numbers.fixed(standing.bits - best, DECIMALS),
            str(standing.seeds),
            ", ".join(standing.ahead_of) or numbers.ABSENT,
        )
        for standing in ranking
    ]
    notes = [
        verdict(ranking, asked),
        "Ahead of: the 95 % interval of the difference (paired bootstrap over blocks of held-out "
        "words and over seeds) does not hold 0. Rank: 1 + how many are ahead; = is a tie.",
        FEW_SEEDS,
    ]
    return table(f"after {steps} steps", head_row, rows, notes)


# -- files


def write(out: Path, rows: Sequence[Row], tables: Sequence[Table], name: str) -> Path:
    """Write rows, tables and page; returns the page.

    Args:
        out: the folder; see `checked_folder`.
        rows: of the candidates.
        tables: the facts, and the ranking where there was a probe.
        name: of the target.
    """
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(facts, ensure_ascii=False) for facts in rows]
    write_text(out / ROWS, "\n".join(lines) + "\n")
    parts = [f"## {part.title.capitalize()}\n\n{markdown(part)}\n" for part in tables]
    write_text(out / TABLES, f"# Sources for {name}\n\n" + "\n".join(parts))
    html = page.render(
        "sources",
        title=f"Sources for {name}",
        verdict=tables[-1].notes[0],
        next_step=next_step(rows, name),
        facts=[("candidates", str(len(rows))), ("target", name)],
        made_from=f"{ROWS} and {PROBE}/results.jsonl",
        tables=tables,
    )
    write_text(out / PAGE, html)
    return out / PAGE


def next_step(rows: Sequence[Row], name: str) -> NextStep:
    """A graft of each candidate where there was none yet; else a model of the best."""
    ranked = sorted((r for r in rows if r.get("rank") == 1), key=lambda row: float(row["bits"]))
    if ranked:
        best = "the best one" if len(ranked) == 1 else "one of the best"
        start = command("adapt", "--source", ranked[0]["model"], "--text", "TEXT", "--lang", name)
        return NextStep(f"Make the model of {best}:", f"{start} --minutes 30")
    names = ",".join(str(row["model"]) for row in rows)
    start = command("sources", "--candidates", names, "--text", "TEXT", "--lang", name)
    return NextStep("Facts alone do not decide. Graft each of them for a moment:", start)


def with_standings(rows: Sequence[Row], ranking: Sequence[Standing]) -> list[Row]:
    """The rows with what the probe found; of a candidate that failed, as they are."""
    by_candidate: Mapping[str, Row] = {
        standing.candidate: {
            key: value for key, value in asdict(standing).items() if key != "candidate"
        }
        for standing in ranking
    }
    return [facts | by_candidate.get(str(facts["candidate"]), {}) for facts in rows]
