"""The tables of a study of causal models: what compares whatever the vocabulary is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.report.table import BEST, row, table
from lingraft.study.analysis import incomparable
from lingraft.study.entries import mixed_means, named, spread
from lingraft.study.metrics import BYTES, metric_named
from lingraft.study.results import size_text
from lingraft.study.tables import costs, differences, measured, titles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.table import Table
    from lingraft.stats import Resampling
    from lingraft.study.results import Group, Results

SHOWN = (
    BYTES,
    "likelihood/bits_per_character",
    "all/hits@1",
    "new/hits@1",
    "all/median_rank",
    "tokens_per_character",
    "speed/characters_per_second@1",
    "speed/characters_per_second@8",
)
CHOICE_SCORES = ("acc", "acc_norm")


def shown(results: Results) -> tuple[str, ...]:
    """The metrics of causal models that some cell has; none in a study of other models."""
    found = dict.fromkeys(name for cell in results.cells for name in cell.metrics)
    kept = (name for name in found if name.startswith("kept/"))
    asked = (
        name
        for name in found
        if name.startswith("choices/") and name.rpartition("/")[2] in CHOICE_SCORES
    )
    return (*(name for name in SHOWN if name in found), *kept, *asked)


def compared(results: Results) -> tuple[str, ...]:
    """Those that are means over text or questions, so that differences have intervals."""
    return tuple(
        name for name in shown(results) if name == BYTES or name.startswith(("kept/", "choices/"))
    )


def quality(results: Results, sentences: int | None) -> Table | None:
    """Every label at one size, mean ± sample standard deviation over the seeds."""
    metrics = shown(results)
    groups = measured(results.at(sentences), metrics)
    if not groups:
        return None
    best = _best(groups, metrics)
    rows = [
        row(
            named(group),
            *(
                replace(
                    spread(group, metric),
                    rank=BEST if metric in best and group.mean(metric) == best[metric] else 0,
                )
                for metric in metrics
            ),
            *costs(group),
        )
        for group in groups
    ]
    head = ("method", *titles(metrics), "seeds", "tokens", "parameters", "trained")
    notes = (
        "Bits are of every byte of the same held-out documents and compare across vocabularies; "
        "hits and ranks are of each model's own tokens. Characters a second are of the machine "
        "that each cell ran on, with what else ran there.",
        *mixed_means(groups),
    )
    return table(size_text(sentences), head, rows, notes)


def _best(groups: Sequence[Group], metrics: Sequence[str]) -> dict[str, float]:
    """By metric, the best mean among groups that were asked for the same."""
    best = {}
    for metric in metrics:
        rivals = [group for group in groups if group.rows(metric)]
        if len(rivals) > 1 and incomparable(rivals, metric) is None:
            means = [group.mean(metric) or 0.0 for group in rivals]
            best[metric] = min(means) if metric_named(metric).lower else max(means)
    return best


def differences_of(results: Results, sentences: int | None, resampling: Resampling) -> Table | None:
    """`tables.differences` in the metrics of the study's kind of model."""
    metrics = compared(results)
    return differences(results, sentences, resampling, *([metrics] if metrics else []))
