import io
import json
import math
from dataclasses import replace

import pytest
from rich.console import Console

from lingraft.evaluation.records import WordRecord, key, text_of
from lingraft.report import numbers, tables
from lingraft.report.pages import sections
from lingraft.report.table import terminal
from lingraft.report.tables import Comparison, Line, compare
from lingraft.report.variants import labelled
from lingraft.report.verdict import verdict
from lingraft.rundir import write_json

UNIGRAMS = 411.6


def line(name, perplexity, tokens=880_000, fingerprint="aaaa"):
    metrics = {} if perplexity is None else {"perplexity": perplexity}
    return Line(name, name, 6_000_000, tokens, 100.0, metrics, fingerprint, UNIGRAMS)


def said(*lines, comparable=True):
    sentence = verdict(Comparison(lines, (), comparable, ()))
    return sentence.replace(numbers.NO_BREAK, " ")


def test_the_verdict_says_how_many_times_lower():
    assert said(line("XPT", 46.4), line("scratch", 164.6)) == (
        "XPT reaches perplexity 46.4, scratch 164.6 with the same 0.88 M tokens: 3.5 times lower."
    )


def test_the_verdict_is_honest_where_scratch_wins():
    assert said(line("XPT", 90.0), line("scratch", 60.0)) == (
        "XPT reaches perplexity 90.0, scratch 60.0 with the same 0.88 M tokens: 1.50 times higher, "
        "so scratch is the better model here."
    )


def test_the_verdict_names_both_budgets_where_they_differ():
    assert "with 0.88 M and 1.2 M tokens" in said(line("XPT", 46.4), line("scratch", 60, 1_200_000))


def test_the_verdict_gives_small_differences_in_per_cent():
    assert "164.6 with the same 0.88 M tokens: 5 % lower." in said(
        line("XPT", 156.4), line("scratch", 164.6)
    )


def test_the_verdict_calls_a_difference_below_one_per_cent_none():
    assert "no difference worth the name" in said(line("XPT", 100.0), line("scratch", 100.4))


def test_the_verdict_says_when_models_are_no_better_than_unigrams():
    sentence = said(line("XPT", 405.0), line("scratch", 420.0))
    assert (
        "But XPT is hardly better than and scratch is worse than guessing by token frequency alone"
        in sentence
    )
    assert "(perplexity 411.6)" in sentence


def test_the_verdict_says_once_what_holds_for_both_models():
    assert "But XPT and scratch are worse than guessing" in said(
        line("XPT", 420.0), line("scratch", 430.0)
    )


def test_the_verdict_names_only_the_model_that_has_learnt_nothing():
    sentence = said(line("XPT", 46.4), line("scratch", 420.0))
    assert "But scratch is worse than guessing" in sentence


def test_the_verdict_without_a_baseline_compares_with_unigrams():
    assert said(line("XPT", 46.4)) == (
        "XPT reaches perplexity 46.4 after 0.88 M tokens; guessing by token frequency alone "
        "gives 411.6, which is 2.2 nats a token worse."
    )


@pytest.mark.parametrize(
    ("perplexity", "words"),
    [(1_722.0, "worse than"), (411.7, "worse than"), (335.0, "hardly better than")],
)
def test_the_verdict_says_plainly_that_a_model_has_learnt_next_to_nothing(perplexity, words):
    assert f"; that is {words} guessing by token frequency alone (411.6)." in said(
        line("XPT", perplexity)
    )


def test_the_verdict_names_every_text_and_where_the_model_is_no_better_than_guessing():
    texts = {"en": (211.9, 793.4), "de": (5_897.0, 733.0), "ko": (7_927.0, 1_080.0), "sw": (9, 99)}
    streams = [replace(line(name, own), unigram_perplexity=u) for name, (own, u) in texts.items()]
    streams[-1] = replace(streams[-1], targets=9)
    found = replace(line("MetaXLM", 211.9), unigram_perplexity=793.4, streams=tuple(streams))
    assert not found.learnt
    assert "MetaXLM reaches perplexity 211.9 on en" in said(found)
    assert said(found).endswith(
        "en 211.9 (793.4), de 5,897 (733.0), ko 7,927 (1,080), sw 9.00 (99.0); "
        "worse than guessing: de, ko; too little test text to tell: sw."
    )
    few = replace(found, streams=(streams[0], streams[-1]))
    assert few.learnt


def test_a_model_of_mostly_unknown_tokens_is_no_success():
    found = replace(line("XPT", 3.16), unknown=0.84)
    assert not found.learnt
    assert "84 % of the tokens are unknown" in said(found)
    assert replace(found, unknown=0.04).learnt


def test_nothing_is_said_of_a_model_on_next_to_no_test_text():
    found = replace(line("XPT", 46.4), targets=9)
    assert not found.learnt
    assert said(found).startswith("Nothing is known of XPT: its test text has 9 tokens")
    assert replace(found, targets=300).learnt
    failed = replace(line("XPT", math.inf), targets=9)
    assert "training failed" in said(failed)


def test_the_verdict_takes_the_best_of_several_rivals():
    sentence = said(line("XPT", 46.4), line("scratch", 164.6), line("XPT-SP", 58.0))
    assert "XPT-SP (the best of 2 others) 58.0" in sentence


def test_there_is_no_verdict_before_the_evaluation():
    assert said(line("XPT", None), line("scratch", 164.6)) == (
        "No verdict yet: XPT has not been evaluated."
    )


def test_the_verdict_says_that_training_failed_where_perplexity_is_not_finite():
    assert "training failed" in said(line("XPT", float("inf")), line("scratch", 164.6))


def test_the_verdict_compares_nothing_where_the_masks_differ():
    sentence = said(line("XPT", 46.4), line("scratch", 164.6, fingerprint="b"), comparable=False)
    assert "times" not in sentence
    assert "evaluated on different tokens: perplexities do not compare" in sentence


def in_bits(*bits, by_bits=True):
    """What is said of models with a vocabulary each."""
    lines = [
        replace(one, metrics=one.metrics | {"bits_per_character": value})
        for one, value in zip(
            (line("XPT", 46.4), line("lapt", 20.0, fingerprint="b"), line("ja", 9.0)),
            bits,
            strict=False,
        )
    ]
    sentence = verdict(Comparison(tuple(lines), (), False, (), by_bits))
    return sentence.replace(numbers.NO_BREAK, " ").partition(" do not compare.")[2]


def test_the_verdict_goes_by_bits_per_character_where_the_masks_differ_and_the_words_do_not():
    assert in_bits(2.0, 2.5) == (
        " In bits per character, which do, XPT reaches 2.00, lapt 2.50 with the same 0.88 M "
        "tokens: 20.0 % lower."
    )
    assert in_bits(2.0, 2.5, 1.6).endswith(
        "ja (the best of 2 others) 1.60 with the same 0.88 M tokens: 25.0 % higher, so ja is the "
        "better model here."
    )
    assert in_bits(2.0, 2.0).endswith("tokens: the same.")
    assert (
        in_bits(2.0, math.nan) == in_bits(math.nan, 2.0) == in_bits(2.0, 2.5, by_bits=False) == ""
    )


def test_the_best_of_each_column_is_marked(build):
    found = compare(labelled([build().whole().run]))
    assert found.lines[0].best == frozenset(tables.METRICS)
    assert found.lines[1].best == frozenset()


def test_marks_go_to_the_baseline_where_it_is_better(build):
    found = compare(labelled([build().whole(perplexity=200.0, scratch=100.0).run]))
    assert found.lines[0].best == frozenset()
    assert found.lines[1].best == frozenset(tables.METRICS)


def test_equal_values_are_both_best(build):
    found = compare(labelled([build().whole(perplexity=100.0, scratch=100.0).run]))
    assert [one.best for one in found.lines] == [frozenset(tables.METRICS)] * 2


def test_a_single_model_is_not_called_best(build):
    found = compare(labelled([build(baselines=[]).corpus().tokenizer().model().run]))
    assert found.lines[0].best == frozenset()


def test_no_best_is_marked_where_the_masks_differ_and_a_note_says_so(build):
    builder = build().whole()
    builder.model("baselines/scratch", perplexity=164.6, scratch=True, masks="bbbb")
    found = compare(labelled([builder.run]))
    assert not found.comparable
    assert all(one.best == frozenset() for one in found.lines)
    assert "2 different sets of tokens" in found.notes[1]


def test_the_unigram_reference_is_one_line_for_each_test_text(build):
    first = build("a").whole().run
    second = build("b", baselines=[]).corpus().tokenizer().model(entropy=5.0, masks="bbbb").run
    assert [one.name for one in compare(labelled([first])).unigrams] == ["unigrams"]
    both = compare(labelled([first, second])).unigrams
    assert [one.name for one in both] == ["unigrams (a: XPT)", "unigrams (b: XPT)"]
    assert [one.perplexity for one in both] == pytest.approx([411.58, 148.41], rel=1e-4)


def test_a_source_that_keeps_its_vocabulary_stands_beneath_as_it_is(build):
    run = build().whole().run
    path = run.path / "evaluation/done.json"
    done = json.loads(path.read_text())
    done["result"]["source"] = {"metrics": {"mask-only": {"perplexity": 99.5}}}
    write_json(path, done)
    shown = tables.table_of(compare(labelled([run])))
    assert shown.column("PPL")["source as it is"].text == "99.5"


def test_models_not_yet_evaluated_are_named(build):
    builder = build().corpus().tokenizer().model()
    assert compare(labelled([builder.run])).notes == (
        "scratch is not evaluated yet.",
        "Bits per character are over 2,000 words.",
    )


def test_the_terminal_table_marks_the_best_with_an_asterisk(build):
    console = Console(width=140, file=io.StringIO(), record=True)
    console.print(terminal(tables.for_terminal(compare(labelled([build().whole().run])), 140), 140))
    text = console.export_text()
    assert "46.4*" in text
    assert "164.6*" not in text
    assert "unigrams" in text


def test_a_narrow_terminal_gets_the_columns_that_fit_it(build):
    found = compare(labelled([build().whole().run]))
    wide, narrow = tables.for_terminal(found, 140), tables.for_terminal(found, 80)
    assert [column.title for column in narrow.columns][1:] == [
        "PPL", "hits@1", "MRR", "bits/char", "tokens", "time",
    ]  # fmt: skip
    assert len(wide.columns) == 11
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal(narrow, 80))
    assert "…" not in console.export_text()


def write_words(run, folder, nats):
    """A words.tsv of one word a value; None is a word that the model dropped."""
    records = [
        WordRecord(key(f"sentence {n}", 0, 4), 4, int(value is not None), 0, value or 0.0)
        for n, value in enumerate(nats)
    ]
    path = run.path / folder / "evaluation" / "words.tsv"
    path.write_text(text_of(records), encoding="utf-8")


def bits(nats):
    return pytest.approx(nats / math.log(2) / 4)


def test_a_word_that_one_model_drops_is_dropped_for_all_and_a_note_says_so(build):
    run = build().whole().run
    write_words(run, "", [2.0, 4.0, 6.0])
    write_words(run, "baselines/scratch", [3.0, None, 5.0])
    found = compare(labelled([run]))
    assert [one.metrics["bits_per_character"] for one in found.lines] == [bits(4.0), bits(4.0)]
    assert "over the 2 words that every model can score" in found.notes[0]
    assert f"33.3{numbers.NO_BREAK}%" in found.notes[0]


def test_bits_per_character_compare_where_the_masks_differ_but_the_words_do_not(build):
    builder = build().whole()
    builder.model("baselines/scratch", perplexity=164.6, scratch=True, masks="bbbb")
    write_words(builder.run, "", [2.0, 4.0])
    write_words(builder.run, "baselines/scratch", [3.0, 5.0])
    found = compare(labelled([builder.run]))
    assert [one.best for one in found.lines] == [frozenset({"bits_per_character"}), frozenset()]
    assert "No best is marked but for bits per character" in found.notes[1]
    assert "In bits per character, which do, XPT reaches" in verdict(found)


def test_bits_that_were_not_measured_are_not_said_to_compare(build):
    builder = build().whole()
    builder.model("baselines/scratch", perplexity=164.6, scratch=True, masks="bbbb")
    for folder in ("", "baselines/scratch"):
        write_words(builder.run, folder, [])
        changed(builder.run, folder, lambda of: of["words"].update(bits_per_character=None))
    found = compare(labelled([builder.run]))
    assert not found.by_bits
    assert not any("but for bits per character" in note for note in found.notes)


def test_models_asked_for_other_words_keep_their_own_bits_per_character(build):
    run = build().whole().run
    before = [one.metrics for one in compare(labelled([run])).lines]
    write_words(run, "", [2.0, 4.0])
    write_words(run, "baselines/scratch", [3.0, 5.0, 6.0])
    assert [one.metrics for one in compare(labelled([run])).lines] == before


def changed(run, folder, change):
    """Edit the result of an evaluation."""
    path = run.path / folder / "evaluation" / "done.json"
    done = json.loads(path.read_text(encoding="utf-8"))
    change(done["result"])
    path.write_text(json.dumps(done), encoding="utf-8")


def test_models_that_scored_different_words_say_so_and_none_is_best(build):
    run = build().whole().run
    changed(run, "baselines/scratch", lambda of: of["words"].update(words=1_115))
    found = compare(labelled([run]))
    assert found.notes == (
        "Bits per character are over different words and compare only roughly: XPT 2,000, scratch "
        "1,115 words.",
    )
    assert found.lines[0].best == frozenset(tables.METRICS) - {"bits_per_character"}


def test_what_was_left_out_of_a_text_adds_up_for_documents_and_for_sentences():
    corpus = {
        "documents": 20,
        "sentences_in": 50,
        "dropped": {"redirect": 4, "near duplicate": 3, "duplicate": 6, "held out as well": 2},
        "subset": {"not in the subset": 5},
        "splits": {
            "train": {"documents": 9, "sentences": 30},
            "test": {"documents": 2, "sentences": 7},
        },
    }
    for funnel, total in ((sections.document_drops(corpus), 20), (sections.drops(corpus), 50)):
        counts = [int(row.cells[1].text) for row in funnel.rows]
        assert counts[0] == total == sum(counts[1:])


def test_bits_per_character_of_causal_models_compare_on_one_text_whatever_their_tokens(build):
    builder = build().whole()
    builder.model("baselines/scratch", perplexity=164.6, scratch=True, masks="bbbb")
    stages = [builder.run.path / folder / "evaluation" for folder in ("", "baselines/scratch")]
    for stage, bits_per_character, text in zip(stages, (2.5, 3.5), ("one", "one"), strict=True):
        done = json.loads((stage / "done.json").read_text())
        result = done["result"]
        result |= {"metrics": {"next-token": result["metrics"]["mask-only"]}, "text": text}
        result["likelihood"] = {"bits_per_character": bits_per_character}
        del result["words"]
        write_json(stage / "done.json", done)
    found = compare(labelled([builder.run]))
    assert [one.best for one in found.lines] == [frozenset({"bits_per_character"}), frozenset()]
    assert found.notes[0].startswith("No best is marked but for bits per character")
    result["likelihood"]["unknown"] = 3  # tokens, whose text has no bits
    write_json(stages[1] / "done.json", done)
    assert not any(one.best for one in compare(labelled([builder.run])).lines)
    result["likelihood"]["unknown"] = 0
    result["text"] = "another"
    write_json(stages[1] / "done.json", done)
    found = compare(labelled([builder.run]))
    assert not any(one.best for one in found.lines)
    assert found.notes[0].startswith("No best is marked: ")
