"""The report of a corpus: one HTML file that needs nothing else, from corpus.json alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomli_w

from lingraft.corpus.cleaning import near_duplicates
from lingraft.corpus.cleaning.clean import DUPLICATE
from lingraft.corpus.readers.folders import FINISHED
from lingraft.corpus.result import NOT_IN_SUBSET
from lingraft.errors import writing
from lingraft.report import numbers
from lingraft.report.next_step import NextStep, command
from lingraft.report.page import Folded, Heading, Text, page, section
from lingraft.report.pages import sections
from lingraft.report.pages.sections import by_count
from lingraft.report.table import table
from lingraft.rundir import read_json, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lingraft.report.page import Part

TOP = 20
SOURCE = "FacebookAI/roberta-base"
"""What a command is shown with."""


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
    """Make the page for what corpus.json holds, and where it lies."""
    result = data["result"]
    settings = {key: value for key, value in data["corpus"].items() if value is not None}
    in_full = Folded("[corpus] in full", [Text(tomli_w.dumps(settings), "code")])
    kept = [
        *section("What was kept", sections.corpus_splits(result, None)),
        *_bars("Length of the sentences, in characters", "sentences", _ranges(result["lengths"])),
        *_bars(
            "Length of the documents, in sentences",
            "documents",
            _ranges(result["documents_by_sentences"]),
        ),
        *_bars("Scripts of the letters", "letters", by_count(result["letters_by_script"])),
    ]
    return page(
        f"Corpus: {result['language']}",
        verdict(result),
        [
            *section(
                "From documents to sentences",
                *sections.notices(result),
                sections.document_drops(result),
                sections.drops(result),
            ),
            *_counts("What was changed", "what", "times", result["changed"]),
            *_samples(result),
            *kept,
            *_languages(result),
            *_sources(result),
            *section("Settings", in_full),
        ],
        facts=_facts(result),
        next_step=after(result, folder),
        made_from="corpus.json",
    )


def _bars(title: str, unit: str, counts: Mapping[str, int]) -> list[Part]:
    return section(title, sections.bars(title, ("", unit), counts), level=3)


def _counts(title: str, name: str, unit: str, counts: Mapping[str, int]) -> list[Part]:
    rows = [(thing, numbers.count(n)) for thing, n in counts.items()]
    return section(title, table(title, (name, unit), rows), level=3)


def _samples(result: dict[str, Any]) -> list[Part]:
    """Show a few texts of each reason, the most frequent first.

    A reason of which nothing is counted was one of sentences whose documents went as a whole.
    """
    dropped, texts, language = result["dropped"], result["samples"], str(result["language"])
    # readers step over some, of which there is no text to show
    only = ", ".join(reason for reason in dropped if reason not in texts)
    note = "The first few of each reason; long texts are cut."
    parts: list[Part] = [Heading("What was dropped"), Text(note, "note")]
    parts += [Text(f"Counted, but not shown: {only}.", "note")] if only else []
    for reason in by_count(dropped):
        unit = "sentences" if sections.is_of_sentences(reason) else "documents"
        shown = (Text(text, "item", language) for text in texts.get(reason, ()))
        title = f"{reason} ({numbers.count(dropped[reason])} {unit})"
        parts += section(title, *shown, level=3)
    return parts if dropped else section("What was dropped", Text("Nothing."))


def _languages(result: dict[str, Any]) -> list[Part]:
    languages = by_count(result["languages"])
    if not languages:
        off = "Languages were not identified; corpus.identify_language = true does so."
        return section("Languages", Text(off))
    note = "Most likely language of each sentence of at least 20 characters that passed the other "
    top, whole = dict(list(languages.items())[:TOP]), sum(languages.values())
    return section(
        "Languages",
        Text(f"{note}filters.", "note"),
        sections.bars("Sentences by language", ("language", "sentences"), top, whole),
        _more(len(languages), "languages"),
    )


def _sources(result: dict[str, Any]) -> list[Part]:
    """Show the sources and the hosts with most documents."""
    ranked = sorted(result["sources"], key=lambda source: (-source["documents"], source["name"]))
    table = sections.corpus_sources({"sources": ranked[:TOP]})
    hosts = _counts("Hosts with most documents", "host", "documents", result["domains"])
    return [*section("Sources", table, _more(len(ranked), "sources")), *hosts]


def _more(count: int, things: str) -> Text | None:
    return Text(f"{count - TOP} more {things}.", "note") if count > TOP else None


def _ranges(counts: Mapping[str, int]) -> dict[str, int]:
    """Name the classes whose smallest number is a power of two."""
    ranges = {}
    for start, count in counts.items():
        low = int(start)
        ranges[str(low) if low < 2 else f"{low:,} – {2 * low - 1:,}"] = count
    return ranges


def verdict(result: dict[str, Any]) -> str:
    """Say how much can be used, and why most of the rest was dropped."""
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
    """Suggest to make a model of the corpus."""
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
