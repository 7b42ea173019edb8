"""The report of a corpus: one HTML file that needs nothing else, from corpus.json alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import near_duplicates
from lingraft.corpus.cleaning.clean import DUPLICATE
from lingraft.corpus.readers.folders import FINISHED
from lingraft.corpus.result import NOT_IN_SUBSET
from lingraft.errors import writing
from lingraft.report import numbers, page
from lingraft.report.next_step import NextStep, command
from lingraft.report.pages import sections
from lingraft.report.pages.sections import by_count
from lingraft.report.table import Column, Table, table
from lingraft.rundir import read_json, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOP = 20
SOURCE = "FacebookAI/roberta-base"
"""What a command is shown with."""
SETTINGS_SHOWN_AS = {True: "yes", False: "no"}


@dataclass(frozen=True)
class Sample:
    """A few texts that were dropped for one reason."""

    reason: str
    count: str
    texts: tuple[str, ...]


def write(folder: Path) -> Path:
    """Write the report of a finished corpus.

    Args:
        folder: what `lingraft data clean` made.

    Returns:
        The page, `report.html` in the folder.

    Raises:
        DataError: the page cannot be written.
    """
    target = folder / "report.html"
    text = render(read_json(folder / FINISHED), folder)
    with writing(target, "the corpus is whole, make room and run the same command again"):
        write_text(target, text)
    return target


def render(data: dict[str, Any], folder: Path) -> str:
    """The page for what corpus.json holds, and where it lies."""
    result = data["result"]
    language = str(result["language"])
    languages = by_count(result["languages"])
    return page.render(
        "corpus",
        title=f"Corpus: {language}",
        verdict=verdict(result),
        next_step=after(result, folder),
        facts=_facts(result),
        made_from="corpus.json",
        language=language,
        notices=[*result.get("guesses", ()), *result.get("notices", ())],
        documents=sections.document_drops(result),
        sentences=sections.drops(result),
        changed=_rows("What was changed", ("what", "times"), result["changed"]),
        samples=samples(result),
        # readers step over some, of which there is no text to show
        counted_only=", ".join(r for r in result["dropped"] if r not in result["samples"]),
        splits=sections.corpus_splits(result, None),
        sources=_sources(result),
        domains=_rows("Hosts", ("host", "documents"), result["domains"]),
        lengths=sections.bars(
            "Sentences by length", ("characters", "sentences"), _ranges(result["lengths"])
        ),
        sizes=sections.bars(
            "Documents by number of sentences",
            ("sentences", "documents"),
            _ranges(result["documents_by_sentences"]),
        ),
        scripts=sections.bars(
            "Letters by script", ("script", "letters"), by_count(result["letters_by_script"])
        ),
        languages=sections.bars(
            "Sentences by language",
            ("language", "sentences"),
            dict(list(languages.items())[:TOP]),
            sum(languages.values()),
        ),
        more_languages=max(0, len(languages) - TOP),
        settings=_rows(
            "Settings", ("key", Column("value", "long")), data["corpus"], formatter=_setting
        ),
    )


def samples(result: dict[str, Any]) -> list[Sample]:
    """What was dropped, by reason, the most frequent first.

    A reason of which nothing is counted was one of sentences whose documents went as a whole.
    """
    dropped = result["dropped"]
    reasons = [reason for reason in by_count(dropped) if reason in result["samples"]]
    return [
        Sample(
            reason,
            f"{numbers.count(dropped[reason])} "
            f"{'sentences' if sections.is_of_sentences(reason) else 'documents'}",
            tuple(result["samples"][reason]),
        )
        for reason in reasons
    ]


def _ranges(counts: Mapping[str, int]) -> dict[str, int]:
    """Names for the classes whose smallest number is a power of two."""
    ranges = {}
    for start, count in counts.items():
        low = int(start)
        ranges[str(low) if low < 2 else f"{low:,} – {2 * low - 1:,}"] = count
    return ranges


def verdict(result: dict[str, Any]) -> str:
    """How much can be used, and why most of the rest was dropped."""
    n_kept = sum(split["sentences"] for split in result["splits"].values())
    characters = sum(split["characters"] for split in result["splits"].values())
    share = numbers.percent(n_kept / max(result["sentences_in"], 1))
    return (
        f"{numbers.count(n_kept)} of {numbers.count(result['sentences_in'])} sentences were kept "
        f"({share}), {numbers.short(characters)} characters. {_dropped(result)}"
    )


def _dropped(result: dict[str, Any]) -> str:
    most = [(name, count) for name, count in by_count(result["dropped"]).items() if count][:2]
    if not most:
        return "Nothing was dropped."
    units = ["" if sections.is_of_sentences(name) else " documents" for name, _ in most]
    reasons = " and ".join(
        f"{name} ({numbers.count(count)}{unit})"
        for (name, count), unit in zip(most, units, strict=True)
    )
    return f"Dropped most often: {reasons}."


def after(result: dict[str, Any], folder: Path) -> NextStep:
    """Making a model of the corpus."""
    language = str(result["language"])
    return NextStep(
        "Look whether what was dropped should have been. Then make a model of the rest; "
        "another source may suit the language better:",
        command(
            *("adapt", "--source", SOURCE, "--text", folder, "--lang", language),
            *("--budget", "30m", "--out", f"runs/{language}"),
        ),
    )


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    duplicates = result["dropped"].get(DUPLICATE, 0)
    near = result["dropped"].get(near_duplicates.NEAR_DUPLICATE, 0)
    facts = [
        ("written in", ", ".join(result["scripts"]) or "any script"),
        ("sources", numbers.count(len(result["sources"]))),
        ("shards", numbers.count(result["parts"])),
        ("duplicate sentences", numbers.count(duplicates)),
        ("near-duplicate documents", numbers.count(near)),
    ]
    if result["widened"]:
        facts.append(("more held out than the shares give", ", ".join(result["widened"])))
    left_out = result["subset"].get(NOT_IN_SUBSET)
    return facts if left_out is None else [*facts, (NOT_IN_SUBSET, numbers.count(left_out))]


def _sources(result: dict[str, Any]) -> tuple[Table, int]:
    """The sources with most documents, and how many more there are."""
    ranked = sorted(result["sources"], key=lambda source: (-source["documents"], source["name"]))
    return sections.corpus_sources({"sources": ranked[:TOP]}), max(0, len(ranked) - TOP)


def _rows(
    title: str,
    head: tuple[str, str | Column],
    values: Mapping[str, Any],
    formatter: Any = numbers.count,
) -> Table:
    return table(title, head, [(str(name), formatter(value)) for name, value in values.items()])


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return SETTINGS_SHOWN_AS[value]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{name} = {_setting(item)}" for name, item in value.items())
    return "–" if value is None else str(value)
