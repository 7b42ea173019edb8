"""The report of a corpus: one HTML file that needs nothing else, from corpus.json alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import near_duplicates
from lingraft.corpus.cleaning.clean import DUPLICATE, REASONS
from lingraft.corpus.readers.documents import FINISHED
from lingraft.corpus.result import NOT_IN_SUBSET
from lingraft.errors import DataError
from lingraft.report import numbers
from lingraft.report.pages.run import templates
from lingraft.report.pages.sections import Table, corpus_splits
from lingraft.rundir import read_json, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOP = 20
SETTINGS_SHOWN_AS = {True: "yes", False: "no"}


@dataclass(frozen=True)
class Sample:
    """A few texts that were dropped for one reason."""

    reason: str
    count: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Bar:
    """A row of a table with a bar."""

    name: str
    count: str
    share: str
    width: float
    whole: bool = False


def write(folder: Path) -> Path:
    """Write the report of a finished corpus.

    Args:
        folder: what `lingraft corpus` made.

    Returns:
        The page, `report.html` in the folder.

    Raises:
        DataError: the page cannot be written.
    """
    target = folder / "report.html"
    text = render(read_json(folder / FINISHED))
    try:
        write_text(target, text)
    except OSError as error:
        raise DataError(
            f"{target}: cannot be written: {error.strerror or error}; the corpus is whole, make "
            "room and run the same command again"
        ) from None
    return target


def render(made: dict[str, Any]) -> str:
    """The page for what corpus.json holds."""
    result = made["result"]
    language = str(result["language"])
    template = templates("lingraft.report").get_template("corpus.html.j2")
    return template.render(
        title=f"Corpus: {language}",
        verdict=_verdict(result),
        facts=_facts(result),
        language=language,
        documents=document_funnel(result),
        sentences=sentence_funnel(result),
        changed=_rows(("what", "times"), result["changed"]),
        samples=samples(result),
        counted_only=_counted_only(result),
        splits=corpus_splits(result, None),
        sources=_sources(result),
        domains=_rows(("host", "documents"), result["domains"]),
        lengths=bars(_ranges(result["lengths"]), by_count=False),
        sizes=bars(_ranges(result["documents_by_sentences"]), by_count=False),
        scripts=bars(result["letters_by_script"]),
        languages=bars(result["languages"])[:TOP],
        more_languages=max(0, len(result["languages"]) - TOP),
        settings=_rows(("key", "value"), made["corpus"], shown=_setting),
    )


def document_funnel(result: dict[str, Any]) -> list[Bar]:
    """Documents that were read, left out by reason, and kept."""
    dropped = {k: n for k, n in result["dropped"].items() if not _of_sentences(k)}
    kept = sum(split["documents"] for split in result["splits"].values())
    left = result["documents"] - sum(dropped.values()) - kept
    if left > 0:
        dropped["no sentence was left"] = left
    return _funnel(result["documents"], dropped, kept)


def sentence_funnel(result: dict[str, Any]) -> list[Bar]:
    """Sentences that documents were cut into, left out by reason, and kept."""
    dropped = {k: n for k, n in result["dropped"].items() if _of_sentences(k)} | result["subset"]
    kept = sum(split["sentences"] for split in result["splits"].values())
    return _funnel(result["sentences_in"], dropped, kept)


def samples(result: dict[str, Any]) -> list[Sample]:
    """What was dropped, by reason, the most frequent first."""
    dropped = result["dropped"]
    found = sorted(result["samples"], key=lambda reason: (-dropped.get(reason, 0), reason))
    return [
        Sample(
            reason,
            f"{numbers.count(dropped.get(reason, 0))} "
            f"{'sentences' if _of_sentences(reason) else 'documents'}",
            tuple(result["samples"][reason]),
        )
        for reason in found
    ]


def _counted_only(result: dict[str, Any]) -> str:
    """Reasons of which there is no text to show, since readers step over it."""
    return ", ".join(reason for reason in result["dropped"] if reason not in result["samples"])


def _of_sentences(reason: str) -> bool:
    return reason in REASONS


def _funnel(count: int, dropped: Mapping[str, int], kept: int) -> list[Bar]:
    def bar(name: str, number: int, *, whole: bool = False) -> Bar:
        share = number / max(count, 1)
        width = round(100 * min(share, 1.0), 2)
        return Bar(name, numbers.count(number), numbers.percent(share), width, whole)

    rows = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    return [
        bar("went in", count, whole=True),
        *(bar(name, number) for name, number in rows if number),
        bar("kept", kept, whole=True),
    ]


def bars(counts: Mapping[str, int], *, by_count: bool = True) -> list[Bar]:
    """A bar a row, the longest over the whole width; in the order of the counts or as it is."""
    rows = list(counts.items())
    if by_count:
        rows.sort(key=lambda item: (-item[1], item[0]))
    total, most = sum(counts.values()), max(counts.values(), default=1)
    return [
        Bar(name, numbers.count(n), numbers.percent(n / max(total, 1)), round(100 * n / most, 2))
        for name, n in rows
    ]


def _ranges(counts: Mapping[str, int]) -> dict[str, int]:
    """Names for the classes whose smallest number is a power of two."""
    named = {}
    for start, count in counts.items():
        low = int(start)
        named[str(low) if low < 2 else f"{low:,} – {2 * low - 1:,}"] = count
    return named


def _verdict(result: dict[str, Any]) -> str:
    kept = sum(split["sentences"] for split in result["splits"].values())
    characters = sum(split["characters"] for split in result["splits"].values())
    share = numbers.percent(kept / max(result["sentences_in"], 1))
    return (
        f"{numbers.count(kept)} of {numbers.count(result['sentences_in'])} sentences were kept "
        f"({share}), {numbers.short(characters)} characters."
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
    rows = [
        (source["name"], numbers.size(source["bytes"]), numbers.count(source["documents"]))
        for source in ranked[:TOP]
    ]
    return Table(("source", "size", "documents"), tuple(rows)), len(ranked) - len(rows)


def _rows(head: tuple[str, str], values: Mapping[str, Any], shown: Any = numbers.count) -> Table:
    rows = tuple((str(name), shown(value)) for name, value in values.items())
    return Table(head, rows)


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return SETTINGS_SHOWN_AS[value]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{name} = {_setting(item)}" for name, item in value.items())
    return "–" if value is None else str(value)
