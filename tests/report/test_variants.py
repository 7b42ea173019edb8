"""The models of a run, and their scores.

The one results file.
"""

from __future__ import annotations

import json
import math
import shutil

import pytest

from lingraft.errors import DataError
from lingraft.files import json_line
from lingraft.report import row, variants
from lingraft.report.pages import sections
from lingraft.report.row import Score
from lingraft.rundir import Run


def test_models_are_the_run_then_the_recipe_s_baselines_and_no_others_on_disk(build, tmp_path):
    builder = build(baselines=[{"method": "scratch"}, {"method": "adapters"}]).whole()
    (builder.run.path / "baselines" / "monotrans").mkdir()
    main, *rest = variants.models_of(builder.run)
    assert [model.method for model in (main, *rest)] == ["xpt", "scratch", "adapters"]
    assert rest[0].result("corpus") == main.result("corpus")
    assert [phase.name for phase in rest[0].phases] == ["phase-1"]
    assert rest[1].result("graft") is None
    with pytest.raises(DataError, match=r"holds no run \(no recipe.toml\)"):
        variants.models_of(Run(tmp_path))


def test_scores_carry_value_count_and_mask_fingerprint(build):
    main, scratch = variants.models_of(build(seed=7).whole().run)
    found = {score.metric: score for score in variants.scores(main)}
    score = found["mask-only/perplexity"]
    assert (score.value, score.n, score.masks) == (46.4, 1_366, "aaaa")
    assert found["bits_per_character"].n == 2_000
    assert found["unigram_perplexity"].value == pytest.approx(math.exp(6.02))
    assert main.tokens == 430 * 2_048
    assert main.seconds == pytest.approx(430 * 2_048 / 8_800)
    assert {score.metric for score in variants.scores(scratch)} == set(found)


def test_runs_whose_folders_share_a_name_are_told_apart(build, tmp_path):
    run = build(baselines=[]).whole().run
    paths = [tmp_path / "seed0/ko", tmp_path / "seed1/ko"]
    for path in paths:
        shutil.copytree(run.path, path)
    found = variants.labelled([Run(path) for path in (*paths, paths[1])])
    labels = ["seed0/ko: XPT", "seed1/ko: XPT", "seed1/ko: XPT (again)"]
    assert [model.label for model in found] == labels
    assert sections.title(found[:2]) == "2 runs compared: seed0/ko, seed1/ko"


def test_rows_of_metrics_are_by_step_the_later_one_counts_and_null_is_nan(build):
    builder = build().whole()
    again = {"kind": "train", "phase": "phase-1", "step": 10, "tokens": 20_480, "loss": 1.25}
    look = {"phase": "phase-1", "kind": "valid", "step": 170, "tokens": 348_160, "loss": 2.5}
    with builder.run.metrics_path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(again) + "\n" + json_line(look | {"loss/tlm": math.inf, "mfu": None}))
    phase = variants.models_of(builder.run)[0].phases[0]
    assert [row["loss"] for row in phase.train if row["step"] == 10] == [1.25]
    assert [row["step"] for row in phase.train] == list(range(10, 171, 10))
    assert math.isnan(phase.valid[-1]["loss/tlm"])
    assert (phase.valid[-1]["loss"], phase.valid[-1]["mfu"]) == (2.5, None)


def score(value: float, metric: str = "loss", inputs: str = "f", **fields: object) -> Score:
    fields |= {"model": "xpt-s0", "metric": metric, "value": value, "inputs": inputs}
    return Score.model_validate(fields)


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    path.parent.mkdir()
    rows = [
        score(1.5, n=3, masks="m", blocks=((1.0, 2.0),), points=((0.0, 9.5),), reported=False),
        score(2.5, "한국어\u2028", axes={"seed": 0, "x": None}, facts={"cpu": "x"}),
        score(math.nan, "bits", words=((math.nan, 4.0), (0.0, 0.0))),
    ]
    row.write(path, rows)
    found = row.read(path)
    assert found[:2] == rows[:2]
    assert b"NaN" not in path.read_bytes()
    assert math.isnan(found[2].value)
    assert math.isnan(found[2].words[0][0])
    assert found[2].words[1] == (0.0, 0.0)


def test_a_later_row_of_one_key_stands_for_the_earlier_and_all_others_stay(tmp_path):
    path = tmp_path / "results.jsonl"
    row.merge(path, [score(1.0), score(2.0, "exact"), score(3.0, inputs="g")])
    row.merge(path, [score(9.0), score(4.0, data="korsts", split="test", seed=1)])
    assert [one.value for one in row.read(path)] == [9.0, 2.0, 3.0, 4.0]


def test_a_line_that_a_kill_cut_is_left_out_and_the_next_rows_take_its_place(tmp_path):
    path = tmp_path / "results.jsonl"
    row.write(path, [score(1.0)])
    before = path.stat().st_size
    row.write(path, [score(1.0), score(2.0, "한국어")])
    data = path.read_bytes()
    for length in range(before + 1, len(data) - 1):
        path.write_bytes(data[:length])
        assert row.read(path) == [score(1.0)]
    row.merge(path, [score(3.0, "exact")])
    assert row.read(path) == [score(1.0), score(3.0, "exact")]
    path.write_bytes(b"")
    assert row.read(path) == []


@pytest.mark.parametrize("line", ["mine", '{"model": "a", "task": "b", "value": 1}'])
def test_a_broken_line_and_a_file_of_before_are_told_by_the_line(tmp_path, line):
    path = tmp_path / "results.jsonl"
    row.write(path, [score(1.0)])
    whole = path.read_text()
    path.write_text(f"{whole}{line}\n{whole}")
    with pytest.raises(DataError, match=r"results\.jsonl, line 2: is no row of results of this"):
        row.merge(path, [score(2.0)])
    assert path.read_text() == f"{whole}{line}\n{whole}"  # nothing is lost
    with pytest.raises(DataError, match="is missing"):
        row.read(tmp_path / "no.jsonl")
