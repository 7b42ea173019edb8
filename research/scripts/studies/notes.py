"""What stands beneath a study's tables: what was scored, ties, and what does not compare.

Bits per character are over the words that all models score: a model drops words with an
unknown token, so models with other vocabularies may score other words. Rows tell of each word;
those of an older lingraft do not, and where their words differ tables say so beside the number.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lingraft.evaluation.records import Array, blocks
from lingraft.report import numbers
from lingraft.report.variants import STREAM
from studies.metrics import BITS, KEPT, METRICS, PERPLEXITY, UNKNOWN, metric_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.evaluation.records import Blocks
    from studies.results import Cell, Group
    from studies.rows import MetricRow

OTHER_MASKS = "†"
OTHER_WORDS = "‡"
TIES = "mask-only/ties"


def is_of_words(metric: str) -> bool:
    """Whether a metric is bits per character of single words, of the whole or of a stream."""
    return metric == BITS or (metric.startswith(STREAM) and metric.split("/", 2)[2] == BITS)


def asked(group: Group, metric: str) -> frozenset[object]:
    """What a metric of a group was measured on: masked tokens, or words; empty where it lacks."""
    if is_of_words(metric):
        return frozenset(word_sets(group.rows(metric).values()))
    record = metric_named(metric)
    if record.by_own:
        known = group.masks() if unknown(group, metric) else ()
        return frozenset((*texts(group, metric), *known))
    return frozenset(group.masks()) if record.by_tokens else frozenset()


def texts(group: Group, metric: str) -> frozenset[str]:
    """The texts or questions that a metric of a causal group was measured on."""
    return frozenset(row.masks for row in group.rows(metric).values())


def unknown(group: Group, metric: str) -> int:
    """Tokens of a metric's text that stand for what the vocabulary lacks; older rows lack it.

    The same is unknown to models with one vocabulary, so these compare with each other alone.
    """
    text = metric.rpartition("/")[0] or "likelihood"
    return round(sum(group.values(f"{text}/{UNKNOWN}")))


def unknown_note(groups: Sequence[Group], main: Group, metric: str) -> tuple[str, ...]:
    """To which causal models some of a metric's text is unknown."""
    labels = [group.label for group in groups if unknown(group, metric)]
    if not labels:
        return ()
    mark = f"{OTHER_WORDS} " if any(not alike(g, main, metric) for g in groups) else ""
    text = metric.split("/")[1] if metric.startswith(KEPT) else "the text"
    names = ", ".join(labels)
    return (f"{mark}Some of {text} is unknown to {names}, whose bits are then too few.",)


def alike(group: Group, main: Group, metric: str) -> bool:
    """Whether a metric of two groups was measured on the same, as far as both tell."""
    ours, theirs = asked(group, metric), asked(main, metric)
    return ours == theirs or (is_of_words(metric) and not (ours and theirs))


def quality_notes(groups: Sequence[Group], main: Group) -> tuple[str, ...]:
    """The notes of a table with metrics of several groups.

    Args:
        groups: of the table.
        main: the one that the others are compared with.
    """
    notes = []
    same = [group for group in groups if group.masks() == main.masks()]
    positions = {row.n for group in same for row in group.rows(PERPLEXITY).values()}
    words = {row.n for group in groups for row in group.rows(BITS).values()}
    writes = any(group.writes for group in groups)
    tokens = "predicted tokens" if writes else "masked tokens"
    sizes = ((positions, tokens), (words, "words"))
    counts = [f"{_range(numbers_of)} {noun}" for numbers_of, noun in sizes if numbers_of]
    if counts:
        notes.append(f"{', '.join(counts)}.{_dropped(groups)}")
    labels = [group.label for group in groups if group.masks() != main.masks()]
    if labels:
        compares = f"of these columns only {METRICS[BITS].title} compares with the others"
        notes.append(
            f"{OTHER_MASKS} {', '.join(labels)}: other {tokens} (another vocabulary); "
            f"{compares if words else 'these columns do not compare'}."
        )
    return (*notes, *words_note(groups, main), *ties_note(groups))


def _range(values: Iterable[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _dropped(groups: Sequence[Group]) -> str:
    """How many of the words that models were asked for are left out for all of them.

    Nothing where each is over its own words, since rows do not tell which all of them score.
    """
    if len({asked(group, BITS) for group in groups if asked(group, BITS)}) > 1:
        return ""
    for group in groups:
        for row in group.rows(BITS).values():
            if row.words and row.n < len(row.words):
                share = numbers.percent(1 - row.n / len(row.words))
                return (
                    f" Left out for all: {share} of the {len(row.words):,} words, which at least "
                    "one model of the study does not score."
                )
    return ""


def words_note(groups: Sequence[Group], main: Group, metric: str = BITS) -> tuple[str, ...]:
    """Whose bits per character are over other words, which their rows do not tell one by one.

    Of other metrics there is nothing to say.
    """
    if not is_of_words(metric):
        return ()
    labels = [
        f"{group.label} ({_scored(group, metric)})"
        for group in groups
        if not alike(group, main, metric)
    ]
    if not labels:
        return ()
    stream = "" if metric == BITS else f" of {metric_named(metric).title}"
    return (
        f"{OTHER_WORDS} {', '.join(labels)}: {METRICS[BITS].title}{stream} over other words than "
        f"those of {main.label} ({_scored(main, metric)}), so it compares only roughly.",
    )


def _scored(group: Group, metric: str) -> str:
    return f"{_range({row.n for row in group.rows(metric).values()})} words"


def ties_note(groups: Sequence[Group]) -> tuple[str, ...]:
    """How often another token had the right one's score, by group."""
    counts = {}
    for group in groups:
        rows = [cell.metrics[TIES] for cell in group.cells if TIES in cell.metrics]
        counts[group.label] = (sum(row.value for row in rows), sum(row.n for row in rows))
    note = ties(counts)
    return (note,) if note else ()


def left_out(group: Group, metric: str, *base: Group) -> str:
    """Why a group has no difference or factor to others in a metric."""
    names = f"{group.label} and {base[0].label}"
    groups, record = (group, *base), metric_named(metric)
    if record.by_own:
        if all(one.rows(metric) for one in groups) and len({texts(g, metric) for g in groups}) > 1:
            return f"{names} were judged on different texts: {record.title} does not compare."
    elif any(group.masks() != reference.masks() for reference in base):
        tokens = "predicted" if group.writes else "masked"
        bits = any(one.rows(BITS) for one in groups)
        compares = f"of these only {METRICS[BITS].title}" if bits else "none of these"
        return (
            f"{names} were asked for different {tokens} tokens (another vocabulary or text): "
            f"{compares} compares."
        )
    return f"{names} lack a metric or a seed that both have."


WordSet = tuple[int, tuple[float, ...]]
"""How many words, and their characters by block."""


def on_common(cells: Sequence[Cell], metric: str) -> list[Cell]:
    """Cells with their bits per character over the words that every cell scores.

    Args:
        cells: of a study.
        metric: what bits per character are called.
    """
    rows = iter(_on_common([cell.metrics[metric] for cell in cells if metric in cell.metrics]))
    return [
        replace(cell, metrics={**cell.metrics, metric: next(rows)})
        if metric in cell.metrics
        else cell
        for cell in cells
    ]


def _on_common(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Rows of bits per character, over the words that every row scores.

    They stay as they are where a row does not tell of its words, where the models were asked for
    other words, and where no word or every word is common.
    """
    words_of_rows = [row.words for row in rows if row.words]
    if len(words_of_rows) < max(len(rows), 2) or len({len(words) for words in words_of_rows}) > 1:
        return list(rows)
    scores_RW2 = np.array(words_of_rows)
    characters_RW = scores_RW2[..., 1]
    scored_RW = characters_RW > 0
    same = bool(((characters_RW == characters_RW.max(0)) | ~scored_RW).all())
    common_W: Array = np.asarray(scored_RW.all(0))
    if not same or not common_W.any() or bool((scored_RW == common_W).all()):
        return list(rows)
    return [
        row.model_copy(
            update={
                "value": float(scores_W2[:, 0].sum() / scores_W2[:, 1].sum()),
                "n": int(common_W.sum()),
                "blocks": _finite(blocks(*scores_W2.T)),
            }
        )
        for row, scores_W2 in zip(rows, scores_RW2 * common_W[:, None], strict=True)
    ]


def _finite(sums: Blocks) -> tuple[tuple[float, ...], ...] | None:
    """Blocks as a row has them: none where one is not finite."""
    return tuple(map(tuple, sums)) if np.isfinite(sums).all() else None


def word_sets(rows: Iterable[MetricRow]) -> frozenset[WordSet]:
    """Which words rows of bits per character are over, as well as they tell.

    A row that is not finite tells nothing: its blocks are not kept.
    """
    return frozenset(
        (row.n, tuple(count for _, count in row.blocks or ()))
        for row in rows
        if math.isfinite(row.value)
    )


def ties(counts: Mapping[str, tuple[float, int]]) -> str:
    """What is said of ties: their number, and that of all positions, by model."""
    tied = [
        f"{name} {round(some):,} of {total:,}" for name, (some, total) in counts.items() if some
    ]
    start = "Ties (another token has the target's score; the middle rank counts)"
    return f"{start}: {'; '.join(tied)}." if tied else ""
