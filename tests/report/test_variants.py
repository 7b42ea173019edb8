import json
import math
import shutil

import pytest

from lingraft.errors import DataError
from lingraft.recipe import decoding
from lingraft.report import variants
from lingraft.report.pages import sections
from lingraft.rundir import Run, json_line


def test_a_folder_without_a_recipe_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(
        DataError, match=r"not a run \(recipe.toml is missing\); give a folder"
    ) as caught:
        variants.variants(Run(tmp_path))
    assert "\n" not in str(caught.value)


def test_variants_are_the_run_then_the_recipe_s_baselines_and_no_others_on_disk(build):
    builder = build(baselines=[{"method": "scratch"}, {"method": "adapters"}]).whole()
    (builder.run.path / "baselines" / "monotrans").mkdir()
    assert [found.method for found in variants.variants(builder.run)] == [
        "xpt", "scratch", "adapters",
    ]  # fmt: skip


def test_a_baseline_shares_the_run_s_corpus_and_has_its_own_graft(build):
    builder = build().corpus()
    baseline = variants.variants(builder.run)[1]
    assert baseline.result("corpus") == builder.run.stage("corpus").result()
    assert baseline.result("graft") is None


def test_scores_carry_value_count_and_mask_fingerprint(build):
    main, scratch = variants.variants(build(seed=7).whole().run)
    found = {score.metric: score for score in variants.scores(main)}
    score = found["mask-only/perplexity"]
    assert (score.value, score.n, score.masks) == (46.4, 1_366, "aaaa")
    assert found["bits_per_character"].n == 2_000
    assert found["unigram_perplexity"].value == pytest.approx(math.exp(6.02))
    assert main.tokens == 430 * 2_048
    assert main.seconds == pytest.approx(430 * 2_048 / 8_800)
    assert {score.metric for score in variants.scores(scratch)} == set(found)


def test_runs_whose_folders_share_a_name_are_told_apart_by_their_parents(build, tmp_path):
    run = build().whole().run
    paths = [tmp_path / "seed0/ko", tmp_path / "seed1/ko", tmp_path / "seed0/ja"]
    for path in paths:
        shutil.copytree(run.path, path)
    found = variants.labelled([Run(path) for path in paths])
    mains = [variant for variant in found if not variant.is_baseline]
    assert [variant.label for variant in mains] == ["seed0/ko: XPT", "seed1/ko: XPT", "ja: XPT"]
    assert sections.title(found) == "3 runs compared: seed0/ko, seed1/ko, ja"
    assert [variant.run_name for variant in found[:2]] == ["seed0/ko", "seed0/ko"]


def test_a_run_beside_itself_has_another_label(build):
    run = build(baselines=[]).whole().run
    mains = [one for one in variants.labelled([run, run]) if not one.is_baseline]
    assert [one.label for one in mains] == ["demo-ko: XPT", "demo-ko: XPT (2)"]


def test_a_baseline_that_is_named_beside_its_run_counts_once(build):
    run = build().whole().run
    baseline = Run(run.path / "baselines" / "scratch")
    recipe = decoding.decode(decoding.load(run.recipe_path), where="recipe")
    alone = recipe.model_copy(update={"baselines": ()})
    baseline.recipe_path.write_text(decoding.to_toml(alone), encoding="utf-8")
    first = [one.label for one in variants.labelled([run])]
    assert first == ["XPT", "scratch"]
    assert [one.label for one in variants.labelled([run, baseline])] == first
    turned = variants.labelled([baseline, run])  # the first is the one that the page is of
    assert [one.run.path for one in turned] == [baseline.path, run.path]
    assert [one.run_name for one in turned] == ["scratch", run.path.name]


def test_a_model_of_which_no_word_could_be_scored_has_its_other_scores(build):
    run = build().whole().run
    path = run.stage("evaluation").done_path
    done = json.loads(path.read_text())
    done["result"]["words"] |= {"bits_per_character": None, "exact": None, "words": 0}
    path.write_text(json.dumps(done))
    main, *_ = variants.variants(run)
    found = {score.metric for score in variants.scores(main)}
    assert "mask-only/perplexity" in found
    assert not found & {"bits_per_character", "exact"}


def test_a_model_that_is_not_evaluated_has_no_scores(build):
    assert variants.scores(variants.variants(build().corpus().tokenizer().run)[0]) == []


def test_a_step_that_a_resume_wrote_twice_counts_once_with_its_later_value(build):
    builder = build().whole()
    again = {"kind": "train", "phase": "phase-1", "step": 10, "tokens": 20_480, "loss": 1.25}
    with builder.run.metrics_path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(again) + "\n")
    phase = variants.variants(builder.run)[0].phases[0]
    assert [row["loss"] for row in phase.train if row["step"] == 10] == [1.25]
    assert [row["step"] for row in phase.train] == list(range(10, 171, 10))


def test_tokens_of_a_phase_under_way_are_those_logged_so_far(build):
    builder = build().whole()
    (builder.run.path / "phase-2" / "done.json").unlink()
    main = variants.variants(builder.run)[0]
    assert main.tokens == (170 + 260) * 2_048
    assert main.seconds is None


def test_a_baseline_with_a_recipe_of_its_own_has_its_phases_and_its_folder_s_name(build):
    builder = build()
    path = builder.run.path / "baselines" / "scratch"
    path.mkdir(parents=True)
    recipe = builder.run.recipe_path.read_text(encoding="utf-8").replace("phase-2", "longer")
    (path / "recipe.toml").write_text(recipe, encoding="utf-8")
    baseline = variants.variants(builder.run)[1]
    assert baseline.method == "scratch"
    assert [phase.name for phase in baseline.phases] == ["phase-1", "longer"]


def test_a_term_that_was_no_number_is_read_back_as_none_and_nothing_else_is_touched(build):
    run = build().whole().run
    row = {"phase": "phase-1", "kind": "valid", "step": 170, "tokens": 348_160, "loss": 2.5}
    with run.metrics_path.open("a", encoding="utf-8") as file:
        file.write(json_line(row | {"loss/tlm": math.inf, "mfu": None}))
    read = variants.variants(run)[0].phases[0].valid[-1]
    assert math.isnan(read["loss/tlm"])
    assert (read["loss"], read["mfu"]) == (2.5, None)
