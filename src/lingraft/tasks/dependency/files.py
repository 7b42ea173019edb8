"""KLUE-DP files: one word a line with lemma, tags, head and relation (SPEC B.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.tasks.examples import ParseExample
from lingraft.tasks.reading import Row, file_lines, jsonl_rows, suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RELATIONS = (
    "NP",
    "NP_AJT",
    "VP",
    "NP_SBJ",
    "VP_MOD",
    "NP_OBJ",
    "AP",
    "NP_CNJ",
    "NP_MOD",
    "VNP",
    "DP",
    "VP_AJT",
    "VNP_MOD",
    "NP_CMP",
    "VP_SBJ",
    "VP_CMP",
    "VP_OBJ",
    "VNP_CMP",
    "AP_MOD",
    "X_AJT",
    "VP_CNJ",
    "VNP_AJT",
    "IP",
    "X",
    "X_SBJ",
    "VNP_OBJ",
    "VNP_SBJ",
    "X_OBJ",
    "AP_AJT",
    "L",
    "X_MOD",
    "X_CNJ",
    "VNP_CNJ",
    "X_CMP",
    "AP_CMP",
    "AP_SBJ",
    "R",
    "NP_SVJ",
)
"""By frequency; from the 16th on the metric takes them for one class."""
POS = (
    "NNG",
    "NNP",
    "NNB",
    "NP",
    "NR",
    "VV",
    "VA",
    "VX",
    "VCP",
    "VCN",
    "MMA",
    "MMD",
    "MMN",
    "MAG",
    "MAJ",
    "JC",
    "IC",
    "JKS",
    "JKC",
    "JKG",
    "JKO",
    "JKB",
    "JKV",
    "JKQ",
    "JX",
    "EP",
    "EF",
    "EC",
    "ETN",
    "ETM",
    "XPN",
    "XSN",
    "XSV",
    "XSA",
    "XR",
    "SF",
    "SP",
    "SS",
    "SE",
    "SO",
    "SL",
    "SH",
    "SW",
    "SN",
    "NA",
)
COLUMNS = 6


def rows(path: Path) -> Iterable[Row]:
    """Sentences of an official TSV file or of a JSONL conversion.

    Raises:
        DataError: a line does not have six columns.
    """
    return jsonl_rows(path) if suffix(path) == ".jsonl" else _blocks(path)


def _blocks(path: Path) -> Iterator[Row]:
    """Sentences: `## id <tab> text`, then index, word, lemma, tags, head, relation, then a gap."""
    number = 0
    guid = ""
    start = 1
    words: list[list[str]] = []
    for line_number, line in enumerate([*file_lines(path), ""], 1):
        where = Row(f"{path}: line {line_number}", number, {})
        cells = line.split("\t")
        if line.startswith("##") or not line.strip():
            if words:
                yield _sentence(f"{path}: line {start}", number, guid, words)
                number += 1
                words, guid = [], ""
            if line.startswith("##") and len(cells) == 2 and " " in cells[0].strip():
                guid, start = cells[0].removeprefix("##").strip(), line_number
            continue
        if len(cells) != COLUMNS:
            raise where.error(
                f"has {len(cells)} columns; it must have {COLUMNS}: "
                "index, word, lemma, tags, head, relation"
            )
        if cells[0] != str(len(words) + 1):
            raise where.error(f"is word {cells[0]!r}; number {len(words) + 1} comes next")
        words.append(cells)


def _sentence(where: str, number: int, guid: str, words: list[list[str]]) -> Row:
    _, forms, _, pos, heads, relations = zip(*words, strict=True)
    values = {
        "guid": guid or str(number),
        "words": list(forms),
        "pos": list(pos),
        "head": list(heads),
        "deprel": list(relations),
    }
    return Row(where, number, values)


def example(row: Row) -> ParseExample:
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
    for relation in relations:
        if relation not in RELATIONS:
            raise row.error(f"unknown relation {relation!r}; allowed: {', '.join(RELATIONS)}")
    for tag in pos:
        if tag not in POS:
            raise row.error(f"unknown tag {tag!r}; allowed: {', '.join(POS)}")
    return ParseExample(row.identifier(["guid"]), words, pos, heads, relations)


def _head(row: Row, value: object, n_words: int) -> int:
    try:
        head = int(str(value))
    except ValueError:
        head = -1
    if not 0 <= head <= n_words:
        raise row.error(f"head {value!r} is not a whole number from 0 to {n_words}")
    return head
