import json
import re

import pytest
from outlines import outline

from lingraft.errors import DataError
from lingraft.report import card
from lingraft.report.pages import run as run_page
from lingraft.rundir import Run, write_json

EVIL = "<script>alert(1)</script>"


def written(runs, tmp_path, **options):
    return run_page.write(runs, tmp_path / "report.html", **options).read_text(encoding="utf-8")


def test_the_page_asks_for_nothing_from_outside(build, tmp_path):
    text = written([build().whole().run], tmp_path)
    found = outline(text)
    inside = ("#", "data:text/csv;")
    assert all(reference.startswith(inside) for reference in found.references)
    assert not re.search(r"url\((?!#)|@import|https?://", text)
    assert not found.tags & {"script", "link", "iframe", "img", "object"}


def test_what_comes_from_files_is_escaped_everywhere(build, tmp_path):
    builder = build().whole()
    builder.corpus(
        sources=[{"name": EVIL, "bytes": 1, "documents": 1}], dropped={EVIL: 3}, language=EVIL
    )
    graft = builder.run.stage("graft")
    result = {**graft.result(), "notes": [EVIL]}
    graft.finish("0", result, 1.0)
    environment = {"command": EVIL, "cpu": EVIL}
    (builder.run.path / "environment.json").write_text(json.dumps(environment), encoding="utf-8")
    text = written([builder.run], tmp_path)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5


def test_ids_are_unique_and_headings_go_down_one_level_at_a_time(build, tmp_path):
    found = outline(written([build().whole().run], tmp_path))
    assert len(found.ids) == len(set(found.ids))
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    steps = zip(found.headings, found.headings[1:], strict=False)
    assert all(after - before <= 1 for before, after in steps)


def test_the_page_is_the_same_byte_for_byte_when_written_again(build, tmp_path):
    run = build().whole().run
    assert written([run], tmp_path) == written([run], tmp_path)


def test_the_page_is_small(build, tmp_path):
    assert len(written([build().whole().run], tmp_path).encode()) < 300_000


def test_the_verdict_and_the_numbers_stand_on_the_page(build, tmp_path):
    text = written([build().whole().run], tmp_path).replace("\u00a0", " ")
    assert "XPT reaches perplexity 46.4, scratch 164.6 with the same 0.88 M tokens" in text
    assert '<span class="best">46.4<span class="hidden"> (best)</span></span>' in text
    assert "lingraft adapt demo/recipe.toml" in text
    assert "vocab_size = 4000" in text


def test_masked_tokens_are_marked_and_right_guesses_of_each_model_shown(build, tmp_path):
    text = written([build().whole().run], tmp_path).replace("\u00a0", " ")
    assert "문서를 <mark>저장<sup>1</sup></mark>하려면 파일" in text
    row = next(part for part in text.split("<tr>") if "<bdi>▁저장</bdi><sup>1</sup>" in part)
    own, scratch = re.findall(r"<td.*?</td>", row)
    cell = '<td class="long" lang="ko"><span class="guess right">'
    # set apart: behind an Arabic letter a number would move to its left
    assert own.startswith(f"{cell}<bdi>▁저장</bdi> <small>41 %")
    assert scratch.index("▁저장") > scratch.index("▁문서")
    assert "&lt;s&gt;" not in text.partition('id="samples"')[2].partition('id="corpus"')[0]


def test_a_model_with_other_masks_has_no_column_among_the_samples(build, tmp_path):
    builder = build().whole()
    builder.model("baselines/scratch", perplexity=164.6, scratch=True, masks="bbbb")
    text = written([builder.run], tmp_path).partition('id="samples"')[2].partition("</section>")[0]
    assert '<th scope="col">XPT</th>' in text
    assert '<th scope="col">scratch</th>' not in text


@pytest.mark.parametrize("stages", [(), ("corpus",), ("corpus", "tokenizer")])
def test_a_run_in_progress_gives_a_page_that_says_what_is_missing(build, tmp_path, stages):
    builder = build()
    for stage in stages:
        getattr(builder, stage)()
    text = written([builder.run], tmp_path)
    outline(text)
    assert "No verdict yet: XPT has not been evaluated." in text
    missing = {"corpus", "tokenizer", "graft"} - set(stages)
    for stage in ("corpus", "tokenizer", "graft"):
        assert (f"Not there yet: the {stage} stage has not ended." in text) == (stage in missing)


def test_a_phase_under_way_shows_how_far_it_is(build, tmp_path):
    builder = build().whole()
    (builder.run.path / "phase-2" / "done.json").unlink()
    (builder.run.path / "evaluation" / "done.json").unlink()
    text = written([builder.run], tmp_path)
    assert "under way" in text
    assert '<th scope="row">phase-2</th><td>not there yet</td>' in text


def test_a_run_without_its_environment_still_has_a_page(build, tmp_path):
    builder = build().whole()
    (builder.run.path / "environment.json").unlink()
    assert "environment.json is missing" in written([builder.run], tmp_path)


def test_several_runs_are_compared_with_what_differs_between_their_recipes(build, tmp_path):
    first, second = build("one").whole(), build("two", seed=3).whole(perplexity=40.0)
    text = written([first.run, second.run], tmp_path)
    assert "2 runs compared: one, two" in text
    assert "one: XPT" in text
    assert "two: scratch" in text
    assert '<th scope="row">seed</th><td class="long">0</td><td class="long">3</td>' in text
    assert '<th scope="row">language</th>' not in text
    assert '<span class="best">40.0' in text


def test_local_folders_of_the_source_do_not_show_in_the_heading(build, tmp_path):
    text = written([build().whole().run], tmp_path)
    assert "<h1>demo-ko: english-small → ko</h1>" in text


def test_no_run_and_a_folder_that_is_none_are_refused(tmp_path):
    with pytest.raises(DataError, match="no run given"):
        run_page.write([], tmp_path / "report.html")
    with pytest.raises(DataError, match="not a run"):
        run_page.write([Run(tmp_path)], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_what_is_noticed_of_the_text_stands_on_the_page(build, tmp_path):
    builder = build().whole().corpus(notices=["77% of the lines begin with a number"])
    assert "77% of the lines begin" in written([builder.run], tmp_path)


def test_sentences_outside_the_subset_are_counted_among_those_left_out(build, tmp_path):
    builder = build().whole().corpus(subset={"not in the subset": 5_000})
    text = written([builder.run], tmp_path)
    assert '<th scope="row">not in the subset</th><td>5,000</td>' in text


def test_a_model_of_which_nothing_was_trained_is_not_said_to_lack_its_log(build, tmp_path):
    builder = build(baselines=[], phases=[]).corpus().tokenizer().model()
    (builder.run.path / "metrics.jsonl").unlink()
    text = written([builder.run], tmp_path)
    assert "Nothing was trained" in text
    assert "nothing has been logged" not in text
    assert "Nothing was trained." in card.model_card(builder.run)


def test_a_page_without_samples_names_the_setting_that_leaves_them_out(build, tmp_path):
    builder = build(evaluation={"samples": 0}).whole()
    stage = builder.run.stage("evaluation")
    done = stage.done()
    done["result"]["samples"] = []
    write_json(stage.done_path, done)
    assert "asks for no samples (evaluation.samples = 0)" in written([builder.run], tmp_path)
