"""What stands beneath a study's tables: what was scored, ties, and what does not compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report.tables import ties
from lingraft.report.variants import STREAM
from lingraft.study.metrics import BITS, KEPT, METRICS, PERPLEXITY, UNKNOWN, metric_named
from lingraft.study.words import word_sets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.study.results import Group

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
