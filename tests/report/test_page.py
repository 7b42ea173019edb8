"""The page of runs: a snapshot of each kind, and what must hold of every page."""

import re

import pytest
from outlines import outline
from snapshots import check_page

from lingraft.report.page import Folded, Heading, Text, page, section
from lingraft.report.pages import run as run_page
from lingraft.report.table import Cell, Column, row, table
from lingraft.report.variants import labelled
from lingraft.rundir import write_json

EVIL = "<script>alert(1)</script>"


def written(runs, tmp_path):
    out = run_page.write(labelled(runs), tmp_path / "report.html")
    return out.read_text(encoding="utf-8").replace(str(tmp_path), "TMP")


def shown(*parts):
    return page("t", "v", parts, made_from="files")


def test_the_page_of_a_run_with_a_baseline(build, tmp_path):
    text = written([build().whole().run], tmp_path)
    check_page("run", text)
    assert written([build().run], tmp_path) == text
    assert len(text.encode()) < 150_000
    cells = re.findall(r'<span class="guess right"><bdi>(.*?)</bdi>', text)
    assert cells[:2] == ["▁저장", "▁저장"]  # of both models
    assert "문서를 <mark>저장<sup>1</sup></mark>하려면" in text


def test_the_page_of_several_runs(build, tmp_path):
    first, second = build("one").whole(), build("two", seed=3).whole(perplexity=40.0)
    second.model("baselines/scratch", perplexity=164.6, scratch=True, masks="bbbb")
    check_page("several-runs", written([first.run, second.run], tmp_path))


@pytest.mark.parametrize("stages", [(), ("corpus",), ("corpus", "tokenizer")])
def test_a_run_in_progress_gives_a_page_that_says_what_is_missing(build, tmp_path, stages):
    builder = build()
    for stage in stages:
        getattr(builder, stage)()
    (builder.run.path / "environment.json").unlink()
    text = written([builder.run], tmp_path)
    outline(text)
    assert "No verdict yet: XPT has not been evaluated." in text
    missing = {"corpus", "tokenizer", "graft"} - set(stages)
    for stage in ("corpus", "tokenizer", "graft"):
        assert (f"Not there yet: the {stage} stage has not ended." in text) == (stage in missing)


def test_a_phase_under_way_a_run_without_phases_and_one_without_samples(build, tmp_path):
    builder = build(evaluation={"samples": 0}).whole()
    (builder.run.path / "phase-2" / "done.json").unlink()
    stage = builder.run.stage("evaluation")
    done = stage.done()
    done["result"]["samples"] = []
    write_json(stage.done_path, done)
    text = written([builder.run], tmp_path)
    assert "under way" in text
    assert "asks for no samples (evaluation.samples = 0)" in text
    builder = build("plain", baselines=[], phases=[]).corpus().tokenizer().model()
    builder.run.metrics_path.unlink()
    assert "Nothing was trained" in written([builder.run], tmp_path)


def test_what_comes_from_files_is_escaped_everywhere(build, tmp_path):
    builder = build().whole().corpus(
        sources=[{"name": f"{EVIL}.txt", "bytes": 1, "documents": 1}], dropped={EVIL: 3},
        language=EVIL, notices=[EVIL], subset={EVIL: 2},
    )  # fmt: skip
    graft = builder.run.stage("graft")
    graft.finish("0", {**graft.result(), "notes": [EVIL]}, 1.0)
    write_json(builder.run.path / "environment.json", {"command": EVIL, "cpu": EVIL})
    text = written([builder.run], tmp_path)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 6


def test_a_table_says_its_marks_to_those_who_do_not_see_them_and_the_language_of_its_text():
    columns = ("model", Column("nsmc", under="accuracy"), Column("", "bar"))
    cells = (EVIL, Cell("90.1", "± 0.1", 1, "*"), Cell("", width=40.0))
    made = table(
        EVIL, (*columns, Column("b", "long", lang="ko")), [row(*cells, "가")], ["p < 0.05."]
    )
    text = shown(made)
    assert '<span class="best">90.1<span class="hidden"> (best)</span></span>*' in text
    assert '<small class="under">± 0.1</small>' in text
    assert '<td class="bar"><span style="width:40.0%"></span></td>' in text
    assert '<td class="long" lang="ko">가</td>' in text
    assert '<p class="note">p &lt; 0.05.</p>' in text
    assert "<script>" not in text


def test_a_section_without_parts_is_none_and_parts_fold():
    assert section("a", None, table("t", ("a",), [])) == []
    assert section("a", Text("b"), level=3) == [Heading("a", 3), Text("b")]
    text = shown(Folded("more", [Text(EVIL, "code"), Heading("deep", 3)]))
    assert "<summary>more</summary>" in text
    assert "<pre>&lt;script&gt;" in text
