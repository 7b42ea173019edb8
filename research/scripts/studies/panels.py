"""Which lines of a study's figure stand in one panel: those that are alike in what tells most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.report.variants import TITLES
from studies.results import short_names
from studies.small_multiples import MOST, Panel, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from studies.results import Group, Results
    from studies.rows import Value

    Places = dict[str, dict[str, str]]
    """What a label says of each axis, by label and axis."""

METHOD = "method"
CROWDED = MOST + 1
"""Lines of a panel that is split again; one line more than a figure's is better than two panels."""


def of(
    results: Results, indices: Mapping[str, int], values: Mapping[str, str] | None = None
) -> tuple[Panel, ...]:
    """Panels of a figure with a line a label; none where one figure holds them all.

    The lines are split by the axis that leaves no panel crowded, with as few panels as can be, else
    by the one that leaves the smallest largest panel, which is split again. Without such an axis
    the labels stand in order, the reference in every panel.

    Args:
        results: the study's results.
        indices: of the figure's lines, by label.
        values: what stands behind the name of a label.
    """
    if len(indices) <= MOST:
        return ()
    behind = {label: f": {value}" for label, value in (values or {}).items()}
    groups = {group.label: group for group in results.groups if group.label in indices}
    places = _places([groups[label] for label in indices])
    parts = _parts(list(indices), places)
    if len(parts) == 1:
        names = [(label + behind.get(label, ""), index) for label, index in indices.items()]
        reference = results.reference() or ""
        return in_order(names, always=reference + behind.get(reference, ""))
    return tuple(_panel(part, places, indices, behind) for part in parts)


def said(groups: Sequence[Group]) -> dict[str, tuple[str, ...]]:
    """What each group is by method and further axes, by axis as a label calls it.

    Two axes that always change together are said in one, such as inserted_before/after. A
    group without an axis has the empty text.
    """
    names = short_names(list(dict.fromkeys(name for group in groups for name in group.further)))
    together: dict[tuple[str, ...], str] = {}
    for name, short in names.items():
        texts = tuple(_plain(group.further.get(name, "")) for group in groups)
        together[texts] = _joined(together[texts], short) if texts in together else short
    methods = tuple(TITLES.get(group.method, group.method) for group in groups)
    return {METHOD: methods} | {axis: texts for texts, axis in together.items()}


def _joined(name: str, second: str) -> str:
    """Two axes in one: inserted_before/after."""
    start, line, end = second.rpartition("_")
    return f"{name}/{end if line and name.startswith(start + line) else second}"


def _plain(value: Value) -> str:
    """A value; an inline table without its braces and quotes."""
    text = str(value)
    return text.strip("{} ").replace('"', "") if text.startswith("{") else text


def _places(groups: Sequence[Group]) -> Places:
    """What is said of each group, by label; axes that are the same in all are left out."""
    varied = {axis: texts for axis, texts in said(groups).items() if len(set(texts)) > 1}
    return {
        group.label: {axis: texts[at] for axis, texts in varied.items() if texts[at]}
        for at, group in enumerate(groups)
    }


def _parts(labels: list[str], places: Places) -> list[list[str]]:
    parts = [labels]
    while len(largest := max(parts, key=len)) > CROWDED or len(parts) == 1:
        axes = dict.fromkeys(axis for label in largest for axis in places[label])
        splits = [_split(largest, axis, places) for axis in axes]
        useful = [split for split in splits if 1 < len(split) <= MOST and len(split) < len(largest)]
        if not useful:
            break
        at = parts.index(largest)
        # by the lines of the largest panel, all the same that are not too many; then by panels
        best = min(useful, key=lambda split: (max(MOST, *map(len, split)), len(split)))
        parts[at : at + 1] = best
    return parts


def _split(labels: Sequence[str], axis: str, places: Places) -> list[list[str]]:
    parts: dict[str, list[str]] = {}
    for label in labels:
        parts.setdefault(places[label].get(axis, ""), []).append(label)
    return list(parts.values())


def _panel(
    labels: Sequence[str], places: Places, indices: Mapping[str, int], behind: Mapping[str, str]
) -> Panel:
    """What all lines of the panel share is its title; what differs names the lines.

    A line without what others have is named by its method.
    """
    own = [places[label] for label in labels]
    shared = {
        axis: value for axis, value in own[0].items() if all(o.get(axis) == value for o in own)
    }
    names = []
    for label in labels:
        differs = {axis: value for axis, value in places[label].items() if axis not in shared}
        name = in_words(differs) or label.partition(", ")[0]
        names.append((name + behind.get(label, ""), indices[label]))
    return Panel(in_words(shared), tuple(names))


def in_words(place: Mapping[str, str]) -> str:
    """Values of axes as a label says them."""
    return ", ".join(text if axis == METHOD else f"{axis} {text}" for axis, text in place.items())
