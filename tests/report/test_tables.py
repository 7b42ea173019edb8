"""Models side by side, and what the verdict says of them (tests/snapshots/verdicts.txt).

What a report says of several streams: who is better where, and by how much.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest
from snapshots import check

from lingraft.evaluation.records import Paired, WordRecord, key, text_of
from lingraft.report import numbers, tables, verdict
from lingraft.report.tables import BITS, Comparison, Line, compare
from lingraft.report.variants import labelled
from lingraft.report.verdict import PairedBits, paired_bits
from lingraft.stats import Difference

MASKED = frozenset(tables.METRICS) - {"bits_per_byte"}


def changed(run, folder, change):
    """Edit the result of an evaluation."""
    path = run.path / folder / "evaluation" / "done.json"
    done = json.loads(path.read_text("utf-8"))
    change(done["result"])
    path.write_text(json.dumps(done), "utf-8")


def with_other_masks(builder):
    builder.model("baselines/scratch", perplexity=164.6, scratch=True, masks="bbbb")
    return builder.run


@pytest.mark.parametrize(("scratch", "best"), [(164.6, 0), (20.0, 1)])
def test_the_best_of_each_column_is_marked(build, scratch, best):
    found = compare(labelled([build().whole(scratch=scratch).run]))
    assert [line.best for line in found.lines][best] == MASKED
    assert [line.best for line in found.lines][1 - best] == frozenset()


def test_a_single_model_is_not_called_best_and_those_not_yet_evaluated_are_named(build):
    found = compare(labelled([build().corpus().tokenizer().model().run]))
    assert found.lines[0].best == frozenset()
    assert found.notes == ("scratch is not evaluated yet.",)


def test_a_source_stands_beneath_as_it_is_with_what_compares(build):
    run = build().whole().run
    scores = {"mask-only": {"perplexity": 99.5}}
    changed(run, "", lambda result: result.update(source={"metrics": scores}))
    shown = tables.table_of(compare(labelled([run])))
    assert shown.column("PPL")["source untouched"].text == "99.5"
    bits = {"bits_per_character": 2.5, "bits_per_byte": 0.9}
    of_text = {"metrics": scores, "masks": {"fingerprint": "other"}, "likelihood": bits}
    change = {"source": None, "untouched": {"streams": {"": of_text}}}
    changed(run, "", lambda result: result.update(change))
    shown = tables.table_of(compare(labelled([run])))
    assert shown.column("PPL")["source untouched"].text == "–"
    assert shown.column("bits/byte")["source untouched"].text == "0.900"


def write_words(run, folder, nats):
    """A words.tsv of one word a value; None is a word that the model dropped."""
    keyed = [(key(f"sentence {n}", 0, 4), value) for n, value in enumerate(nats)]
    records = [WordRecord(one, 4, int(value is not None), 0, value or 0.0) for one, value in keyed]
    (run.path / folder / "evaluation" / "words.tsv").write_text(text_of(records), "utf-8")


def test_a_word_that_one_model_drops_is_dropped_for_all_and_a_note_says_so(build):
    run = build().whole().run
    write_words(run, "", [2.0, 4.0, 6.0])
    write_words(run, "baselines/scratch", [3.0, None, 5.0])
    found = compare(labelled([run]))
    common = pytest.approx(4.0 / math.log(2) / 4)
    assert [one.metrics[BITS] for one in found.lines] == [common, common]
    assert "over the 2 words that every model can score" in found.notes[0]
    write_words(run, "baselines/scratch", [3.0, 5.0, 6.0, 7.0])  # other words
    assert compare(labelled([run])).lines[0].metrics[BITS] != common


def test_bits_per_character_compare_where_the_masks_differ_but_the_words_do_not(build):
    run = with_other_masks(build().whole())
    write_words(run, "", [2.0, 4.0])
    write_words(run, "baselines/scratch", [3.0, 5.0])
    assert [one.best for one in compare(labelled([run])).lines] == [frozenset({BITS}), frozenset()]
    for folder in ("", "baselines/scratch"):
        write_words(run, folder, [])
        changed(run, folder, lambda of: of["words"].update(bits_per_character=None))
    assert not compare(labelled([run])).by_bits


@pytest.mark.parametrize(("text", "unknown", "compares"), [("a", 0, 1), ("a", 3, 0), ("b", 0, 0)])
def test_bits_of_causal_models_compare_on_one_text(build, text, unknown, compares):
    run = with_other_masks(build().whole())

    def make_causal(result, bits, text, unknown):
        result |= {"metrics": {"next-token": result["metrics"]["mask-only"]}, "text": text}
        result["likelihood"] = {"bits_per_character": bits, "unknown": unknown}
        del result["words"]

    changed(run, "", lambda of: make_causal(of, 2.5, "a", 0))
    changed(run, "baselines/scratch", lambda of: make_causal(of, 3.5, text, unknown))
    found = compare(labelled([run]))
    assert [one.best for one in found.lines] == [frozenset([BITS] * compares), frozenset()]


def line(name, perplexity, bits=None, tokens=880_000, unigrams=411.6, **more):
    found = {"perplexity": perplexity, "bits_per_character": bits}
    metrics = {key: value for key, value in found.items() if value is not None}
    return Line(name, name, 6_000_000, tokens, 100.0, metrics, "aaaa", unigrams, **more)


def test_verdicts():
    texts = {"en": (211.9, 793.4), "de": (5_897.0, 733.0)}
    of_texts = [line(name, own, unigrams=floor) for name, (own, floor) in texts.items()]
    few = line("sw", 9.0, unigrams=99.0, targets=9)
    own, rival = line("XPT", 46.4, 2.0), line("scratch", 164.6, 2.5)
    runs = {
        "lower": [own, rival],
        "higher, other budgets": [line("XPT", 90.0), line("scratch", 60.0, tokens=1_200_000)],
        "the same": [line("XPT", 100.0), line("scratch", 100.4)],
        "neither has learnt": [line("XPT", 405.0), line("scratch", 420.0)],
        "several rivals": [own, rival, line("XPT-SP", 58.0)],
        "alone": [own],
        "alone and far worse": [line("XPT", 1_722.0)],
        "not evaluated": [line("XPT", None), rival],
        "failed": [line("XPT", math.inf), rival],
        "many texts": [line("MetaXLM", 211.9, unigrams=793.4, streams=(*of_texts, few))],
        "unknown tokens": [line("XPT", 3.16, unknown=0.84)],
        "too little text": [line("XPT", 46.4, targets=9)],
    }
    told = {case: verdict.verdict(Comparison(tuple(of), (), True, ())) for case, of in runs.items()}
    for bits in (2.0, 1.6, math.nan):
        of = (own, line("lapt", 20.0, bits))
        by_bits = math.isfinite(bits)
        told[f"other tokens, bits {bits}"] = verdict.verdict(Comparison(of, (), False, (), by_bits))
    bounds = {"de": (-2, -1), "ko": (-2, 1), "sw": (None, None), "en": (1, 2)}
    gaps = {name: Difference(1, *of, 0.5, 9, 1, 1, None) for name, of in bounds.items()}
    pairs = [PairedBits(name, "XLM", Paired(9, (2.0, 3.0), gap)) for name, gap in gaps.items()]
    told["streams"] = verdict.verdict_of_streams("MetaXLM", pairs)
    lines = (f"{case}: {text}" for case, text in told.items())
    check("verdicts", "\n".join(lines).replace(numbers.NO_BREAK, " "))


def test_a_model_has_learnt_on_enough_text_with_a_vocabulary_that_knows_it():
    good = line("XPT", 46.4, targets=300)
    few = line("sw", 9.0, targets=9)
    assert good.has_learnt
    assert replace(good, streams=(good, few), unknown=0.04).has_learnt
    assert not replace(good, targets=9).has_learnt
    assert not replace(good, unknown=0.84).has_learnt
    assert not replace(good, streams=(good, line("de", 5_897.0))).has_learnt
    assert not line("XPT", 405.0).has_learnt


def words(path, nats, *, number=200, start=0, dropped=()):
    """A words.tsv: a word in each of many sentences, of four characters and so many nats each."""
    drawn = random.Random(0)
    keys = [f"{drawn.getrandbits(64):016x}:0-4" for _ in range(start + number)][start:]
    tokens = [0 if index in dropped else 2 for index in range(number)]
    found = [WordRecord(one, 4, tokens[n], 1, nats(n)) for n, one in enumerate(keys)]
    path.write_text(text_of(found), "utf-8")
    return path


def test_bits_per_character_are_over_the_words_that_both_can_score(tmp_path):
    ours = words(tmp_path / "a.tsv", lambda index: 4 * math.log(2), dropped={0, 1})
    theirs = words(tmp_path / "b.tsv", lambda index: 8 * math.log(2), dropped={1, 2})
    found = paired_bits(ours, theirs)
    assert found.words == 197
    measured = (*found.bits, found.difference.low, found.difference.high)
    assert measured == pytest.approx((1, 2, -1, -1), rel=1e-5)  # files hold six digits
    assert PairedBits("de", "xlm", found).outcome == "better"


def test_words_of_another_text_are_not_compared_and_a_handful_has_no_interval(tmp_path):
    ours = words(tmp_path / "a.tsv", lambda index: 1.0, number=3)
    theirs = words(tmp_path / "b.tsv", lambda index: 1.0, number=3, start=1)
    assert paired_bits(ours, theirs) is None
    assert paired_bits(ours, tmp_path / "none.tsv") is None
    found = paired_bits(ours, words(tmp_path / "b.tsv", lambda index: 2.0, number=3))
    assert found.bits[0] < found.bits[1]
    assert PairedBits("de", "xlm", found).outcome == "unknown"
