"""`lingraft probe-source` from a run to its tables."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.finetuning import outcomes
from lingraft.finetuning.problem import Finetuning
from lingraft.probing import table
from lingraft.probing.models import Probed
from lingraft.rundir import read_json, write_record

OFFICIAL = Path(__file__).parents[1] / "tasks" / "official"
SETTINGS = "epochs=1,batch=2,learning_rate=0.001,checks_per_epoch=1,patience=0,max_length=48"
LABELS = [
    "source",
    "phase-1.itl.target-vocab",
    "phase-1.no-itl.target-vocab",
    "phase-1.itl.source-vocab",
    "phase-1.no-itl.source-vocab",
    "phase-2.itl.target-vocab",
    "phase-2.no-itl.target-vocab",
    "phase-2.itl.source-vocab",
    "phase-2.no-itl.source-vocab",
    "random.target-vocab",
    "random.source-vocab",
]


@pytest.fixture(scope="module")
def probe(adapted, command, tmp_path_factory):
    """Runs the command on the tiny RoBERTa's run: `probe(out, *arguments)`."""
    data = tmp_path_factory.mktemp("data")
    for name in ("train.tsv", "dev.tsv"):
        text = "sentence\tlabel\n" + "".join(
            f"sentence number {n} is {word}\t{n % 2}\n"
            for n, word in enumerate(["bad", "good", "awful", "fine", "poor", "great"])
        )
        (data / name).write_text(text, encoding="utf-8")

    def run(out, *arguments, task="glue-sst2", settings=SETTINGS):
        fixed = ("--task", task, "--data", data, "--seeds", 1, "--set", settings, "--out", out)
        return command("probe-source", adapted("roberta"), *fixed, *arguments)

    return run


@pytest.fixture(scope="module")
def finished(probe, tmp_path_factory):
    """A finished probe; do not change it."""
    out = tmp_path_factory.mktemp("probe")
    ended = probe(out)
    assert ended.status == 0, ended.err
    return out, ended


def test_the_table_has_a_row_for_the_source_and_each_model_of_each_phase(finished):
    out, ended = finished
    table = json.loads((out / "table.json").read_text())
    assert [row["label"] for row in table["rows"]] == LABELS
    assert [row["after"] for row in table["rows"]] == [
        None, *["phase-1"] * 4, *["phase-2"] * 4, None, None,
    ]  # fmt: skip
    assert [row["label"] for row in table["rows"] if row["random_weights"]] == LABELS[-2:]
    found = outcomes.by_cell(outcomes.outcomes(out))
    for row in table["rows"]:
        (score,) = row["scores"]
        values = [one.scores("dev")["accuracy"] for one in found[row["label"], "glue-sst2"]]
        summary = outcomes.summary(values)
        assert (score["mean"], score["deviation"]) == (summary.mean, summary.deviation)
        assert (score["seeds"], score["n"]) == (1, 6)
    with (out / "table.csv").open(newline="") as file:
        sheet = list(csv.DictReader(file))
    assert [row["label"] for row in sheet] == LABELS
    assert [float(row["mean"]) for row in sheet] == [
        row["scores"][0]["mean"] for row in table["rows"]
    ]
    lines = [line for line in (out / "table.md").read_text().splitlines() if line[:1] == "|"]
    assert [line.split(" | ")[:3] for line in lines[2:5]] == [
        ["| the source as it was", "none", "source"],
        ["| phase-1", "with", "target"],
        ["| phase-1", "without", "target"],
    ]
    assert [line.split(" | ")[:3] for line in lines[-2:]] == [
        ["| random weights, no pretraining", "with", "target"],
        ["| random weights, no pretraining", "none", "source"],
    ]
    assert "Weights equal to the source's, bit for bit: phase-1.no-itl.source-vocab." in ended.out
    assert not [path for path in (out / "models").iterdir() if path.is_dir()]


def test_where_nothing_of_the_source_was_trained_its_row_is_the_source_s(finished):
    out, _ = finished
    table = json.loads((out / "table.json").read_text())
    equal = [row["label"] for row in table["rows"] if row["equals_source"]]
    assert equal == ["phase-1.no-itl.source-vocab"]
    ours, theirs, other = (
        (out / label / "glue-sst2" / "seed-0" / "predictions-dev.jsonl").read_bytes()
        for label in (equal[0], "source", "phase-2.no-itl.source-vocab")
    )
    assert ours == theirs
    assert ours != other


def test_what_is_done_is_kept_and_other_settings_are_refused(
    finished, probe, adapted, tmp_path, monkeypatch
):
    out, before = finished
    record = (out / "probe.json").read_bytes()
    monkeypatch.delattr(Finetuning, "step")
    again = probe(out, "--phase", "phase-2", "--keep-models")
    assert again.status == 0, again.err
    assert again.out == before.out
    kept = [path for path in (out / "models").iterdir() if path.is_dir()]
    assert {path.name for path in kept} == {LABELS[0], *LABELS[5:]}
    assert all((path / "model.safetensors").is_file() for path in kept)
    source = shutil.copytree(Probed.of(adapted("roberta")).source, tmp_path / "source")
    settings = SETTINGS.replace("epochs=1", "epochs=2")
    changed = probe(out, "--source", source, settings=settings)
    assert changed.status == 1
    assert "differ in: settings" in changed.err
    assert (out / "probe.json").read_bytes() == record


def test_a_learning_rate_for_each_model_is_advised_once_and_can_be_found(probe, tmp_path):
    low = SETTINGS.replace("0.001", "5e-5")
    ended = probe(tmp_path / "low", "--phase", "phase-1", settings=low)
    assert ended.err.count("--learning-rates 1e-4,3e-4,1e-3 finds one for each task") == 1
    found = probe(tmp_path / "found", "--phase", "phase-1", "--learning-rates", "1e-3,1e-2")
    assert found.status == 0, found.err
    assert len([*(tmp_path / "found").glob("*/*/learning-rates")]) == 7


def test_equal_weights_with_other_scores_are_told(finished, adapted, tmp_path):
    out = Path(shutil.copytree(finished[0], tmp_path / "out"))
    seed = out / "source" / "glue-sst2" / "seed-0"
    told = json.loads((out / "table.json").read_text())["notes"]
    assert not any("other scores" in note for note in told)
    said = [json.loads(line) for line in (seed / "predictions-dev.jsonl").read_text().splitlines()]
    scores = read_json(seed / "scores.json")
    examples = outcomes.load_examples(seed / "examples-dev.jsonl")
    changed = {"0": "1", "1": "0"}[said[0]["label"]]
    right = 100 / 6 if changed == examples[0].label else -100 / 6
    scores["splits"]["dev"]["scores"]["accuracy"] += right
    said[0] |= {"label": changed, "probabilities": said[0]["probabilities"][::-1]}
    write_record(seed / "scores.json", scores)
    (seed / "predictions-dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    made, _ = table.write(Probed.of(adapted("roberta")).variants(), [], out)
    (note,) = (note for note in made.notes if "other scores" in note)
    assert note.startswith("phase-1.no-itl.source-vocab: ")


def test_the_results_are_those_of_lingraft_finetune_and_compare(finished, command, tmp_path):
    out, _ = finished
    compared = command("compare", out, "--reference", "source", "--out", tmp_path / "page.html")
    assert compared.status == 0, compared.err
    assert all(label in (tmp_path / "page.html").read_text("utf-8") for label in LABELS)


# -- what a run can be asked


def recipe_with(adapted, folder, **changes):
    """A run's folder with a changed recipe and nothing else."""
    text = (adapted("roberta") / "recipe.toml").read_text(encoding="utf-8")
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    folder.mkdir()
    (folder / "recipe.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_run_without_translation_layers_has_no_rows_without_them_and_says_so(adapted, tmp_path):
    before, after = ("layers_before = 1", "layers_before = 0"), ("rs_after = 1", "rs_after = 0")
    probed = Probed.of(recipe_with(adapted, tmp_path / "run", before=before, after=after))
    assert [one.label for one in probed.variants()] == [
        "source",
        "phase-1.target-vocab",
        "phase-1.source-vocab",
        "phase-2.target-vocab",
        "phase-2.source-vocab",
        "random.target-vocab",
        "random.source-vocab",
    ]
    assert {one.layers for one in probed.variants()} == {"none"}
    assert "rows without them are left out" in probed.notes()[0]
    assert Probed.of(adapted("roberta")).notes() == []


def test_a_baseline_has_the_tokenizer_of_its_run(adapted, tmp_path):
    run = recipe_with(adapted, tmp_path / "run")
    (run / "baselines").mkdir()
    folder = recipe_with(adapted, run / "baselines" / "xpt-sp")
    with pytest.raises(DataError, match="the models need the target's tokenizer"):
        _ = Probed.of(folder).tokenizer
    (tmp_path / "run" / "tokenizer").mkdir()
    assert Probed.of(folder).tokenizer == (tmp_path / "run" / "tokenizer").resolve()


def test_a_run_in_a_folder_called_baselines_is_no_baseline(adapted, tmp_path):
    (tmp_path / "baselines").mkdir()
    folder = recipe_with(adapted, tmp_path / "baselines" / "xpt")
    (folder / "tokenizer").mkdir()
    assert Probed.of(folder).tokenizer == folder / "tokenizer"


def test_runs_that_have_nothing_to_lose_or_to_take_out_are_refused(adapted, tmp_path):
    text = (adapted("roberta") / "recipe.toml").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("model = "))
    nothing = (line, '[source.architecture]\nmodel_type = "roberta"')
    with pytest.raises(RecipeError, match="trained from nothing"):
        Probed.of(recipe_with(adapted, tmp_path / "scratch", source=nothing))
    width = ("adapters = 0", "adapters = 8")
    with pytest.raises(UnsupportedModelError, match="has adapters"):
        Probed.of(recipe_with(adapted, tmp_path / "adapters", width=width))


def test_several_processes_are_refused(probe, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    ended = probe(tmp_path)
    assert (ended.status, "without torchrun" in ended.err) == (1, True)
