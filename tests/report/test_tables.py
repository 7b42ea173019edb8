import io
import json
import math

import pytest
from rich.console import Console

from lingraft.evaluation.records import WordRecord, key, text_of
from lingraft.report import numbers, tables
from lingraft.report.table import terminal
from lingraft.report.tables import compare
from lingraft.report.variants import labelled
from lingraft.report.verdict import verdict
from lingraft.rundir import write_json


def test_the_best_of_each_column_is_marked(build):
    found = compare(labelled([build().whole().run]))
    assert found.lines[0].best == frozenset(tables.METRICS)
    assert found.lines[1].best == frozenset()


def test_marks_go_to_the_baseline_where_it_is_better(build):
    found = compare(labelled([build().whole(perplexity=200.0, scratch=100.0).run]))
    assert found.lines[0].best == frozenset()
    assert found.lines[1].best == frozenset(tables.METRICS)


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
