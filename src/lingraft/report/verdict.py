"""Verdict of a comparison of models, in a sentence.

Several languages in one run: how each stream was drawn, and which model is better in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from lingraft.evaluation import records
from lingraft.log import counted
from lingraft.report import numbers
from lingraft.report.table import BEST, Column, TableCell, table
from lingraft.report.tables import BITS, FEWEST_TARGETS, METRICS, MOST_UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.report.table import Table
    from lingraft.report.tables import Comparison, Line
    from lingraft.report.variants import TrainedModel


SAME = 0.01
"""Values or budgets that differ by less than this share are called the same."""


def verdict(compared: Comparison) -> str:
    """Say what the numbers do, good news and bad news alike; of several texts of each."""
    main = compared.lines[0]
    if main.perplexity is None:
        return f"No verdict yet: {main.name} has not been evaluated."
    if main.too_few:
        return (
            f"Nothing is known of {main.name}: its test text has {main.targets:,} tokens to "
            f"predict, and fewer than {FEWEST_TARGETS} say nothing. Hold out more text "
            "(corpus.test), or score more of it (evaluation.max_sentences)."
        )
    if not math.isfinite(main.perplexity):
        return f"{main.name} has no finite perplexity: its training failed."
    return f"{_beside_others(compared)} {_beside_guessing(main)}".rstrip()


def _beside_others(compared: Comparison) -> str:
    """Say how the first model does beside the best other one."""
    main = compared.lines[0]
    metric = "perplexity" if compared.comparable else BITS
    sentence = f"{main.name} reaches perplexity {main.shown('perplexity')}"
    rivals = [line for line in compared.lines[1:] if math.isfinite(_value(line, metric))]
    if not rivals:
        after = f" after {numbers.short(main.tokens)} tokens" if main.tokens else ""
        guessing = numbers.significant(main.unigram_perplexity)
        return f"{sentence}{after}; guessing by token frequency alone gives {guessing}."
    if not compared.comparable:
        sentence += (
            "; the models were evaluated on different tokens, so perplexities do not compare"
        )
        if not compared.by_bits:
            return f"{sentence}."
        sentence += f". In bits per character it reaches {main.shown(metric)}"
    sign = 1 if METRICS[metric].lower else -1
    rival = min(rivals, key=lambda line: (sign * _value(line, metric), line.name))
    several = "" if len(rivals) == 1 else f" (the best of {len(rivals)} others)"
    guessing = "" if rival.ahead else f" ({rival.beside_unigrams} guessing)"
    beside = f"{rival.name}{several} {rival.shown(metric)}{guessing}{_budgets(main, rival)}"
    return f"{sentence}, {beside}: {_ratio(_value(main, metric), rival, metric)}."


def _value(line: Line, metric: str) -> float:
    return line.metrics.get(metric, math.nan)


def _budgets(main: Line, rival: Line) -> str:
    if not (main.tokens and rival.tokens):
        return ""
    if abs(main.tokens - rival.tokens) <= SAME * max(main.tokens, rival.tokens):
        return f" with the same {numbers.short(main.tokens)} tokens"
    return f" with {numbers.short(main.tokens)} and {numbers.short(rival.tokens)} tokens"


def _ratio(own: float, rival: Line, metric: str) -> str:
    ratio = _value(rival, metric) / own
    if not abs(ratio - 1) >= SAME:
        return "no difference worth the name"
    larger = max(ratio, 1 / ratio)
    times = f"{numbers.significant(larger, 2 if larger >= 2 else 3)} times"
    better = "" if ratio > 1 else f", so {rival.name} is the better model here"
    return f"{times} {'lower' if ratio > 1 else 'higher'}{better}"


def _beside_guessing(main: Line) -> str:
    """Say where a model is no better than guessing, text by text, or knows few of the tokens."""
    texts = main.streams or (main,)
    sentences = []
    if main.streams:
        shown = (f"{line.name} {line.shown('perplexity')} "
                 f"({numbers.significant(line.unigram_perplexity)})" for line in texts)  # fmt: skip
        sentences.append(f"Perplexity by text (in brackets: guessing): {', '.join(shown)}.")
    for line in texts:
        if line.too_few:
            sentences.append(f"Too little text of {line.name} to tell.")
        elif not line.ahead:
            sentences.append(
                f"But {line.name} is {line.beside_unigrams} guessing by token frequency alone "
                f"(perplexity {numbers.significant(line.unigram_perplexity)})."
            )
        if line.unknown >= MOST_UNKNOWN:
            share = numbers.percent(line.unknown, 0)
            sentences.append(
                f"But {share} of the tokens of {line.name}'s text are unknown to the vocabulary, "
                "and a low perplexity of the rest is no success."
            )
    return " ".join(sentences)


SOURCE = "the source"


class PairedBits(NamedTuple):
    """Bits per character of two models on the words of a stream that both can score."""

    stream: str
    other: str
    """Label of the second model."""
    paired: records.Paired

    @property
    def outcome(self) -> str:
        """Return 'better', 'worse', 'no different', or 'unknown' without an interval."""
        gap = self.paired.difference
        if gap is None or gap.low is None or gap.high is None:
            return "unknown"
        if gap.low <= 0 <= gap.high:
            return "no different"
        return "better" if gap.high < 0 else "worse"


def paired_bits(tsv: Path, other_tsv: Path) -> records.Paired | None:
    """Compare two words.tsv by a paired bootstrap over blocks of the test text.

    Args:
        tsv: of the model that is judged.
        other_tsv: of the one it is judged against.

    Returns:
        None where a file is not there, they hold other words, or no word is scored by both.

    Raises:
        DataError: a file is broken.
    """
    if not (tsv.is_file() and other_tsv.is_file()):
        return None
    first, second = ({word.word: word for word in records.read(path)} for path in (tsv, other_tsv))
    if first.keys() != second.keys():
        return None
    return records.paired(first.values(), [second[key] for key in first])


def compared_streams(models: Sequence[TrainedModel]) -> list[PairedBits]:
    """Compare the first model with each other one on every stream's words, and with its source.

    With the source on the streams of `evaluation.before`; nothing where there is one text.
    """
    recipe, folder = models[0].recipe, models[0].run.stage("evaluation").path
    files = [
        (stream, model.label, model.run.stage("evaluation").path, records.WORDS_FILE)
        for model in models[1:]
        for stream in recipe.scored
        if recipe.streams
    ]
    files += [
        (stream, SOURCE, folder, records.BEFORE_FILE)
        for stream in recipe.scored
        if stream.name in recipe.evaluation.before
    ]
    pairs = []
    for stream, label, place, name in files:
        own = folder / f"{stream.prefix}{records.WORDS_FILE}"
        found = paired_bits(own, place / f"{stream.prefix}{name}")
        if found is not None:
            pairs.append(PairedBits(stream.name or stream.language, label, found))
    return pairs


def verdict_of_streams(main: str, pairs: Sequence[PairedBits]) -> str:
    """Say in which languages a model is better, a sentence for each that it is compared with."""
    sentences = []
    for label in dict.fromkeys(pair.other for pair in pairs):
        own = [pair for pair in pairs if pair.other == label]
        by_outcome = {
            outcome: [pair.stream for pair in own if pair.outcome == outcome]
            for outcome in ("better", "worse", "no different", "unknown")
        }
        counts = (f"{outcome} in {len(names)} ({', '.join(names)})"
                  for outcome, names in by_outcome.items() if names)  # fmt: skip
        sentences.append(
            f"In bits per character {main} is, beside {label}, of {counted(len(own), 'stream')} "
            f"{', '.join(counts)} (95 % interval of a paired bootstrap over the test text)."
        )
    return " ".join(sentences)


def streams_table(main: str, pairs: Sequence[PairedBits]) -> Table | None:
    """Show the pairs with their intervals; None where there are none."""
    rows = []
    for pair in pairs:
        ours, theirs = pair.paired.bits
        best = {"better": (BEST, 0), "worse": (0, BEST)}.get(pair.outcome, (0, 0))
        gap = pair.paired.difference
        bounds = numbers.between(gap.low, gap.high, 3, sign=True) if gap else numbers.ABSENT
        rows.append(
            (
                pair.stream,
                pair.other,
                numbers.count(pair.paired.words),
                TableCell(numbers.fixed(ours, 3), rank=best[0]),
                TableCell(numbers.fixed(theirs, 3), rank=best[1]),
                numbers.signed(ours - theirs, 3),
                bounds,
            )
        )
    texts = (Column("against", "text"), "words", main, "the other", "difference", "95 % interval")
    return table("Bits per character by stream", ("stream", *texts), rows) if rows else None
