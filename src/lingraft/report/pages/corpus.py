"""The report of a corpus: one HTML file that needs nothing else, from corpus.json alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomli_w

from lingraft.corpus.readers.documents import FINISHED
from lingraft.errors import writing
from lingraft.files import write_text
from lingraft.report import numbers
from lingraft.report.next_step import NextStep, command
from lingraft.report.page import Folded, Heading, PageText, page, section
from lingraft.report.pages import sections
from lingraft.report.pages.sections import by_count
from lingraft.report.table import table
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lingraft.report.page import Part

TOP = 20
"""Languages and sources that are shown, those with most text."""
SOURCE = "FacebookAI/roberta-base"
"""The source in the command that is proposed."""


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
    ranked = sorted(result["sources"], key=lambda source: (-source["documents"], source["name"]))
    languages = dict(list(by_count(result["languages"]).items())[:TOP])
    total = sum(result["languages"].values())
    facts = [
        ("written in", ", ".join(result["scripts"]) or "any script"),
        ("sources", numbers.count(len(ranked))),
        ("shards", numbers.count(result["parts"])),
        *(("more held out than the shares give", split) for split in result["widened"]),
    ]
    changed = [(thing, numbers.count(n)) for thing, n in result["changed"].items()]
    return page(
        f"Corpus: {result['language']}",
        verdict(result),
        [
            *section("What was left out", *sections.notices(result), sections.left_out(result)),
            *section("What was changed", table("Changes", ("what", "times"), changed), level=3),
            *_samples(result),
            *section("What was kept", sections.corpus_splits(result, {})),
            *_bars("Scripts of the letters", "letters", by_count(result["letters_by_script"])),
            *_bars("Most likely languages of the sentences", "sentences", languages, total),
            *section("Sources with most text", sections.corpus_sources(ranked[:TOP])),
            *section(
                "Settings", Folded("[corpus] in full", [PageText(tomli_w.dumps(settings), "code")])
            ),
        ],
        facts=facts,
        next_step=after(result, folder),
        made_from="corpus.json",
    )


def _bars(title: str, unit: str, counts: Mapping[str, int], total: int = 0) -> list[Part]:
    return section(title, sections.bars(title, ("", unit), counts, total), level=3)


def _samples(result: dict[str, Any]) -> list[Part]:
    """Show a few texts of each reason, the most frequent first."""
    dropped, texts, language = result["dropped"], result["samples"], str(result["language"])
    parts: list[Part] = [Heading("What was dropped, the first few of each reason")]
    for reason in by_count(dropped):
        shown = (PageText(text, "item", language) for text in texts.get(reason, ()))
        parts += section(f"{reason} ({numbers.count(dropped[reason])})", *shown, level=3)
    return parts if len(parts) > 1 else []


def verdict(result: dict[str, Any]) -> str:
    """Say how much can be used, and why most of the rest was dropped."""
    n_kept = sum(split["sentences"] for split in result["splits"].values())
    characters = sum(split["characters"] for split in result["splits"].values())
    share = numbers.percent(n_kept / max(result["sentences_in"], 1))
    most = [(name, count) for name, count in by_count(result["dropped"]).items() if count][:2]
    reasons = " and ".join(f"{name}{sections.unit_of(name)}: {count:,}" for name, count in most)
    return (
        f"{numbers.count(n_kept)} of {numbers.count(result['sentences_in'])} sentences were kept "
        f"({share}), {numbers.short(characters)} characters. "
        f"Dropped most often: {reasons or 'nothing'}."
    )


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
