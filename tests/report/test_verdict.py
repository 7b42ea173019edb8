"""What the verdict says of runs, case by case, in tests/snapshots/verdicts.txt."""

import math
from dataclasses import replace

from snapshots import check

from lingraft.report import numbers, streams
from lingraft.report.streams import PairedBits
from lingraft.report.tables import Comparison, Line
from lingraft.report.verdict import verdict


def line(name, perplexity, bits=None, tokens=880_000, unigrams=411.6, **more):
    found = {"perplexity": perplexity, "bits_per_character": bits}
    metrics = {key: value for key, value in found.items() if value is not None}
    return Line(name, name, 6_000_000, tokens, 100.0, metrics, "aaaa", unigrams, **more)


def runs():
    """Cases: what each is of, its models, and how they compare."""
    texts = {"en": (211.9, 793.4), "de": (5_897.0, 733.0), "ko": (7_927.0, 1_080.0)}
    streams = [line(name, own, unigrams=floor) for name, (own, floor) in texts.items()]
    few = line("sw", 9.0, unigrams=99.0, targets=9)
    return {
        "lower": [line("XPT", 46.4), line("scratch", 164.6)],
        "higher": [line("XPT", 90.0), line("scratch", 60.0)],
        "other budgets": [line("XPT", 46.4), line("scratch", 60.0, tokens=1_200_000)],
        "a little lower": [line("XPT", 156.4), line("scratch", 164.6)],
        "the same": [line("XPT", 100.0), line("scratch", 100.4)],
        "neither has learnt": [line("XPT", 405.0), line("scratch", 420.0)],
        "both are worse": [line("XPT", 420.0), line("scratch", 430.0)],
        "one has learnt": [line("XPT", 46.4), line("scratch", 420.0)],
        "several rivals": [line("XPT", 46.4), line("scratch", 164.6), line("XPT-SP", 58.0)],
        "alone": [line("XPT", 46.4)],
        "alone and far worse": [line("XPT", 1_722.0)],
        "alone and hardly better": [line("XPT", 335.0)],
        "not evaluated": [line("XPT", None), line("scratch", 164.6)],
        "failed": [line("XPT", math.inf), line("scratch", 164.6)],
        "many texts": [line("MetaXLM", 211.9, unigrams=793.4, streams=(*streams, few))],
        "unknown tokens": [line("XPT", 3.16, unknown=0.84)],
        "too little text": [line("XPT", 46.4, targets=9)],
        "failed on little text": [line("XPT", math.inf, targets=9)],
    }


def by_bits():
    """The same of models with a vocabulary each."""
    own = line("XPT", 46.4, 2.0)
    return {
        "lower bits": [own, line("lapt", 20.0, 2.5)],
        "higher bits": [own, line("lapt", 20.0, 2.5), line("ja", 9.0, 1.6)],
        "the same bits": [own, line("lapt", 20.0, 2.0)],
        "bits unknown": [own, line("lapt", 20.0, math.nan)],
    }


def of_streams():
    """How two models compare in two languages."""
    better, worse, either, unknown = (-2, -1), (1, 2), (-2, 1), (None, None)
    return {
        "better": (better, better), "better in one": (better, either), "neither": (either, either),
        "unknown in one": (better, unknown), "worse": (worse, worse),
    }  # fmt: skip


def test_verdicts():
    told = {case: verdict(Comparison(tuple(of), (), True, ())) for case, of in runs().items()}
    for case, of in by_bits().items():
        told[case] = verdict(Comparison(tuple(of), (), False, (), True))
    for case, bounds in of_streams().items():
        pairs = [
            PairedBits(stream, "XLM", 9, 2.0, 3.0, *bound)
            for stream, bound in zip(("de", "ko"), bounds, strict=True)
        ]
        told[f"streams, {case}"] = streams.verdict("MetaXLM", pairs)
        told[f"kept, {case}"] = streams.kept_or_lost(pairs)
    lines = (f"{case}: {text}" for case, text in told.items())
    check("verdicts", "\n".join(lines).replace(numbers.NO_BREAK, " "))


def test_what_has_learnt_is_ahead_on_enough_text_with_a_vocabulary_that_knows_it():
    good = line("XPT", 46.4, targets=300)
    assert good.learnt
    few = line("sw", 9.0, targets=9)
    assert replace(good, streams=(good, few)).learnt
    assert not replace(good, targets=9).learnt
    assert not replace(good, unknown=0.84).learnt
    assert replace(good, unknown=0.04).learnt
    assert not replace(good, streams=(good, line("de", 5_897.0))).learnt
    assert not line("XPT", 405.0).learnt
