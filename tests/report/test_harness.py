"""Results of lm-evaluation-harness: the JSON that it wrote on the tests' tiny model."""

import json
import math
import shutil
from pathlib import Path

import pytest

from lingraft.errors import DataError
from lingraft.report import harness
from lingraft.report.variants import labelled
from lingraft.rundir import Run

RECORDED = Path(__file__).parents[1] / "evaluation/lm_eval/results.json"


@pytest.fixture
def changed(tmp_path):
    """The recorded results with what differs, in a file."""

    def write(name="results_1.json", folder=".", **changes):
        data = json.loads(RECORDED.read_text()) | changes
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))
        return path

    return write


def test_every_number_is_read_with_version_shots_error_and_count():
    results = {one.metric: one for one in harness.read(RECORDED)}
    assert set(results) == {"acc", "acc_norm", "acc_bytes"}
    one = results["acc_norm"]
    assert (one.task, one.version, one.shots, one.filter) == ("tiny_choices", "1", 0, "none")
    assert one.value == pytest.approx(13 / 30)
    assert one.stderr == pytest.approx(0.0920, abs=1e-4)
    assert (one.n, one.higher, one.model, one.harness) == (30, True, "model", "0.4.13")
    assert len(one.fingerprint) == 64


def test_the_table_shows_the_numbers_as_the_harness_prints_them():
    shown = harness.table_of({"XPT": harness.read(RECORDED)})
    texts = [[cell.whole for cell in row.cells] for row in shown.rows]
    assert texts[1] == ["tiny_choices", "1", "0", "acc_norm ↑", "30", "0.4333 ± 0.0920"]
    assert "lm-evaluation-harness 0.4.13" in shown.notes[0]
    assert harness.table_of({}) is None


def test_models_with_other_documents_do_not_compare(changed):
    ours, theirs = harness.read(RECORDED), harness.read(changed(task_hashes={"tiny_choices": "x"}))
    shown = harness.table_of({"A": ours, "B": theirs})
    assert len(shown.rows) == 3
    assert shown.notes[1:] == (
        "Models had other documents or prompts and do not compare in: tiny_choices.",
    )
    unhashed = harness.read(changed(task_hashes={}))
    assert len(harness.table_of({"A": ours, "B": unhashed}).notes) == 1


def test_models_with_other_versions_or_shots_have_rows_of_their_own(changed):
    ours, theirs = harness.read(RECORDED), harness.read(changed(**{"n-shot": {"tiny_choices": 5}}))
    shown = harness.table_of({"A": ours, "B": theirs})
    assert [row.cells[2].text for row in shown.rows] == ["0"] * 3 + ["5"] * 3
    assert [row.cells[5].text == "–" for row in shown.rows] == [False] * 3 + [True] * 3


def test_of_a_folder_the_newest_number_counts(changed, tmp_path):
    results = {"tiny_choices": {"acc,none": 0.5, "acc_stderr,none": "N/A"}}
    changed("results_2.json", "a", date=2e12, results=results)
    changed("results_1.json", "b")
    found = {one.metric: one for one in harness.read(tmp_path)}
    assert (found["acc"].value, found["acc"].stderr) == (0.5, None)
    assert found["acc_norm"].value == pytest.approx(13 / 30)


def test_odd_values_are_left_out(changed):
    results = {"tiny_choices": {"acc,none": 0.5, "acc_stderr,none": math.nan}}
    odd = harness.read(changed(results=results, higher_is_better={"tiny_choices": {"acc": "yes"}}))
    (row,) = harness.table_of({"A": odd}).rows
    assert [cell.whole for cell in row.cells][3:] == ["acc", "30", "0.5000"]


def test_an_unknown_number_of_documents_is_not_another_one(changed):
    results = {"tiny_choices": {"acc,none": 0.5}}
    uncounted = harness.read(changed(results=results, **{"n-samples": {}}))
    assert [one.n for one in uncounted] == [0]
    assert len(harness.table_of({"A": harness.read(RECORDED), "B": uncounted}).notes) == 1


def test_groups_and_filters_are_named(changed):
    results = {"gsm8k": {"exact_match,strict-match": 0.25, "alias": "gsm8k"}}
    path = changed(results=results, groups={"all": {"acc,none": 0.75}})
    shown = harness.table_of({"A": harness.read(path)})
    first = [[cell.text for cell in row.cells[:4]] for row in shown.rows]
    assert first == [["gsm8k", "–", "–", "exact_match (strict-match)"], ["all", "–", "–", "acc"]]


def test_older_files_name_the_model_in_its_arguments(changed):
    path = changed(model_name=None, config={"model_args": "pretrained=some/model,dtype=float32"})
    assert {one.model for one in harness.read(path)} == {"some/model"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is no JSON"),
        ("[]", "has no 'results'"),
        ('{"results": {"a": [1]}}', "is another form of results"),
    ],
)
def test_what_is_no_results_file_is_one_line(content, problem, tmp_path):
    path = tmp_path / "results_x.json"
    path.write_text(content)
    with pytest.raises(DataError, match=problem):
        harness.read(path)
    with pytest.raises(DataError, match=problem):
        harness.read(tmp_path)


def test_a_missing_file_and_an_empty_folder_are_one_line(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        harness.read(tmp_path / "results.json")
    with pytest.raises(DataError, match="holds no results"):
        harness.read(tmp_path)


def test_a_run_shows_what_lies_in_it_and_what_is_named(adapted, tmp_path, command, changed):
    run = tmp_path / "mine"
    shutil.copytree(adapted("modernbert"), run)
    page = run / "report.html"
    given = changed(model_name=str(run / "model"))
    ended = command("report", run, "--lm-eval", given)
    assert ended.status == 0, ended.err
    assert "0.4333 ± 0.0920" in ended.out
    assert "tiny_choices" in page.read_text()
    assert "tiny_choices" not in command("report", run).out
    assert "tiny_choices" not in page.read_text()
    shutil.copytree(RECORDED.parent, run / harness.FOLDER / "model")
    assert "0.4333 ± 0.0920" in command("report", run).out
    assert "0.4333" in page.read_text()
    (label,) = harness.collect(labelled([Run(run)]), [given])
    assert label == "XPT"


def test_results_from_before_the_model_was_made_anew_say_so(adapted, tmp_path, changed):
    run = tmp_path / "mine"
    shutil.copytree(adapted("modernbert"), run)
    made = (run / "model/done.json").stat().st_mtime
    for date, notes in ((made - 1, 2), (made + 1, 1)):
        changed(folder=run / harness.FOLDER, date=date)
        shown = harness.table_of(harness.collect(labelled([Run(run)])))
        assert len(shown.notes) == notes
        assert ("evaluate it again" in shown.notes[-1]) == (notes == 2)


def test_of_two_runs_of_one_name_the_one_whose_model_it_is_has_the_results(
    adapted, tmp_path, changed
):
    runs = [tmp_path / parent / "ko" for parent in "ab"]
    for run in runs:
        shutil.copytree(adapted("modernbert"), run)
    variants = labelled([Run(run) for run in runs])
    for variant in variants:
        path = changed(model_name=str(variant.run.model_path))
        assert list(harness.collect(variants, [path])) == [variant.label]
    elsewhere = changed(model_name="/other/machine/ko/model")
    assert list(harness.collect(variants, [elsewhere])) == ["/other/machine/ko/model"]
    assert list(harness.collect(variants[:1], [elsewhere])) == [variants[0].label]


def test_results_of_the_source_in_a_runs_folder_are_not_the_runs(adapted, tmp_path, changed):
    run = tmp_path / "mine"
    shutil.copytree(adapted("modernbert"), run)
    folder = run.relative_to(tmp_path) / harness.FOLDER
    changed("results_2.json", folder, model_name=str(run / "model"), date=2e12)
    results = {"tiny_choices": {"acc,none": 0.9}}
    name = "org/source"
    changed("results_1.json", folder / "source", model_name=name, date=1e9, results=results)
    found = harness.collect(labelled([Run(run)]))
    values = {label: {one.metric: one.value for one in own} for label, own in found.items()}
    assert set(values) == {"XPT", name}
    assert (values["XPT"]["acc"], values[name]) == (pytest.approx(1 / 3), {"acc": 0.9})
    assert not any("evaluate it again" in note for note in harness.table_of(found).notes)


def test_results_of_a_model_of_no_run_are_called_as_the_harness_does(adapted):
    found = harness.collect(labelled([Run(adapted("modernbert"))]), [RECORDED])
    assert list(found) == ["model"]
