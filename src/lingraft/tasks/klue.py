"""KLUE's files of names (NER), relations (RE) and dependencies (DP), official or as JSONL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.lines import kind
from lingraft.tasks.examples import Entity, ParseExample, RelationExample, TaggedExample
from lingraft.tasks.reading import Row, blocks, jsonl_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
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


def _sentences(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield sentences: `## id <tab> text`, a line of cells for each character or word, then a gap.

    A character may itself be `#`, so only a line that starts with two is a comment.
    """

    def gap(line: str) -> bool:
        return line.startswith("##") or not line.strip("\t")

    for number, ((start, header), lines) in enumerate(blocks(path, gap)):
        table = [line.split("\t") for line in lines]
        values: dict[str, Any] = dict(
            zip(columns, map(list, zip(*table, strict=True)), strict=True)
        )
        guid, *text = header.removeprefix("##").split("\t")
        if len(text) == 1 and guid.strip():
            values["guid"] = guid.strip()
        yield Row(f"{path}: line {start}", number, values)


def character_rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Read sentences of characters, the space among them, with a tag each."""
    is_jsonl = kind(path) == ".jsonl"
    return jsonl_rows(path) if is_jsonl else _sentences(path, ("chars", "tags"))


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
        DataError: an entity is not the word that it says, or the relation is unknown.
    """
    text, label = row.text(["sentence"]), row.text(["label"])
    row.check_known("label", [label], definition.labels)
    subject, obj = _entity(row, "subject_entity", text), _entity(row, "object_entity", text)
    return RelationExample(row.text(["guid"]), text, subject, obj, label)


def _entity(row: Row, name: str, text: str) -> Entity:
    value: Any = row.value([name])
    start, last = int(value["start_idx"]), int(value["end_idx"])
    found = text[start : last + 1]
    if not 0 <= start <= last < len(text) or value.get("word", found) != found:
        raise row.error(f"{name} {start}–{last} is not in the sentence, or is another word there")
    return Entity(start, last + 1, str(value.get("type", "")))


def word_rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Read sentences of words with lemma, tags, head and relation."""
    columns = ("index", "words", "lemma", "pos", "head", "deprel")
    return jsonl_rows(path) if kind(path) == ".jsonl" else _sentences(path, columns)


def parse(row: Row, definition: Definition) -> ParseExample:
    """Make the example of a sentence with heads; of the tags `A+B+C` of a word the last.

    Raises:
        DataError: the columns differ in length, a head is outside the sentence or the word itself,
            or a tag or relation is unknown.
    """
    words, relations = row.strings(["words"]), row.strings(["deprel"])
    pos = tuple(tag.rpartition("+")[2] for tag in row.strings(["pos"]))
    heads = tuple(map(int, row.value(["head"])))
    if not len(words) == len(pos) == len(heads) == len(relations):
        raise row.error("has not one tag, one head and one relation a word")
    for index, head in enumerate(heads, 1):
        if head == index or not 0 <= head <= len(words):
            raise row.error(
                f"head '{head}' of word {index} is not another word from 1 to {len(words)}, or 0"
            )
    row.check_known("relation", relations, definition.labels)
    row.check_known("tag", pos, POS)
    return ParseExample(row.identifier(["guid"]), words, pos, heads, relations)
