"""Words with parts of speech from Universal Dependencies, as XTREME prepares them.

A file is CoNLL-U, or what XTREME or others have made of it: words and tags, or JSONL. In CoNLL-U a
multi-word token (French `du`, of `de` and `le`) stands as one word, since that is what is written:
the node of its span that is nearest to the root lends its part of speech, the others go. In every
form spaces and U+200C inside a word go, and so do sentences with next to no text (`_`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.tasks import words
from lingraft.tasks.reading import Row, blocks, suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.tasks.definition import Definition
    from lingraft.tasks.examples import TaggedExample

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


@dataclass
class Node:
    """A word of a tree."""

    form: str
    upos: str
    heads: tuple[int, ...]
    """Basic and enhanced ones; empty nodes are none."""


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Sentences of a CoNLL-U file (.conllu), of CoNLL with the tag last, or of JSONL.

    Raises:
        DataError: a line is not of the format.
    """
    sentences = (
        _conllu(path, definition)
        if suffix(path) == ".conllu"
        else words.rows(path, definition)
    )  # fmt: skip
    return (row for row in sentences if _has_text(row, definition))


def example(row: Row, definition: Definition) -> TaggedExample:
    """The example of a sentence, without spaces and joiners inside its words.

    Raises:
        DataError: words and tags differ in number, or a tag is none of the task's.
    """
    names = definition.columns.words
    forms = [form.replace(JOINER, "").replace(" ", "") for form in row.strings(names)]
    values = {**row.values, names[0]: forms}
    return words.example(Row(row.where, row.number, values), definition)


def _has_text(row: Row, definition: Definition) -> bool:
    forms = row.strings(definition.columns.words)
    hidden = forms.count(NO_FORM)
    return hidden == 0 or hidden < len(forms) - 1


def _conllu(path: Path, definition: Definition) -> Iterator[Row]:
    columns = definition.columns
    ranks = RANKS.get(definition.language, RANKS[""]).split()

    def gap(line: str) -> bool:
        return not line.strip() or line.startswith("#")

    for number, (_, lines) in enumerate(blocks(path, gap)):
        nodes: dict[int, Node] = {}
        spans: list[tuple[range, str]] = []
        for line_number, line in lines:
            where = Row(f"{path}: line {line_number}", number, {})
            cells = line.split("\t")
            if len(cells) != COLUMNS:
                raise where.error(
                    f"has {len(cells)} columns, CoNLL-U {COLUMNS}; separate them with single tabs"
                )
            _read(cells, where, nodes, spans)
        where = Row(f"{path}: line {lines[0][0]}", number, {})
        tokens = fused(nodes, _checked(spans, nodes, where), ranks)
        values = {
            columns.words[0]: [node.form.strip() for node in tokens],
            columns.tags[0]: [node.upos.strip() for node in tokens],
        }
        yield Row(where.where, number, values)


def _read(
    cells: Sequence[str], where: Row, nodes: dict[int, Node], spans: list[tuple[range, str]]
) -> None:
    """Put a line's word among the nodes or its multi-word token among the spans."""
    place = cells[0]
    if "." in place:  # an empty node
        return
    first, _, last = place.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        raise where.error(f"ID is {place!r}; it must be a number, or two with a hyphen")
    if last:
        spans.append((range(int(first), int(last) + 1), cells[1]))
        return
    heads = [cells[6], *(dep.partition(":")[0] for dep in cells[8].split("|"))]
    numbers = tuple(int(head) for head in heads if head.isdecimal())
    nodes[int(first)] = Node(cells[1], cells[3], numbers)


def _checked(
    spans: list[tuple[range, str]], nodes: Mapping[int, Node], where: Row
) -> list[tuple[range, str]]:
    for span, form in spans:
        if not span or any(place not in nodes for place in span):
            raise where.error(
                f"the multi-word token {form!r} is of the words {span.start}-{span.stop - 1}, "
                "which are not all there"
            )
    return spans


def fused(
    nodes: Mapping[int, Node], spans: Iterable[tuple[range, str]], ranks: Sequence[str]
) -> list[Node]:
    """The words of a sentence as they are written.

    Args:
        nodes: by their number.
        spans: the numbers of the words of each multi-word token, and its form.
        ranks: parts of speech, the first before the others.
    """
    tokens = dict(nodes)
    for span, form in spans:
        depth = {place: len(_ancestors(place, nodes)) for place in span}
        nearest = [place for place in span if depth[place] == min(depth.values())]
        head = min(nearest, key=lambda place: (_rank(nodes[place].upos, ranks), place))
        for place in span:
            tokens.pop(place, None)
        tokens[head] = Node(form, nodes[head].upos, nodes[head].heads)
    return [tokens[place] for place in sorted(tokens)]


def _rank(upos: str, ranks: Sequence[str]) -> int:
    return ranks.index(upos) if upos in ranks else len(ranks)


def _ancestors(place: int, nodes: Mapping[int, Node]) -> set[int]:
    """All nodes above one, the root (0) among them; XTREME counts along enhanced heads too."""
    above: set[int] = set()
    left = list(nodes[place].heads)
    while left:
        head = left.pop()
        if head not in above:
            above.add(head)
            left += nodes[head].heads if head in nodes else ()
    return above - {place}
