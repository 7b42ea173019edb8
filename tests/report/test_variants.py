"""The models of a run, and their scores."""

import json
import math
import shutil

import pytest

from lingraft.errors import DataError
from lingraft.report import variants
from lingraft.report.pages import sections
from lingraft.rundir import Run, json_line


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
