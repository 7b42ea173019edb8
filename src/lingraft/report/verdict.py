"""Verdict of a comparison of models, in a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report.tables import BITS, FEWEST_TARGETS, METRICS, MOST_UNKNOWN

if TYPE_CHECKING:
    from lingraft.report.tables import Comparison, Line

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
