import dataclasses
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lingraft.bench import measure
from lingraft.bench.measure import Effort, TimedScorer, Window, measured
from lingraft.bench.subject import Shape, TextShape, made_up, spread, subject, token_ids
from lingraft.commands.bench import chosen, results, table_of
from lingraft.errors import RecipeError
from lingraft.training import throughput
from lingraft.training.phase import Stopped

SHAPE = "3x64x100"
SHORT = TextShape(mean=10, longest=32, sentences=64)
EFFORT = Effort(warmup=1, steps=2, windows=2, evaluated=16, ceiling_seconds=0.0, ceiling_rows=32)


@pytest.fixture
def tiny():
    """Three layers of 64, and sentences of about ten tokens."""
    return subject(None, None, SHAPE, SHORT, 8, [])


@pytest.fixture(scope="module")
def found():
    """Both phases and evaluation, measured in this process."""
    tiny = subject(None, None, SHAPE, SHORT, 8, [])
    return [measured(tiny, name, EFFORT, "a test") for name in ("phase-1", "phase-2", "evaluation")]


# -- text


def test_made_up_sentences_have_the_lengths_that_were_asked_for():
    tokens = made_up(TextShape(mean=30, spread=0.6, longest=64, sentences=4_000), 500)
    assert len(tokens) == 4_000
    assert tokens.lengths.max() <= 64
    assert tokens.lengths.mean() == pytest.approx(30, rel=0.06)
    assert tokens.offsets[-1] == len(tokens.ids) == tokens.lengths.sum()


def test_without_spread_all_sentences_are_alike():
    assert set(made_up(TextShape(spread=0.0, sentences=50), 500).lengths) == {30}


def test_made_up_sentences_stand_between_special_tokens_and_hold_no_other():
    tokens = made_up(SHORT, 100)
    special = token_ids(100).special
    for row in tokens.rows(range(len(tokens))):
        assert (row[0], row[-1]) == (0, 2)
        assert not np.isin(row[1:-1], special).any()


def test_half_of_the_made_up_tokens_follow_from_the_one_before():
    tokens = made_up(TextShape(sentences=2_000), 5_000)
    followers = {}
    for row in tokens.rows(range(len(tokens))):
        for before, after in itertools.pairwise(row[1:-1]):
            followers.setdefault(int(before), []).append(int(after))
    often = [after for after in followers.values() if len(after) > 50]
    shares = [np.bincount(after).max() / len(after) for after in often]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.1)


def test_another_seed_gives_another_text():
    first, same, other = (made_up(SHORT, 100, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.ids, same.ids)
    assert not np.array_equal(first.ids[:100], other.ids[:100])


@pytest.mark.parametrize("mean", [2.0, 33.0])
def test_a_mean_length_that_cannot_be_is_refused(mean):
    with pytest.raises(RecipeError, match=r"--mean-length: must be between 3 and --longest \(32\)"):
        subject(None, None, SHAPE, TextShape(mean=mean, longest=32), None, [])


def test_a_vocabulary_without_room_for_words_is_refused():
    with pytest.raises(RecipeError, match="a vocabulary of 8 is too small"):
        token_ids(8)


# -- subject


@pytest.mark.parametrize(
    "written", ["12", "12x768", "ax768x50000", "2x768x50000", "12x700x50000", "3x64x1"]
)
def test_a_shape_that_is_none_is_refused(written):
    with pytest.raises(RecipeError, match=f"--shape {written}: "):
        Shape.parse(written)


def test_a_shape_counts_its_translation_layers(tiny):
    model, family, itl = tiny.model()
    assert (family.model_type, model.config.num_hidden_layers, itl) == (
        "roberta", 3, {0, 2},
    )  # fmt: skip
    assert model.get_input_embeddings().weight.shape == (100, 64)


def test_a_source_is_grafted_as_its_recipe_says(tiny_source):
    asked = subject(None, str(tiny_source("modernbert")), None, SHORT, None,
                    ["tokenizer.vocab_size=200", "graft.layers_before=2"])  # fmt: skip
    model, family, itl = asked.model()
    assert (family.model_type, itl) == ("modernbert", {0, 1, 4})
    assert model.get_input_embeddings().weight.shape[0] == 200
    assert len(model.config.layer_types) == 5


def test_a_recipe_that_leaves_things_to_rules_is_measured_as_it_would_train(
    tiny_source, korean_text, tmp_path
):
    path = tmp_path / "recipe.toml"
    text = f"""name = "x"\nlanguage = "ko"\ncorpus.text = ["{korean_text}"]\nsource.model = "SOURCE"
method = {{preset = "auto", budget = {{value = 100, unit = "steps"}}}}"""
    path.write_text(text.replace("SOURCE", str(tiny_source("roberta"))))
    asked = subject(path, None, None, SHORT, None, [])
    (phase,) = asked.recipe.phases
    assert (phase.batch.unit, phase.batch.size, phase.masking.rate) == ("tokens", 512, 0.4)
    assert not any(asked.recipe.graft.places)
    path.write_text(text.replace("SOURCE", "some/model"))
    with pytest.raises(RecipeError, match="that of 'some/model' is not on this machine"):
        subject(path, None, None, SHORT, None, [])
    shape = 'architecture = {model_type = "roberta"}\ntokenizer.kind = "unigram"'
    text = text.replace('model = "SOURCE"', shape)
    path.write_text(text.replace("{preset", '{name = "scratch", preset'))
    with pytest.raises(RecipeError, match=r"and source\.architecture has none; name a paper's"):
        subject(path, None, None, SHORT, None, [])


def test_the_peak_of_memory_is_that_of_the_model_and_not_of_the_fastest_product(tiny, monkeypatch):
    calls = []
    limit = throughput.Ceiling(1e15, "fp32", "", None)
    monkeypatch.setattr(throughput, "matrix_product_ceiling", lambda *_: limit)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", calls.append)
    gpu = SimpleNamespace(device=torch.device("cuda"), mixed_precision="no")
    assert measure._ceiling(tiny.model()[0], gpu, EFFORT) == limit
    assert calls == [gpu.device]
    monkeypatch.setattr(measure, "_ceiling", lambda *_: calls.append("product") or limit)
    monkeypatch.setattr(measure, "peak_memory", lambda _: calls.append("peak"))
    measured(tiny, "evaluation", EFFORT)
    assert calls[1:] == ["product", "peak", "product"]


def test_exactly_one_thing_is_measured(tiny_source):
    for named in ((None, None), (str(tiny_source("bert")), SHAPE)):
        with pytest.raises(RecipeError, match="give a recipe, the folder of a run, --source or"):
            subject(None, *named, SHORT, None, [])


def test_a_phase_that_the_recipe_lacks_is_refused(tiny):
    assert chosen(tiny, "2") == ["phase-2"]
    assert chosen(tiny, "all") == ["phase-1", "phase-2", "evaluation"]
    with pytest.raises(RecipeError, match="--phase 3: there is no such phase; give a number from"):
        chosen(tiny, "3")


UNCOUNTED = {
    "reads pairs": "phases.0.objective='tlm'",
    "has LoRA": "phases.0.lora={parts=['body']}",
    "has a teacher": "phases.0.distil={}",
    "trains some rows": "phases.0.train=['embeddings.new']",
    "clm is not for masked": "phases.0.objective='clm'",
}


@pytest.mark.parametrize("reason", UNCOUNTED)
def test_a_phase_that_cannot_be_measured_is_refused_with_the_reason(reason):
    changes = [UNCOUNTED[reason], *(["phases.0.train=['embeddings']"] if "LoRA" in reason else [])]
    asked = subject(None, None, SHAPE, SHORT, 8, changes)
    with pytest.raises(RecipeError, match=f"phase 'phase-1': {reason}"):
        measured(asked, "phase-1", EFFORT)


def test_all_phases_can_be_measured_before_the_first_is(monkeypatch):
    monkeypatch.setattr("lingraft.workers.pool", lambda _: pytest.fail("it began"))
    lora = ["phases.1.lora={parts=['body']}", "phases.1.train=['embeddings']"]
    asked = subject(None, None, SHAPE, SHORT, 8, lora)
    with pytest.raises(RecipeError, match="phase 'phase-2': has LoRA"):
        results(asked, ["phase-1", "phase-2"], EFFORT, "")


def test_a_model_without_width_is_refused():
    with pytest.raises(RecipeError, match="a width that 64 divides"):
        Shape.parse("3x0x100")


def test_a_new_layer_after_more_layers_than_there_are_is_refused():
    asked = subject(None, None, SHAPE, SHORT, 8, ["method.name='blocks'"])
    with pytest.raises(RecipeError, match=r"graft\.layers_every: 4 is more than"):
        measured(asked, "phase-1", EFFORT)


# -- measuring


def test_a_window_counts_real_tokens_and_its_own_time(monkeypatch):
    ticks = iter([10.0, 12.0])
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(measure.time, "process_time", lambda: 0.0)
    window = Window(torch.device("cpu"))
    window.add(60, 2, 9, 1e6)
    window.close()
    assert (window.seconds, window.tokens, window.sentences) == (2.0, 60, 2)


def test_a_benchmark_takes_its_steps_in_the_training_loop(tiny, monkeypatch):
    """All that it measures, and no step more; it validates nothing and leaves nothing behind."""
    calls = []

    def loop(job, problem, model, accelerator, watch):
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        try:
            run_phase(job, problem, model, accelerator, watch=watch)
        finally:
            rows = [json.loads(line) for line in job.metrics_path.read_text().splitlines()]
            moved = [
                name for name, old in before.items() if not old.equal(model.state_dict()[name])
            ]
            calls.append((job.folder, sorted(job.folder.iterdir()), rows, moved))

    run_phase = measure.run_phase
    monkeypatch.setattr(measure, "run_phase", loop)
    asked = dataclasses.replace(
        tiny,
        recipe=tiny.recipe.model_copy(
            update={"training": tiny.recipe.training.model_copy(update={"log_steps": 1})}
        ),
    )
    result = measured(asked, "phase-2", EFFORT)
    ((folder, files, rows, moved),) = calls
    assert [row["kind"] for row in rows] == ["train"] * (1 + 2 * 2 + 2 + 1)
    assert [path.name for path in files] == ["metrics.jsonl"]
    assert not folder.exists()
    assert moved
    assert result["sentences_per_second"] > 0


def test_the_tokens_of_the_windows_are_those_that_the_loop_counts(tiny, monkeypatch):
    seen = []
    monkeypatch.setattr(measure, "_speeds", lambda windows, _: seen.extend(windows) or {})
    effort = dataclasses.replace(EFFORT, warmup=0, steps=4, windows=2)
    measured(tiny, "phase-1", effort)
    assert [window.sentences for window in seen] == [4 * 8, 4 * 8]
    tokens, _ = tiny.text(100)
    assert sum(window.tokens for window in seen) == tokens.lengths.sum()  # one epoch


def test_a_signal_ends_a_benchmark_with_a_line_of_its_own(tiny, monkeypatch):
    def interrupted(job, problem, model, accelerator, watch):
        raise Stopped("stopped; a checkpoint is written, the same command goes on", 2)

    monkeypatch.setattr(measure, "run_phase", interrupted)
    with pytest.raises(Stopped, match="bench: stopped before all was measured") as stopped:
        measured(tiny, "phase-1", EFFORT)
    assert stopped.value.exit_status == 130


def test_every_number_of_a_measurement_is_there(found):
    for one in found:
        speed = one["tokens_per_second"]
        assert 0 < speed["min"] <= speed["median"] <= speed["max"]
        assert 0 < one["mfu"]["median"] < 1
        assert one["ceiling"]["kind"] in ("fp32", "bf16")
        assert one["peak_memory_bytes"] is None or one["peak_memory_bytes"] > 1e7
        assert one["machine"]["threads"] >= 1
        assert len(one["load_average"]) == 2
        assert all(seconds >= 0 for seconds in one["step_seconds"].values())
    assert json.loads(json.dumps(found)) == found


def test_training_is_divided_into_data_forward_backward_and_optimiser(found):
    assert [list(one["step_seconds"]) for one in found] == [
        ["data", "forward", "backward", "optimiser"],
        ["data", "forward", "backward", "optimiser"],
        ["forward", "scores"],
    ]
    assert all(seconds > 0 for one in found[:2] for seconds in one["step_seconds"].values())


def test_useful_operations_are_fewer_in_phase_1_and_never_more_than_the_executed(found):
    first, second, evaluation = (one["flops_per_token"] for one in found)
    assert first["useful"] < second["useful"] <= second["executed"]
    assert evaluation["useful"] < first["useful"]


def test_utilisation_is_speed_times_operations_over_the_ceiling(found):
    for one in found:
        limit = one["ceiling"]["flops_per_second"]
        assert one["mfu"]["max"] == pytest.approx(one["flops_per_second"]["max"] / limit)
        assert limit == max(one["ceiling"]["measured"])


def test_utilisation_above_the_ceiling_is_left_out_and_the_table_says_why(found):
    window = Window(torch.device("cpu"))
    window.add(10, 2, 1, 300.0)
    window.seconds = window.cpu_seconds = 1.0
    low, high = (throughput.Ceiling(speed, "fp32", "", None) for speed in (100.0, 200.0))
    assert measure._speeds([window], [low, high])["mfu"] is None
    enough = throughput.Ceiling(600.0, "fp32", "", None)
    assert measure._speeds([window], [low, enough])["mfu"]["median"] == 0.5
    table = table_of([found[0] | {"mfu": None}, *found[1:]])
    assert "MFU above 100 % is left out: other work" in table.notes[0]


def test_recomputing_activations_is_executed_and_not_credited(tiny):
    plain = measured(tiny, "phase-2", EFFORT)["flops_per_token"]
    again = subject(None, None, SHAPE, SHORT, 8, ["training.gradient_checkpointing=true"])
    repeated = measured(again, "phase-2", EFFORT)["flops_per_token"]
    assert repeated["useful"] == plain["useful"]
    assert repeated["executed"] > 1.1 * plain["executed"]


def test_a_timed_scorer_gives_what_the_scorer_gives():
    class Scorer:
        def logits(self, items):
            yield from enumerate(items)

    watched = TimedScorer(Scorer(), torch.device("cpu"))
    assert list(watched.logits("ab")) == [(0, "a"), (1, "b")]
    assert watched.seconds > 0


def test_minimum_median_and_maximum():
    assert spread([3.0, 1.0, 2.0]) == {"min": 1.0, "median": 2.0, "max": 3.0}
    assert spread([4.0, 1.0]) == {"min": 1.0, "median": 2.5, "max": 4.0}


def test_the_table_has_a_row_for_each_thing_and_names_the_machine(found):
    table = table_of(found)
    assert len(table.rows) == 3
    assert "GFLOP/s" in table.notes[0]
    assert found[0]["machine"]["torch"] in table.notes[0]


@pytest.mark.slow
def test_several_phases_have_processes_of_their_own(tiny, monkeypatch):
    monkeypatch.setattr(measure, "environment", lambda *_: pytest.fail("in this process"))
    assert [one["what"] for one in results(tiny, ["evaluation"] * 2, EFFORT, "")] == [
        "evaluation", "evaluation",
    ]  # fmt: skip


def test_the_command_prints_a_table_and_writes_what_it_measured(command, tmp_path):
    path = tmp_path / "made" / "bench.json"
    done = command("bench", "--shape", SHAPE, "--phase", "1", "--steps", 1, "--windows", 1,
                   "--warmup", 0, "--batch", 4, "--sentences", 32, "--ceiling-seconds", 0,
                   "--json", path)  # fmt: skip
    assert done.status == 0, done.err
    (one,) = json.loads(path.read_text())
    assert one["what"] == "phase-1"
    assert one["batch"] == {"size": 4, "unit": "sentences"}
    assert one["machine"]["command"].startswith("lingraft bench --shape")


def test_a_folder_as_the_file_for_json_is_refused_before_anything_is_measured(
    command, monkeypatch, tmp_path
):
    monkeypatch.setattr(measure, "measured", lambda *_: pytest.fail("measured"))
    ended = command("bench", "--shape", SHAPE, "--phase", "1", "--json", tmp_path)
    assert (ended.status, ended.err) == (
        1,
        f"lingraft: --json {tmp_path}: is a folder; name a file\n",
    )


@pytest.mark.slow
def test_a_run_is_measured_on_its_own_text(command, adapted, tmp_path):
    path = tmp_path / "bench.json"
    done = command("bench", adapted("roberta"), "--phase", "phase-1", "--steps", 1, "--windows", 1,
                   "--warmup", 0, "--ceiling-seconds", 0, "--json", path)  # fmt: skip
    assert done.status == 0, done.err
    assert json.loads(path.read_text())[0]["model"] == "run roberta"


def test_a_place_that_cannot_be_for_the_json_file_is_refused_before_anything_is_measured(
    tmp_path, command, monkeypatch
):
    monkeypatch.setattr(measure, "measured", lambda *_: pytest.fail("something was measured"))
    shape = ("--shape", "3x64x300", "--phase", "evaluation")
    (tmp_path / "file").touch()
    ended = command("bench", *shape, "--json", tmp_path / "file" / "bench.json")
    assert ended.status == 1
