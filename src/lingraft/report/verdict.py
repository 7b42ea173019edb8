"""What a comparison of models says, in a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report.tables import BITS, FEWEST_TARGETS, MOST_UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.tables import Comparison, Line

SAME = 0.01
"""Perplexities or budgets that differ by less than this share are called the same."""


def verdict(compared: Comparison) -> str:
    """Say what the numbers do, good news and bad news alike; of several texts of each."""
    main = compared.lines[0]
    if main.perplexity is None:
        return f"No verdict yet: {main.name} has not been evaluated."
    if main.too_few:
        text = (
            f"Nothing is known of {main.name}: its test text has {main.targets:,} tokens to "
            f"predict, and fewer than {FEWEST_TARGETS} say nothing. Hold out more text "
            "(corpus.test), or score more of it (evaluation.max_sentences)."
        )
    else:
        text = _beside_others(compared)
    return f"{text}{_by_text(main)}{_unknown(main)}"


def _by_text(main: Line) -> str:
    """Name each of several texts, and those on which the model is no better than guessing."""
    if not main.streams:
        return ""
    shown = [
        f"{line.name} {line.shown('perplexity')} ({numbers.significant(line.unigram_perplexity)})"
        for line in main.streams
    ]
    levels: dict[str, list[str]] = {}
    for line in main.streams:
        if line.too_few:
            levels.setdefault("too little test text to tell", []).append(line.name)
        elif not line.ahead:
            levels.setdefault(f"{line.beside_unigrams} guessing", []).append(line.name)
    said = [f"; {level}: {', '.join(names)}" for level, names in levels.items()]
    return (
        " Perplexity by text (in brackets: guessing by token frequency alone): "
        f"{', '.join(shown)}{''.join(said)}."
    )


def _unknown(main: Line) -> str:
    """Say where a good perplexity is of the few tokens that the vocabulary knows."""
    return "".join(
        f" But {numbers.percent(line.unknown, 0)} of the tokens"
        f"{f' of {line.name}' if main.streams else ''} are unknown to the vocabulary, and count in "
        "no perplexity: this is no success."
        for line in main.streams or (main,)
        if line.unknown >= MOST_UNKNOWN
    )


def _beside_others(compared: Comparison) -> str:
    """Compare the model with the others, on the first text."""
    main, rest = compared.lines[0], compared.lines[1:]
    of = f" on {main.streams[0].name}" if main.streams else ""
    reached = f"{main.name} reaches perplexity {main.shown('perplexity')}{of}"
    rivals = [
        line for line in rest if line.perplexity is not None and math.isfinite(line.perplexity)
    ]
    if not math.isfinite(main.perplexity or math.nan):
        return f"{main.name} has no finite perplexity: its training failed."
    if not rivals:
        return f"{reached}{_budget(main)}; {_against_unigrams(main)}."
    if not compared.comparable:
        return (
            f"{reached}{_budget(main)}; {_against_unigrams(main)}. "
            "The models were evaluated on different tokens: perplexities do not compare."
            f"{_in_bits(compared)}"
        )
    rival = min(rivals, key=lambda line: (line.perplexity or math.inf, line.name))
    shown = f"{_named(rival, rivals)} {rival.shown('perplexity')}"
    sentence = f"{reached}, {shown}{_budgets(main, rival)}: {_ratio(main, rival)}."
    unlearnt: dict[str, list[str]] = {}
    for line in (main, rival):
        if not line.ahead:
            unlearnt.setdefault(line.beside_unigrams, []).append(line.name)
    if unlearnt:
        said = [
            f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {level}"
            for level, names in unlearnt.items()
        ]
        sentence += (
            f" But {' and '.join(said)} guessing by token frequency alone "
            f"(perplexity {numbers.significant(main.unigram_perplexity)})."
        )
    return sentence


def _in_bits(compared: Comparison) -> str:
    """Who is better by bits per character, of models whose perplexities do not compare."""
    main, *rest = compared.lines
    rivals = [line for line in rest if math.isfinite(line.metrics.get(BITS, math.nan))]
    own = main.metrics.get(BITS, math.nan)
    if not (compared.by_bits and rivals and math.isfinite(own)):
        return ""
    rival = min(rivals, key=lambda line: (line.metrics[BITS], line.name))
    theirs = rival.metrics[BITS]
    if own == theirs:
        outcome = "the same"
    elif own < theirs:
        outcome = f"{numbers.percent(1 - own / theirs)} lower"
    else:
        share = numbers.percent(own / theirs - 1)
        outcome = f"{share} higher, so {rival.name} is the better model here"
    return (
        f" In bits per character, which do, {main.name} reaches {main.shown(BITS)}, "
        f"{_named(rival, rivals)} {rival.shown(BITS)}{_budgets(main, rival)}: {outcome}."
    )


def _named(rival: Line, rivals: Sequence[Line]) -> str:
    return rival.name if len(rivals) == 1 else f"{rival.name} (the best of {len(rivals)} others)"


def _budget(line: Line) -> str:
    return f" after {numbers.short(line.tokens)} tokens" if line.tokens else ""


def _budgets(main: Line, rival: Line) -> str:
    if not (main.tokens and rival.tokens):
        return ""
    if abs(main.tokens - rival.tokens) <= SAME * max(main.tokens, rival.tokens):
        return f" with the same {numbers.short(main.tokens)} tokens"
    return f" with {numbers.short(main.tokens)} and {numbers.short(rival.tokens)} tokens"


def _ratio(main: Line, rival: Line) -> str:
    ratio = (rival.perplexity or math.nan) / (main.perplexity or math.nan)
    if abs(ratio - 1) < SAME:
        return "no difference worth the name"
    if ratio > 1:
        return _times(ratio, "lower")
    return f"{_times(1 / ratio, 'higher')}, so {rival.name} is the better model here"


def _times(ratio: float, direction: str) -> str:
    if ratio < 1.1:
        share = ratio - 1 if direction == "higher" else 1 - 1 / ratio
        return f"{numbers.percent(share, 0)} {direction}"
    return (
        f"{ratio:.2f} times {direction}"
        if ratio < 2
        else f"{numbers.significant(ratio, 2)} times {direction}"
    )


def _against_unigrams(line: Line) -> str:
    unigrams = numbers.significant(line.unigram_perplexity)
    if line.ahead:
        nats = math.log((line.unigram_perplexity or math.nan) / (line.perplexity or math.nan))
        return (
            f"guessing by token frequency alone gives {unigrams}, "
            f"which is {numbers.fixed(nats, 1)} nats a token worse"
        )
    return f"that is {line.beside_unigrams} guessing by token frequency alone ({unigrams})"
