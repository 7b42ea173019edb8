"""Words with a tag each: JSONL, CoNLL, or CoNLL-U with parts of speech as XTREME prepares them.

In CoNLL-U a multi-word token (French `du`, of `de` and `le`) stands as one word, since that is what
is written: the node of its span that is nearest to the root lends its part of speech, the others
go. In files of treebanks spaces and U+200C inside a word go, and so do sentences with next to no
text (`_`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.tasks.examples import TaggedExample
from lingraft.tasks.reading import MISSING, Row, blocks, jsonl_rows, suffix

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.tasks.definition import Definition

ENDS = " \t\r"
"""What may stand around a line; other spaces, such as U+00A0, belong to words."""
COLUMNS = 10
"""Of CoNLL-U: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC."""
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


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Read sentences of a JSONL file, or of CoNLL: a word a line, its tag last, gaps between.

    Raises:
        DataError: a line has a word and no tag, or the file is CoNLL-U.
    """
    if suffix(path) == ".jsonl":
        return jsonl_rows(path)
    if suffix(path) == ".conllu":
        raise DataError(f'{path}: is CoNLL-U; the task needs format = "universal-dependencies"')
    sentences = _conll(path, definition)
    return _without_prefix(list(sentences), definition) if definition.prefix else sentences


def _without_prefix(rows: list[Row], definition: Definition) -> list[Row]:
    """Words without the language before them, if all words of the file have it."""
    name, prefix = definition.columns.words[0], definition.prefix
    if not all(word.startswith(prefix) for row in rows for word in row.values[name]):
        return rows
    bare = [[word.removeprefix(prefix).strip() for word in row.values[name]] for row in rows]
    return [
        Row(row.where, row.number, {**row.values, name: words})
        for row, words in zip(rows, bare, strict=True)
    ]


def _conll(path: Path, definition: Definition) -> Iterator[Row]:
    """Columns are separated by tabs, or by spaces in lines without a tab; no line is a comment.

    Sentences of words alone have no tags where a benchmark hides them.
    """
    columns = definition.columns

    def gap(line: str) -> bool:
        return not line.strip(ENDS) or line.startswith("-DOCSTART-")

    for number, (_, lines) in enumerate(blocks(path, gap)):
        table = [
            line.split("\t") if "\t" in line else re.split(" +", line.strip(ENDS))
            for _, line in lines
        ]
        values = {columns.words[0]: [cells[0] for cells in table]}
        alone = [line for line, cells in zip(lines, table, strict=True) if len(cells) < 2]
        if not (alone and definition.folders and len(alone) == len(lines)):
            for line_number, line in alone:
                raise DataError(
                    f"{path}: line {line_number}: is {line[:40]!r}; it must be word and tag"
                )
            values[columns.tags[0]] = [cells[-1].strip(ENDS) for cells in table]
        yield Row(f"{path}: line {lines[0][0]}", number, values)


def example(row: Row, definition: Definition) -> TaggedExample:
    """Make the example of a sentence.

    Raises:
        DataError: words and tags differ in number, or a tag is none of the task's.
    """
    columns = definition.columns
    words = row.strings(columns.words)
    if definition.folders and row.find(columns.tags) is MISSING:
        return TaggedExample(row.identifier(columns.id), words, None)
    tags = row.strings(columns.tags)
    if len(words) != len(tags) or not words:
        raise row.error(f"has {len(words)} words and {len(tags)} tags; the numbers must be equal")
    row.check_known("label", tags, definition.labels)
    return TaggedExample(row.identifier(columns.id), words, tags)


def treebank_rows(path: Path, definition: Definition) -> Iterator[Row]:
    """Read sentences of a treebank: CoNLL-U (.conllu), CoNLL with the tag last, or JSONL.

    Raises:
        DataError: a line is not of the format.
    """
    is_conllu = suffix(path) == ".conllu"
    for row in _conllu(path, definition) if is_conllu else rows(path, definition):
        forms = row.strings(definition.columns.words)
        hidden = forms.count(NO_FORM)
        if hidden == 0 or hidden < len(forms) - 1:
            yield row


def treebank_example(row: Row, definition: Definition) -> TaggedExample:
    """Make the example of a sentence, without spaces and joiners inside its words.

    Raises:
        DataError: words and tags differ in number, or a tag is none of the task's.
    """
    names = definition.columns.words
    forms = [form.replace(JOINER, "").replace(" ", "") for form in row.strings(names)]
    return example(Row(row.where, row.number, {**row.values, names[0]: forms}), definition)


def _conllu(path: Path, definition: Definition) -> Iterator[Row]:
    columns = definition.columns
    ranks = RANKS.get(definition.language, RANKS[""]).split()

    def gap(line: str) -> bool:
        return not line.strip() or line.startswith("#")

    for number, (_, lines) in enumerate(blocks(path, gap)):
        nodes: dict[int, list[str]] = {}
        spans: list[tuple[range, str]] = []
        for line_number, line in lines:
            cells = line.split("\t")
            first, _, last = cells[0].partition("-")
            if len(cells) == COLUMNS and "." in cells[0]:  # an empty node
                continue
            if len(cells) != COLUMNS or not (first.isdecimal() and (last or "0").isdecimal()):
                raise DataError(
                    f"{path}: line {line_number}: is no line of CoNLL-U: a number, or two with a "
                    f"hyphen, and {COLUMNS} columns parted by single tabs"
                )
            if last:
                spans.append((range(int(first), int(last) + 1), cells[1]))
            else:
                nodes[int(first)] = cells
        where = f"{path}: line {lines[0][0]}"
        for span, form in spans:
            if not span or any(place not in nodes for place in span):
                raise DataError(
                    f"{where}: not all words of the multi-word token {form!r} are there"
                )
        tokens = fused(nodes, spans, ranks)
        values: dict[str, Any] = {
            columns.words[0]: [form.strip() for form, _ in tokens],
            columns.tags[0]: [upos.strip() for _, upos in tokens],
        }
        yield Row(where, number, values)


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


def are_entities(labels: Collection[str], tagged: Iterable[Sequence[str]] = ()) -> bool:
    """Tell whether tags are IOB2: O, B-X, and I-X where there is B-X.

    Args:
        labels: all tags.
        tagged: sentences, in which I-X follows B-X or I-X (in IOB1, B-X parts names that touch).
    """
    begun = {label[2:] for label in labels if re.fullmatch("B-.+", label)}
    rest = (label for label in labels if label != "O" and not label.startswith("B-"))
    return all(label.startswith("I-") and label[2:] in begun for label in rest) and not any(
        tag.startswith("I-") and tag[2:] != before[2:]
        for tags in tagged
        for before, tag in pairwise(("O", *tags))
    )
