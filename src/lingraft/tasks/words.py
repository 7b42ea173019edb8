"""Words with a tag each: JSONL, CoNLL, or CoNLL-U with parts of speech as XTREME prepares them.

In CoNLL-U (ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC) a multi-word token (French `du`, of
`de` and `le`) stands as one word, since that is what is written: the node of its span that is
nearest to the root lends its part of speech, the others go. In files of treebanks spaces and U+200C
inside a word go, and so do sentences with next to no text (`_`).

KLUE's files of names (NER), relations (RE) and dependencies (DP), official or as JSONL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.lines import kind
from lingraft.tasks.examples import Entity, ParseExample, RelationExample, TaggedExample
from lingraft.tasks.reading import MISSING, FileRow, blocks, jsonl_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.tasks.definition import Definition


ENDS = " \t\r"
"""Characters that may stand around a line; other spaces, such as U+00A0, belong to words."""
RANKS = {
    "": "VERB NOUN PROPN PRON ADJ NUM ADV INTJ AUX ADP DET PART CCONJ SCONJ X PUNCT",
    "es": "VERB AUX PRON ADP DET",
    "fr": "VERB AUX PRON NOUN ADJ ADV ADP DET PART SCONJ CONJ",
    "it": "VERB AUX ADV PRON ADP DET INTJ",
}
"""Language → parts of speech, of which the first heads a span whose nodes are equally near to the
root. XTREME's converter stops at a part of speech that its list lacks; here it comes last."""
NO_FORM = "_"
"""The form of words that a treebank does not give away."""
JOINER = "\u200c"
"""Zero-width non-joiner, of Persian."""


def rows(path: Path, definition: Definition) -> Iterable[FileRow]:
    """Read sentences of a JSONL file, of CoNLL-U (.conllu), or of CoNLL: words, their tags last."""
    if kind(path) == ".jsonl":
        return jsonl_rows(path)
    return (_conllu if kind(path) == ".conllu" else _conll)(path, definition)


def _conll(path: Path, definition: Definition) -> Iterable[FileRow]:
    """Read words a line, gaps between sentences; no line is a comment.

    Columns are separated by tabs, or by spaces in lines without a tab. Sentences of words alone
    have no tags where a benchmark hides them. WikiAnn's words lose the language before them, if
    all words of the file have it.
    """
    columns, prefix = definition.columns, definition.prefix
    sentences: list[tuple[int, list[list[str]]]] = []
    for (start, _), lines in blocks(path, _is_gap):
        table = [
            line.split("\t") if "\t" in line else re.split(" +", line.strip(ENDS)) for line in lines
        ]
        sentences.append((start, table))
    every = prefix and all(c[0].startswith(prefix) for _, table in sentences for c in table)
    for number, (start, table) in enumerate(sentences):
        forms = [cells[0] for cells in table]
        if every:
            forms = [form.removeprefix(prefix).strip() for form in forms]
        values = {columns.words[0]: forms}
        if not definition.folders or any(len(cells) > 1 for cells in table):
            tags = [cells[-1].strip(ENDS) if len(cells) > 1 else "" for cells in table]
            values[columns.tags[0]] = tags
        yield FileRow(f"{path}: line {start}", number, values)


def _is_gap(line: str) -> bool:
    return not line.strip(ENDS) or line.startswith("-DOCSTART-")


def example(row: FileRow, definition: Definition) -> TaggedExample:
    """Make the example of a sentence.

    Raises:
        DataError: words and tags differ in number, or a tag is none of the task's.
    """
    columns = definition.columns
    words = row.strings(columns.words)
    if definition.folders and row.find(columns.tags) is MISSING:
        return TaggedExample(row.identifier(columns.id), words, None)
    tags = tags_of(row, definition)
    if len(words) != len(tags) or not words:
        raise row.error(f"has {len(words)} words and {len(tags)} tags; the numbers must be equal")
    row.check_known("label", tags, definition.labels)
    return TaggedExample(row.identifier(columns.id), words, tags)


def tags_of(row: FileRow, definition: Definition) -> tuple[str, ...]:
    """Return the tags of a sentence, by the labels that their spellings stand for."""
    tags = row.strings(definition.columns.tags)
    return tuple(definition.aliases.get(tag, tag) for tag in tags)


def treebank_rows(path: Path, definition: Definition) -> Iterable[FileRow]:
    """Read sentences of a treebank, in any format of `rows`, without those of hidden words."""
    for row in rows(path, definition):
        forms = row.strings(definition.columns.words)
        if forms.count(NO_FORM) < max(1, len(forms) - 1):
            yield row


def treebank_example(row: FileRow, definition: Definition) -> TaggedExample:
    """Make the example of a sentence, without spaces and joiners inside its words."""
    names = definition.columns.words
    forms = [form.replace(JOINER, "").replace(" ", "") for form in row.strings(names)]
    return example(FileRow(row.where, row.number, {**row.values, names[0]: forms}), definition)


def _conllu(path: Path, definition: Definition) -> Iterator[FileRow]:
    columns = definition.columns
    ranks = RANKS.get(definition.language, RANKS[""]).split()
    found = blocks(path, lambda line: not line.strip() or line.startswith("#"))
    for number, ((start, _), lines) in enumerate(found):
        nodes: dict[int, list[str]] = {}
        spans: list[tuple[range, str]] = []
        for cells in (line.split("\t") for line in lines):
            first, _, last = cells[0].partition("-")
            if last:
                spans.append((range(int(first), int(last) + 1), cells[1]))
            elif "." not in first:  # else an empty node
                nodes[int(first)] = cells
        tokens = fused(nodes, spans, ranks)
        values: dict[str, Any] = {
            columns.words[0]: [form.strip() for form, _ in tokens],
            columns.tags[0]: [upos.strip() for _, upos in tokens],
        }
        yield FileRow(f"{path}: line {start}", number, values)


def fused(
    nodes: Mapping[int, Sequence[str]], spans: Iterable[tuple[range, str]], ranks: Sequence[str]
) -> list[tuple[str, str]]:
    """Return form and part of speech of the words of a sentence as they are written.

    Args:
        nodes: cells of CoNLL-U by the number of the word; basic and enhanced heads count.
        spans: the numbers of the words of each multi-word token, and its form.
        ranks: parts of speech, the first before the others.
    """
    heads = {
        place: [
            int(head)
            for head in (cells[6], *(dep.partition(":")[0] for dep in cells[8].split("|")))
            if head.isdecimal()
        ]
        for place, cells in nodes.items()
    }
    tokens = {place: (cells[1], cells[3]) for place, cells in nodes.items()}
    for span, form in spans:

        def order(place: int) -> tuple[int, int, int]:
            upos = nodes[place][3]
            rank = ranks.index(upos) if upos in ranks else len(ranks)
            return len(_ancestors(place, heads)), rank, place

        head = min(span, key=order)
        for place in span:
            tokens.pop(place, None)
        tokens[head] = (form, nodes[head][3])
    return [tokens[place] for place in sorted(tokens)]


def _ancestors(place: int, heads: Mapping[int, Sequence[int]]) -> set[int]:
    """All nodes above one, the root (0) among them; XTREME counts along enhanced heads too."""
    above: set[int] = set()
    left = list(heads[place])
    while left:
        head = left.pop()
        if head not in above:
            above.add(head)
            left += heads.get(head, ())
    return above - {place}


def are_entities(labels: Collection[str]) -> bool:
    """Tell whether tags can be IOB2: O, B-X, and I-X where there is B-X."""
    begun = {label[2:] for label in labels if re.fullmatch("B-.+", label)}
    rest = (label for label in labels if label != "O" and not label.startswith("B-"))
    return all(label.startswith("I-") and label[2:] in begun for label in rest)


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


def _sentences(path: Path, columns: Sequence[str]) -> Iterator[FileRow]:
    """Yield sentences: `## id <tab> text`, a line of cells for each character or word, then a gap.

    A character may itself be `#`, so only a line that starts with two is a comment.
    """

    def gap(line: str) -> bool:
        return line.startswith("##") or not line.strip("\t")

    for number, ((start, header), lines) in enumerate(blocks(path, gap)):
        table = [line.split("\t") for line in lines]
        cells = map(list, zip(*table, strict=True))
        values: dict[str, Any] = dict(zip(columns, cells, strict=True))
        guid, *text = header.removeprefix("##").split("\t")
        if len(text) == 1 and guid.strip():
            values["guid"] = guid.strip()
        yield FileRow(f"{path}: line {start}", number, values)


def character_rows(path: Path, definition: Definition) -> Iterable[FileRow]:
    """Read sentences of characters, the space among them, with a tag each."""
    return jsonl_rows(path) if kind(path) == ".jsonl" else _sentences(path, ("chars", "tags"))


def characters(row: FileRow, definition: Definition) -> TaggedExample:
    """Make the example of a sentence of characters.

    Raises:
        DataError: characters and tags do not match, or a tag is none of KLUE's.
    """
    units, tags = row.strings(["chars"]), row.strings(["tags"])
    if len(units) != len(tags) or set(map(len, units)) != {1}:
        raise row.error(f"has {len(units)} characters and {len(tags)} tags; one each is wanted")
    row.check_known("tag", tags, definition.labels)
    return TaggedExample(row.identifier(["guid"]), units, tags, characters=True)


def relation(row: FileRow, definition: Definition) -> RelationExample:
    """Make the example of a relation; `end_idx` of the files is the entity's last character.

    Raises:
        DataError: an entity is not the word that it says, or the relation is unknown.
    """
    text, label = row.text(["sentence"]), row.text(["label"])
    row.check_known("label", [label], definition.labels)
    subject, obj = _entity(row, "subject_entity", text), _entity(row, "object_entity", text)
    return RelationExample(row.text(["guid"]), text, subject, obj, label)


def _entity(row: FileRow, name: str, text: str) -> Entity:
    value: Any = row.value([name])
    start, last = int(value["start_idx"]), int(value["end_idx"])
    found = text[start : last + 1]
    if not 0 <= start <= last < len(text) or value.get("word", found) != found:
        raise row.error(f"{name} {start}–{last} is not in the sentence, or is another word there")
    return Entity(start, last + 1, str(value.get("type", "")))


def word_rows(path: Path, definition: Definition) -> Iterable[FileRow]:
    """Read sentences of words with lemma, tags, head and relation."""
    columns = ("index", "words", "lemma", "pos", "head", "deprel")
    return jsonl_rows(path) if kind(path) == ".jsonl" else _sentences(path, columns)


def parse(row: FileRow, definition: Definition) -> ParseExample:
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
