from __future__ import annotations

import shutil

import pytest
import torch
from tiny_shapes import LONGEST
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.pipeline import checks, preflight, stages
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.rundir import Run
from lingraft.tokenizer import extension
from lingraft.tokenizer import files as tokenizer_files
from tests.support.vocabulary_kinds import keys_of


def planned(run, *assignments):
    """The plan of a finished run's recipe, with the vocabulary that the text gave."""
    size = Run(run).stage("tokenizer").result()["vocab_size"]
    recipe = read_recipe(run / "recipe.toml", [f"tokenizer.vocab_size={size}", *assignments])
    return preflight.check(recipe)


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_trainable_parameters_are_those_of_the_phases(family, adapted):
    run = adapted(family)
    said = [phase["trainable"] for phase in planned(run).phases]
    done = [Run(run).stage(f"phase-{number}").result() for number in (1, 2)]
    assert said == [result["trainable_parameters"] for result in done]


def test_the_plan_names_the_stages_and_counts_the_text(adapted, korean_text):
    plan = planned(adapted("bert"), 'baselines=[{method="scratch"}]')
    assert plan.stages == [
        "corpus", "tokenizer", "graft", "phase-1", "phase-2", "evaluation", "model", "report",
        "baseline scratch",
    ]  # fmt: skip
    assert (plan.text_files, plan.text_bytes) == (1, korean_text.stat().st_size)


@pytest.mark.parametrize(
    ("budget", "tokens"),
    [
        ("{value=5, unit='steps'}", 5 * 8 * 30),
        ("{value=5e3, unit='tokens'}", 5e3),
        ("{value=3, unit='epochs'}", None),
    ],
)
def test_tokens_are_estimated_from_the_budget(budget, tokens, adapted, korean_text):
    plan = planned(adapted("bert"), f"phases.0.budget={budget}")
    expected = tokens or 3 * korean_text.stat().st_size / preflight.BYTES_PER_TOKEN
    assert plan.phases[0]["tokens_estimate"] == pytest.approx(expected)


@pytest.mark.parametrize(("ending", "factor"), [(".jsonl.gz", 4), (".parquet", 2), (".txt", 1)])
def test_packed_text_is_estimated_by_what_it_roughly_holds(
    ending, factor, tiny_source, tmp_path, command
):
    (tmp_path / f"ko{ending}").write_bytes(b"x" * 1_000_000)
    phase = {"name": "p", "train": ["all"], "budget": {"value": 1, "unit": "epochs"}}
    text = {"text": [str(tmp_path / f"ko{ending}")]}
    recipe = small(tiny_source, None, corpus=text, phases=[phase])
    plan = preflight.check(recipe)
    assert (plan.text_bytes, plan.unpacked_bytes_estimate) == (1_000_000, factor * 1_000_000)
    tokens = factor * 1_000_000 / preflight.BYTES_PER_TOKEN
    assert plan.phases[0]["tokens_estimate"] == pytest.approx(tokens)
    (tmp_path / "r.toml").write_text(to_toml(recipe))
    said = command("check", tmp_path / "r.toml").out
    assert (f"1.0 MB as stored, roughly {factor}.0 MB unpacked" in said) == (factor > 1)


def small(tiny_source, korean_text, **tables):
    data = {
        "language": "ko",
        "source": {"model": str(tiny_source("bert"))},
        "corpus": {"text": [str(korean_text)]},
        "training": {"preset": "xpt2021"},
    }
    return recipe_from(data | tables)


def test_a_hub_model_that_is_not_here_is_noted_and_not_downloaded(tiny_source, korean_text):
    recipe = small(tiny_source, korean_text, source={"model": "nobody/has-this-model"})
    plan = preflight.check(recipe)
    assert plan.parameters is None
    assert plan.phases[0]["trainable"] is None
    assert plan.notes == [
        "source 'nobody/has-this-model' is not on this machine; its size is known once it is "
        "downloaded (check downloads nothing)"
    ]


def test_a_folder_of_kept_text_that_holds_a_text_of_the_run_is_refused(
    tiny_source, korean_text, tmp_path
):
    kept = tmp_path / "en"
    kept.mkdir()
    for name in ("again.txt", "other.txt"):
        (kept / name).write_text(f"This text is called {name}.\n")
    tables = {
        "source": {"model": str(tiny_source("llama"))},
        "evaluation": {"kept": [str(kept)]},
    }
    recipe = small(tiny_source, korean_text, **tables)
    assert preflight.check(recipe).text_files == 1
    texts = [str(korean_text), str(kept / "again.txt")]
    recipe = small(tiny_source, korean_text, **tables, corpus={"text": texts})
    with pytest.raises(RecipeError, match=r"evaluation\.kept: .*en: is text of the run"):
        preflight.check(recipe)


def test_an_architecture_has_the_size_of_the_model_that_is_built_of_it(tiny_source, korean_text):
    recipe = small(
        tiny_source,
        korean_text,
        source={"architecture": {"model_type": "modernbert"}},
        training={"method": "scratch", "preset": "xpt2021"},
        tokenizer={"algorithm": "unigram"},
    )
    plan = preflight.check(recipe)
    config = AutoConfig.for_model("modernbert", vocab_size=recipe.tokenizer.vocab_size)
    config.pad_token_id, config.num_hidden_layers = 1, config.num_hidden_layers + 2
    config.layer_types = [config.layer_types[0]] * config.num_hidden_layers
    with torch.device("meta"):
        expected = AutoModelForMaskedLM.from_config(config).num_parameters()
    assert plan.parameters == expected


@pytest.mark.parametrize("matrix", ["embeddings", "output_bias"])
def test_an_architecture_has_no_old_rows(matrix, tiny_source, korean_text):
    phase = {"name": "one", "budget": {"value": 1}}
    tables = {
        "source": {"architecture": {"model_type": "modernbert"}},
        "training": {"method": "scratch", "preset": "xpt2021"},
        "tokenizer": {"algorithm": "unigram"},
    }
    new = tables | {"phases": [phase | {"train": [f"{matrix}.new"]}]}
    assert preflight.check(small(tiny_source, korean_text, **new)).parameters
    old = tables | {"phases": [phase | {"train": [f"{matrix}.old"]}]}
    with pytest.raises(RecipeError, match=r"phase 'one': .*kept no piece .* row is old"):
        preflight.check(small(tiny_source, korean_text, **old))


@pytest.fixture
def norm_bias(tiny_source, tiny_model, tmp_path):
    """A source whose first layer lacks the bias of a norm."""
    folder = shutil.copytree(tiny_source("modernbert"), tmp_path / "source")
    tiny_model("modernbert", norm_bias=True).save_pretrained(folder)
    return {"model": str(folder)}


@pytest.mark.parametrize(
    ("graft", "refused"),
    [
        ({"inserted_before": 1}, True),
        ({"inserted_before": 0, "inserted_every": 1, "inserted_init": "copy"}, True),
        ({"inserted_before": 0, "inserted_every": 1}, False),
        ({"inserted_before": 1, "source_weights": "random"}, False),
    ],
    ids=str,
)
def test_a_layer_before_one_without_the_bias_of_a_norm_is_refused(
    graft, refused, tiny_source, korean_text, norm_bias
):
    """Before anything is made: the graft cannot be."""
    recipe = small(tiny_source, korean_text, source=norm_bias, graft=graft)
    if not refused:
        checks.check_inputs(recipe)
        return
    with pytest.raises(UnsupportedModelError, match="with norm_bias this modernbert model"):
        checks.check_inputs(recipe)


@pytest.mark.parametrize("content", [b"", b"x" * 99, b"\x02\0\0\0\0\0\0\0[]"])
def test_broken_weights_are_refused(content, tiny_source, korean_text, tmp_path):
    folder = shutil.copytree(tiny_source("bert"), tmp_path / "source")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"weights of source model .* cannot be loaded"):
        preflight.check(small(tiny_source, korean_text, source={"model": str(folder)}))


@pytest.mark.parametrize(
    ("key", "value"),
    [("lexicons", ["./no.tsv"]), ("target_vectors", "./no.tsv")],
)
def test_a_resource_that_is_not_there_is_refused(key, value, tiny_source, korean_text):
    with pytest.raises(DataError, match=r"resources: \./no\.tsv: no such file"):
        preflight.check(small(tiny_source, korean_text, embeddings={key: value}))


def test_evaluations_that_are_not_to_be_learnt_must_be_there_and_are_no_text(
    tiny_source, korean_text, tmp_path
):
    tasks = tmp_path / "tasks.txt"
    corpus = {"text": [str(korean_text)], "decontaminate": [str(tasks)]}
    recipe = small(tiny_source, korean_text, corpus=corpus)
    with pytest.raises(DataError, match=r"tasks\.txt: no such file"):
        preflight.check(recipe)
    tasks.write_text("그런 문장은 어디에도 없다\n")
    assert preflight.check(recipe).text_files == 1


def test_an_epoch_of_few_sentences_is_estimated_by_them(tiny_source, korean_text):
    method = {"method": "xpt-sp", "preset": "xpt2021", "budget": {"value": 2, "unit": "epochs"}}
    plans = [
        preflight.check(small(tiny_source, korean_text, training=method | more))
        for more in ({}, {"max_train_sentences": 10})
    ]
    whole, few = (plan.phases[0]["tokens_estimate"] for plan in plans)
    assert few == 2 * 10 * preflight.TOKENS_PER_SENTENCE < whole


def too_small(tiny_source, korean_text, **keys):
    return checks.too_small(small(tiny_source, korean_text, training={"preset": "xpt2021"} | keys))


def test_steps_too_few_for_their_learning_rate_are_noted_before_training(tiny_source, korean_text):
    (note,) = too_small(tiny_source, korean_text, budget={"value": 60})
    assert "the learning rates of all 60 steps add up to 0.003" in note
    recipe = small(
        tiny_source, korean_text, training={"preset": "xpt2021", "budget": {"value": 60}}
    )
    assert preflight.check(recipe).notes[-1:] == [note]


def of_kind(source, text, kind, **tokenizer):
    return recipe_from(
        {
            "language": "ko",
            "source": {"model": str(source)},
            "corpus": {"text": [str(text)]},
            "tokenizer": keys_of(kind) | {"vocab_size": 400, "new_pieces": 40} | tokenizer,
        }
    )


@pytest.mark.parametrize("kind", ["unigram"])
def test_a_vocabulary_that_transformers_would_read_otherwise_is_refused(
    kind, tiny_source, korean_text, tmp_path
):
    source = shutil.copytree(tiny_source("qwen2"), tmp_path / "no-chat")
    (source / "chat_template.jinja").unlink()
    with pytest.raises(RecipeError, match=f"family's own pattern.* than this '{kind}'"):
        preflight.check(of_kind(source, korean_text, kind))


@pytest.mark.parametrize("kind", ["source", "extend"])
def test_vocabularies_with_the_pattern_of_the_family_are_read_as_they_were_written(
    kind, tiny_source, korean_text, tmp_path
):
    recipe = of_kind(tiny_source("qwen2"), korean_text, kind)
    assert preflight.check(recipe).model_type == "qwen2"
    theirs = tokenizer_files.load(tiny_source("qwen2"))
    lines = [*korean_text.read_text("utf-8").split("\n")[:40], *["2024 2024 don't"] * 20]
    ours, _ = extension.make(
        recipe.tokenizer, theirs, lambda: lines, pad_id=None, seed=0, causal=True
    )
    shutil.copy(tiny_source("qwen2") / "config.json", tmp_path)
    tokenizer_files.save(ours, tmp_path)
    for text in ("나는 2024년에 don't\n\n", *lines[:5]):
        assert AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"] == ours(text)["input_ids"]


@pytest.mark.parametrize("wanted", [64, 700])
@pytest.mark.parametrize("family", ["bloom", "t5", "gpt2"])
def test_a_source_that_names_no_length_reads_as_much_as_is_wanted(
    family, wanted, tiny_source, korean_text
):
    recipe = of_kind(tiny_source(family), korean_text, "source", max_tokens=wanted)
    expected = LONGEST if family == "gpt2" else max(wanted, 512)
    assert stages.position_settings(recipe) == (None, expected)
