"""KLUE's files of names (NER), relations (RE) and dependencies (DP), official or as JSONL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.tasks.examples import Entity, ParseExample, RelationExample, TaggedExample
from lingraft.tasks.reading import Row, blocks, jsonl_rows, suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
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
"""Word classes of dependencies, in the order of the reference."""


def _sentences(
    path: Path, columns: Sequence[str], wrong: Callable[[int, list[str]], str]
) -> Iterator[Row]:
    """Sentences: `## id <tab> text`, a line of cells for each character or word, then a gap.

    A character may itself be `#`, so only a line that starts with two is a comment.

    Args:
        path: the file.
        columns: names of the cells.
        wrong: what is wrong with the cells of a line, by its number in the sentence; "" if nothing.
    """

    def gap(line: str) -> bool:
        return line.startswith("##") or not line.strip("\t")

    for number, ((start, header), lines) in enumerate(blocks(path, gap)):
        table = [line.split("\t") for _, line in lines]
        for index, ((line_number, _), cells) in enumerate(zip(lines, table, strict=True), 1):
            if problem := wrong(index, cells):
                raise DataError(f"{path}: line {line_number}: {problem}")
        values: dict[str, Any] = dict(
            zip(columns, map(list, zip(*table, strict=True)), strict=True)
        )
        guid, *text = header.removeprefix("##").split("\t")
        if len(text) == 1 and guid.strip():
            values["guid"] = guid.strip()
        yield Row(f"{path}: line {start}", number, values)


def character_rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Read sentences of characters, the space among them, with a tag each.

    Raises:
        DataError: a line is not a character and a tag.
    """
    labels = definition.labels

    def wrong(_: int, cells: list[str]) -> str:
        if len(cells) != 2 or len(cells[0]) != 1:
            line = "\t".join(cells)
            return f"is {line[:40]!r}; it must be one character, a tab and its tag"
        if labels and cells[1] not in labels:
            return f"unknown tag {cells[1]!r}; allowed: {', '.join(labels)}"
        return ""

    is_jsonl = suffix(path) == ".jsonl"
    return jsonl_rows(path) if is_jsonl else _sentences(path, ("chars", "tags"), wrong)


def characters(row: Row, definition: Definition) -> TaggedExample:
    """Make the example of a sentence of characters.

    Raises:
        DataError: characters and tags do not match, or a tag is none of KLUE's.
    """
    units, tags = row.strings(["chars"]), row.strings(["tags"])
    if len(units) != len(tags) or set(map(len, units)) != {1}:
        raise row.error(f"has {len(units)} characters and {len(tags)} tags; one each is wanted")
    row.check_known("tag", tags, definition.labels)
    return TaggedExample(row.identifier(["guid"]), units, tags, characters=True)


def relation(row: Row, definition: Definition) -> RelationExample:
    """Make the example of a relation; `end_idx` of the files is the entity's last character.

    Raises:
        DataError: an entity is outside the sentence or is not the word that it says, the two
            overlap, or the relation is unknown.
    """
    text = row.text(["sentence"])
    subject, obj = _entity(row, "subject_entity", text), _entity(row, "object_entity", text)
    if subject.start < obj.end and obj.start < subject.end:
        raise row.error(
            f"subject {subject.start}–{subject.end} and object {obj.start}–{obj.end} overlap"
        )
    label = row.text(["label"])
    row.check_known("label", [label], definition.labels)
    return RelationExample(row.text(["guid"]), text, subject, obj, label)


def _entity(row: Row, name: str, text: str) -> Entity:
    value: Any = row.value([name])
    try:
        start, last = (int(str(value[key])) for key in ("start_idx", "end_idx"))
    except (KeyError, TypeError, ValueError):
        raise row.error(
            f"column {name!r} must be an object with numbers 'start_idx' and 'end_idx'"
        ) from None
    if not 0 <= start <= last < len(text):
        raise row.error(
            f"{name} {start}–{last} is outside the sentence, which has {len(text)} characters"
        )
    found, word = text[start : last + 1], value.get("word")
    if word not in (None, found):
        raise row.error(f"{name} is {word!r}, but the sentence has {found!r} there")
    return Entity(start, last + 1, str(value.get("type", "")))


def word_rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Read sentences of words with lemma, tags, head and relation.

    Raises:
        DataError: a line does not have six columns.
    """
    columns = ("index", "words", "lemma", "pos", "head", "deprel")

    def wrong(index: int, cells: list[str]) -> str:
        if len(cells) != len(columns):
            return f"has {len(cells)} columns; it must have {len(columns)}: {', '.join(columns)}"
        return "" if cells[0] == str(index) else f"is word {cells[0]!r}; number {index} comes next"

    return jsonl_rows(path) if suffix(path) == ".jsonl" else _sentences(path, columns, wrong)


def parse(row: Row, definition: Definition) -> ParseExample:
    """Make the example of a sentence with heads; of the tags `A+B+C` of a word the last.

    Raises:
        DataError: the columns differ in length, a head is outside the sentence or the word itself,
            or a tag or relation is unknown.
    """
    words, relations = row.strings(["words"]), row.strings(["deprel"])
    pos = tuple(tag.rpartition("+")[2] for tag in row.strings(["pos"]))
    given = row.value(["head"])
    heads = tuple(
        int(str(head)) if str(head).isdecimal() else -1
        for head in (given if isinstance(given, list) else [])
    )
    lengths = (len(words), len(pos), len(heads), len(relations))
    if len(set(lengths)) != 1 or not words:
        counts = "{} words, {} tags, {} heads and {} relations".format(*lengths)
        raise row.error(f"has {counts}; the numbers must be equal")
    for index, head in enumerate(heads, 1):
        if head == index or not 0 <= head <= len(words):
            wrong = given[index - 1]
            raise row.error(
                f"head {wrong!r} of word {index} is not another word from 1 to {len(words)}, or 0"
            )
    row.check_known("relation", relations, definition.labels)
    row.check_known("tag", pos, POS)
    return ParseExample(row.identifier(["guid"]), words, pos, heads, relations)
