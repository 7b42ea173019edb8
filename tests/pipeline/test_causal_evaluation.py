"""A causal run is judged beside its untouched source, on the same bytes."""

import dataclasses
import html
import json
import logging
import math
import shutil
import tomllib

import pytest
import tiny_judged
import tomli_w
import torch

from lingraft.commands.adapt import show
from lingraft.evaluation.scorer import Scorer
from lingraft.models.loading import load
from lingraft.pipeline import causal_evaluation
from lingraft.pipeline.causal_evaluation import CausalModel
from lingraft.recipe.methods import read_recipe
from lingraft.report import causal
from lingraft.report.table import BEST
from lingraft.report.variants import labelled, scores
from lingraft.rundir import Run, read_json, write_record
from lingraft.stats import Resampling
from lingraft.study import collect, figures, page
from lingraft.study.analysis import CURVE, LEARNT
from lingraft.study.results import collect as results_of
from lingraft.tokenizer import files as tokenizer_files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    english = "\n\n".join(f"The dog ran {n} times to the door." for n in range(40))
    (folder / "en.txt").write_text(english)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return tiny_judged.save(tmp_path_factory.mktemp("judged") / "source")


@pytest.fixture(scope="module")
def run(tmp_path_factory, source, files, korean_text, command):
    out = tmp_path_factory.mktemp("judged") / "run"
    ended = command(
        *("adapt", "--source", source, "--text", korean_text, "--lang", "ko", "--out", out),
        *(
            "training.preset=xpt2021",
            "--budget",
            "4steps",
            "tokenizer.vocab_size=400",
            f"evaluation.kept={files / 'en.txt'}",
        ),
        *("training.batch={size=500, unit='tokens'}", "tokenizer.max_tokens=64"),
        *("evaluation.samples=2",),
        *("evaluation.max_sentences=60", "hardware.precision='fp32'"),
        *("--baseline", "scratch"),
    )
    assert ended.status == 0, ended.err
    return Run(out)


@pytest.fixture(scope="module")
def result(run):
    return run.stage("evaluation").result()


def test_source_and_model_are_scored_on_the_same_bytes(result):
    ours, theirs = result, result["untouched"]["streams"][""]
    assert ours["text"] == theirs["text"]
    for key in ("documents", "bytes", "characters"):
        assert ours["likelihood"][key] == theirs["likelihood"][key]
    assert ours["likelihood"]["tokens"] < theirs["likelihood"]["tokens"]
    assert ours["masks"]["fingerprint"] != theirs["masks"]["fingerprint"]


def test_kept_text_is_scored_by_both_and_is_whole(result, files):
    text = (files / "en.txt").read_text()
    for side in (result, result["untouched"]):
        kept = side["kept"]["en.txt"]
        assert kept["likelihood"]["documents"] == 40
        assert kept["likelihood"]["bytes"] == len(text) - 2 * 39
    assert result["kept"]["en.txt"]["text"] == result["untouched"]["kept"]["en.txt"]["text"]


def test_bits_of_kept_text_are_the_sums_of_the_stock_model(result, source, files):
    model, _ = load(str(source))
    tokenizer = tokenizer_files.load(str(source))
    nats = size = 0.0
    for text in (files / "en.txt").read_text().split("\n\n"):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            nats += float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
        size += len(text.encode())
    found = result["untouched"]["kept"]["en.txt"]["likelihood"]["bits_per_byte"]
    assert found == pytest.approx(nats / math.log(2) / size, rel=1e-4)


def test_new_and_old_tokens_are_told_apart(result):
    groups = result["pieces"]
    assert set(groups) == {"all", "new", "old"}
    assert groups["new"]["positions"] + groups["old"]["positions"] == groups["all"]["positions"]
    assert set(result["untouched"]["streams"][""]["pieces"]) == {"all"}


def test_both_go_on_with_the_same_beginnings(result):
    beginnings = [
        [row["beginning"] for row in side["generated"]] for side in (result, result["untouched"])
    ]
    assert len(beginnings[0]) == 2
    assert beginnings[0] == beginnings[1]


def test_the_report_shows_all_of_it(run, result):
    page = html.unescape((run.path / "report.html").read_text())
    for heading in (
        *("Beside the untouched source", "The source's language"),
        "Beginnings of held-out",
    ):
        assert heading in page, heading
    assert "Masked tokens" not in page
    assert f"{result['likelihood']['bits_per_byte']:.3f}" in page
    assert f"{result['untouched']['streams']['']['likelihood']['bits_per_byte']:.3f}" in page
    assert page.count("source untouched") > 3


def test_the_table_of_bits_has_every_model_and_the_source_once(run):
    shown = causal.text_table(causal.models(labelled([run])))
    names = [row.cells[0].text for row in shown.rows]
    assert names == ["XPT", "scratch", "source untouched"]
    assert "do not compare" in " ".join(shown.notes)  # perplexities of other tokens


def test_bits_that_are_too_few_since_text_is_unknown_are_never_the_best(run):
    ours, scratch, source = causal.models(labelled([run]))

    def with_bits(model, bits, unknown):
        counted = model.text["likelihood"] | {"bits_per_byte": bits, "unknown": unknown}
        return dataclasses.replace(model, text=model.text | {"likelihood": counted})

    def best(*models):
        shown = causal.text_table(models).column("bits/byte")
        return [name for name, cell in shown.items() if cell.rank == BEST]

    models = [with_bits(ours, 1.5, 0), with_bits(scratch, 1.9, 0), with_bits(source, 0.9, 40)]
    assert best(*models) == ["XPT"]
    assert best(models[0], models[2]) == []
    assert best(*models[:2], with_bits(source, math.nan, 0)) == ["XPT"]
    same = [with_bits(ours, 1.5, 3), with_bits(scratch, 1.9, 3)]  # of one vocabulary
    assert best(*same) == ["XPT"]
    assert best(*same, with_bits(source, 2.5, 0)) == []


def test_what_is_kept_has_an_interval_that_holds_the_difference(run, result, capsys):
    show(run)
    assert "Source language kept" in capsys.readouterr().out
    shown = causal.kept_table(causal.models(labelled([run])))
    first = [cell.text for cell in shown.rows[0].cells]
    gain = (
        result["kept"]["en.txt"]["likelihood"]["bits_per_byte"]
        - result["untouched"]["kept"]["en.txt"]["likelihood"]["bits_per_byte"]
    )
    assert first[:2] == ["en.txt", "XPT"]
    low, high = (float(part.replace("−", "-")) for part in first[6].strip("[]").split(", "))
    assert low <= gain <= high
    assert first[5].replace("−", "-") == f"{gain:+.3f}"


def test_each_model_is_compared_with_the_source_that_it_was_made_of(run, result):
    def with_kept(model, bits):
        kept = result["kept"]["en.txt"]
        bits = {"likelihood": kept["likelihood"] | {"bits_per_byte": bits}}
        more = model.more | {"kept": {"en.txt": kept | bits}}
        return dataclasses.replace(model, more=more)

    model, *_, source = causal.models(labelled([run]))
    first, second = with_kept(source, 1.2), with_kept(source, 0.8)
    models = [
        dataclasses.replace(with_kept(model, 1.25), label="A", source=first),
        dataclasses.replace(with_kept(model, 0.85), label="B", source=second),
    ]
    rows = causal.kept_table([*models, first, second]).rows
    shown = [[cell.text.replace("−", "-") for cell in row.cells] for row in rows]
    assert [row[1] for row in shown] == ["A", "B"]
    assert [float(row[3]) for row in shown] == [1.2, 0.8]
    assert [float(row[5]) for row in shown] == [0.05, 0.05]


def test_beside_a_run_that_was_asked_less_the_source_keeps_its_bits(run, result, tmp_path):
    other = tmp_path / "plain"
    shutil.copytree(run.path, other)
    path = other / "evaluation/done.json"
    done = read_json(path)
    for judged in (done["result"], done["result"]["untouched"]):
        del judged["kept"]
    write_record(path, done)
    judged = [*labelled([Run(other)])[:1], *labelled([run])[:1]]
    (kept,) = causal.kept_table(causal.models(judged)).rows
    before = result["untouched"]["kept"]["en.txt"]["likelihood"]["bits_per_byte"]
    assert kept.cells[3].text == f"{before:.3f}"


def test_a_run_whose_recipe_names_other_streams_by_now_is_still_reported(run, tmp_path, command):
    other = tmp_path / "renamed"
    shutil.copytree(run.path, other)
    text = (other / "recipe.toml").read_text()
    recipe = tomllib.loads(text)
    stream = {"name": "ko", "language": "ko", "corpus": recipe.pop("corpus")}
    recipe |= {"streams": [stream], "baselines": []}
    del recipe["language"]
    (other / "recipe.toml").write_text(tomli_w.dumps(recipe))
    ended = command("report", other)
    assert ended.status == 0, ended.err
    assert "source untouched" in (other / "report.html").read_text()


def test_a_model_does_not_differ_from_itself(result):
    blocks = result["blocks"]["kept/en.txt"]["bits_per_byte"]
    found = Resampling().between_blocks(blocks, blocks)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert Resampling().between_blocks(blocks, blocks[:-1]) is None


def test_rows_for_studies_have_names_and_counts(run, result):
    (main, *_) = labelled([run])
    found = {score.metric: score for score in scores(main)}
    bits = found["likelihood/bits_per_byte"]
    assert (bits.value, bits.n) == (
        result["likelihood"]["bits_per_byte"],
        result["likelihood"]["bytes"],
    )
    assert bits.masks == result["text"]
    assert found["kept/en.txt/bits_per_byte"].n == result["kept"]["en.txt"]["likelihood"]["bytes"]
    unknown = found["likelihood/unknown"]
    assert (unknown.value, unknown.n) == (
        result["likelihood"]["unknown"],
        result["likelihood"]["tokens"],
    )
    assert found["kept/en.txt/unknown"].masks == found["kept/en.txt/bits_per_byte"].masks
    assert found["new/hits@1"].n == result["pieces"]["new"]["positions"]


def test_evaluate_gives_the_same_bits_as_the_run(run, source, files, command):
    ended = command("evaluate", source, "--text", files / "en.txt", "precision=fp32", "--json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    expected = run.stage("evaluation").result()["untouched"]["kept"]["en.txt"]["likelihood"]
    assert found["likelihood"] == pytest.approx(expected)
    assert found["next_token"]["positions"] == found["masks"]["positions"]


def test_evaluate_says_what_it_could_not_read(source, tmp_path, command):
    (tmp_path / "mixed.txt").write_bytes("caf\xe9\n\nwhole\n".encode("latin-1"))
    ended = command("evaluate", source, "--text", tmp_path / "mixed.txt", "--json")
    assert json.loads(ended.out)["likelihood"]["bytes"] == len("whole")
    assert "1 documents left out: broken UTF-8" in ended.err


def test_files_about_a_kept_folder_are_said_to_be_left_out(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("text\n")
    (tmp_path / "README.md").write_text("# About\n")
    with caplog.at_level(logging.INFO, logger="lingraft"):
        assert causal_evaluation.read_documents([str(tmp_path)], 5) == ["text"]
    assert "left out as no text: README.md" in caplog.text


def test_a_judged_model_reads_no_more_than_it_was_trained_on(source):
    assert CausalModel.load(str(source), "fp32", 32).context == 32
    assert CausalModel.load(str(source), "fp32").context == tiny_judged.LONGEST
    assert isinstance(CausalModel.load(str(source), "fp32").scorer, Scorer)


def test_a_judged_model_that_names_no_length_reads_what_it_was_trained_on(tiny_source):
    bloom = str(tiny_source("bloom"))
    assert CausalModel.load(bloom, "fp32", 600).context == 600
    assert CausalModel.load(bloom, "fp32", 32).context == 32
    assert CausalModel.load(bloom, "fp32").context == 512


def test_the_recipe_of_a_baseline_can_be_read_again(run):
    baseline = read_recipe(run.path / "baselines/scratch/recipe.toml")
    assert (baseline.training.method, baseline.phases[0].budget.value) == ("scratch", 4)


@pytest.fixture(scope="module")
def study(run):
    """Two cells of a study: the run, and its baseline."""
    rows = []
    for cell in (run, Run(run.path / "baselines/scratch", parent=run.path)):
        method = cell.path.name if cell.parent else "xpt"
        common = {"model": method, "inputs": method}
        axes = {"method": method, "sentences": None, "seed": 0}
        if cell.parent:  # a study's cell has the text and the vocabulary in its own folder
            for name in ("corpus", "tokenizer", "environment.json"):
                link = cell.path / name
                if not link.exists():
                    link.symlink_to(run.path / name)
            cell = Run(cell.path)
        rows += collect.training(common | {"axes": axes}, cell)
    return results_of(rows), rows


def test_a_study_shows_causal_models_by_the_byte(study, result):
    found, _ = study
    shown = page.quality(found, None)
    titles = [column.title for column in shown.columns]
    assert titles[:3] == ["method", "bits/byte", "bits/char"]
    assert "en.txt, kept" in titles
    expected = f"{result['likelihood']['bits_per_byte']:.3f}"
    assert shown.column("bits/byte")["XPT"].text == expected
    assert sum(cell.rank for cell in shown.column("bits/byte").values()) == 1


def test_a_study_compares_bits_and_kept_text_with_intervals(study, monkeypatch):
    monkeypatch.setattr("lingraft.report.scored.FEWEST_BLOCKS", 5)
    found, _ = study
    metrics = ["likelihood/bits_per_byte", "kept/en.txt/bits_per_byte"]
    less = page.differences(found, None, metrics, Resampling(200))
    assert [column.title for column in less.columns][1:] == ["bits/byte", "en.txt, kept"]
    assert all("[" in cell.under for cell in less.rows[0].cells[1:3])


def test_a_studys_curve_is_in_bits_per_byte_over_characters_seen(study, run):
    found, rows = study
    drawn = figures.learning(found, None)
    assert "characters seen" in drawn.description
    statistics = run.stage("tokenizer").result()["statistics"]
    losses, bits = (
        next(row.points for row in rows if row.metric == name and row.model == "xpt")
        for name in (CURVE, LEARNT)
    )
    assert bits[0] == (
        pytest.approx(losses[0][0] * statistics["train"]["characters_per_token"]),
        pytest.approx(losses[0][1] / math.log(2) / statistics["test"]["bytes_per_token"]),
    )
    assert page.verdict(found, Resampling(200)).count("bits per byte") == 1
    assert "<svg" in page.render("s", found)
