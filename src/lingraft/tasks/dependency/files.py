"""KLUE-DP files: one word a line with lemma, tags, head and relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks.examples import ParseExample
from lingraft.tasks.reading import Row, blocks, jsonl_rows, named, suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lingraft.tasks.definition import Definition

POS = (
    *("NNG", "NNP", "NNB", "NP", "NR"),
    *("VV", "VA", "VX", "VCP", "VCN"),
    *("MMA", "MMD", "MMN", "MAG", "MAJ", "JC", "IC"),
    *("JKS", "JKC", "JKG", "JKO", "JKB", "JKV", "JKQ", "JX"),
    *("EP", "EF", "EC", "ETN", "ETM"),
    *("XPN", "XSN", "XSV", "XSA", "XR"),
    *("SF", "SP", "SS", "SE", "SO", "SL", "SH", "SW", "SN", "NA"),
)
"""Word classes, in the order of the reference."""
COLUMNS = 6


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Sentences of an official TSV file or of a JSONL conversion.

    Raises:
        DataError: a line does not have six columns.
    """
    return jsonl_rows(path) if suffix(path) == ".jsonl" else _sentences(path)


def _sentences(path: Path) -> Iterator[Row]:
    """Sentences: `## id <tab> text`, then index, word, lemma, tags, head, relation, then a gap."""

    def gap(line: str) -> bool:
        return line.startswith("##") or not line.strip()

    for number, ((start, header), lines) in enumerate(blocks(path, gap)):
        table = []
        for index, (line_number, line) in enumerate(lines, 1):
            cells = line.split("\t")
            where = f"{path}: line {line_number}"
            if len(cells) != COLUMNS:
                raise DataError(
                    f"{where}: has {len(cells)} columns; it must have {COLUMNS}: "
                    "index, word, lemma, tags, head, relation"
                )
            if cells[0] != str(index):
                raise DataError(f"{where}: is word {cells[0]!r}; number {index} comes next")
            table.append(cells)
        _, words, _, pos, heads, relations = map(list, zip(*table, strict=True))
        values = {"words": words, "pos": pos, "head": heads, "deprel": relations, **named(header)}
        yield Row(f"{path}: line {start}", number, values)


def example(row: Row, definition: Definition) -> ParseExample:
    """The example of a sentence; of the tags `A+B+C` of a word the last.

    Raises:
        DataError: the columns differ in length, a head is outside the sentence or the word itself,
            or a tag or relation is unknown.
    """
    words, relations = row.strings(["words"]), row.strings(["deprel"])
    pos = tuple(tag.rpartition("+")[2] for tag in row.strings(["pos"]))
    heads = tuple(_head(row, value, len(words)) for value in row.list(["head"]))
    lengths = (len(words), len(pos), len(heads), len(relations))
    if len(set(lengths)) != 1 or not words:
        raise row.error(
            "has {} words, {} tags, {} heads and {} relations; the numbers must be equal".format(
                *lengths
            )
        )
    for index, head in enumerate(heads, 1):
        if head == index:
            raise row.error(f"word {index} is its own head")
    row.check_known("relation", relations, definition.labels)
    row.check_known("tag", pos, POS)
    return ParseExample(row.identifier(["guid"]), words, pos, heads, relations)


def _head(row: Row, value: object, n_words: int) -> int:
    try:
        head = int(str(value))
    except ValueError:
        head = -1
    if not 0 <= head <= n_words:
        raise row.error(f"head {value!r} is not a whole number from 0 to {n_words}")
    return head
