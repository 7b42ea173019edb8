from __future__ import annotations

import shutil

import pytest
import torch
from tiny_shapes import LONGEST
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from lingraft.corpus import aligned
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.pipeline import checks, completing, preflight, stages
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


def test_learning_rates_of_parts_are_told_beside_that_of_the_rest(adapted):
    rates = "{learning_rate=1e-3, rates={embeddings=4e-3, output_bias=2.5e-4}}"
    plan = planned(adapted("bert"), f"phases.0.optimizer={rates}")
    assert plan.phases[0]["learning_rates"] == "0.001; embeddings 0.004; output bias 0.00025"


def test_estimates_of_disk_cover_what_a_run_takes(adapted):
    run = adapted("modernbert")
    plan = planned(run)
    tensors = sum(path.stat().st_size for path in run.rglob("*.safetensors"))
    assert tensors / 2 < plan.disk_bytes_estimate < 5 * tensors


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


def test_settings_of_an_output_projection_that_is_tied_are_named(tiny_source, korean_text):
    section = {"output_init": "mean", "output_norms": "all"}
    notes = preflight.check(small(tiny_source, korean_text, embeddings=section)).notes
    for key in section:
        assert any(note.startswith(f"embeddings.{key} is without effect") for note in notes)
    assert not any(
        "effect" in one for one in preflight.check(small(tiny_source, korean_text)).notes
    )


def test_a_t5_from_nothing_has_no_sentinels_for_spans(tiny_source, korean_text):
    tables = {
        "source": {"architecture": {"model_type": "t5", "d_model": 32, "num_layers": 2}},
        "tokenizer": {"algorithm": "unigram"},
        "training": {"method": "scratch", "preset": "xpt2021"},
    }
    with pytest.raises(RecipeError, match=r"phase 'phase-1': masking\.scheme: 'spans'.*infilling"):
        preflight.check(small(tiny_source, korean_text, **tables))
    phase = {"name": "one", "train": ["all"], "budget": {"value": 1}}
    tables |= {"phases": [phase | {"masking": {"scheme": "infilling"}}]}
    assert preflight.check(small(tiny_source, korean_text, **tables)).model_type == "t5"


def test_a_causal_model_reads_sentence_pairs_as_they_are(tiny_source, korean_text, tmp_path):
    (tmp_path / "ko-en.tsv").write_text("집\ta house\n", encoding="utf-8")
    texts = {"ko": ("ko", korean_text), "both": ("ko/en", tmp_path / "ko-en.tsv")}
    streams = [
        {"name": name, "language": language, "corpus": {"text": [str(path)]}}
        for name, (language, path) in texts.items()
    ]
    recipe = recipe_from({"source": {"model": str(tiny_source("llama"))}, "streams": streams})
    plain, pairs = preflight.check(recipe).recipe.streams
    assert not plain.corpus.split_sentences
    aligned.check_stream(pairs.corpus)


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


def test_layers_that_are_decided_on_are_checked_before_anything_is_made(
    tiny_source, korean_text, norm_bias
):
    """Of little training there are none, and nothing is wrong with that."""

    def asked(tokens):
        auto = {"budget": {"value": tokens, "unit": "tokens"}}
        return small(tiny_source, korean_text, source=norm_bias, training=auto)

    little = completing.complete(asked(300_000)).recipe
    assert not any(little.graft.places)
    checks.check_inputs(little)
    with pytest.raises(UnsupportedModelError, match="with norm_bias this modernbert model"):
        completing.complete(asked(30_000_000))


def test_an_unknown_architecture_is_refused(tiny_source, korean_text):
    recipe = small(
        tiny_source,
        korean_text,
        source={"architecture": {"model_type": "xlnet"}},
        training={"method": "scratch", "preset": "xpt2021"},
        tokenizer={"algorithm": "unigram"},
    )
    with pytest.raises(UnsupportedModelError, match="models of type 'xlnet'"):
        preflight.check(recipe)


def test_an_architecture_with_a_baseline_that_needs_weights_is_refused(tiny_source, korean_text):
    recipe = small(
        tiny_source,
        korean_text,
        source={"architecture": {"model_type": "bert"}},
        training={"method": "scratch", "preset": "xpt2021"},
        tokenizer={"algorithm": "unigram"},
        baselines=[{"method": "xpt"}],
    )
    with pytest.raises(RecipeError, match="there are no weights to start from"):
        preflight.check(recipe)


@pytest.mark.parametrize("content", [b"", b"x" * 99, b"\x02\0\0\0\0\0\0\0[]"])
def test_broken_weights_are_refused(content, tiny_source, korean_text, tmp_path):
    folder = shutil.copytree(tiny_source("bert"), tmp_path / "source")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"weights of source model .* cannot be loaded"):
        preflight.check(small(tiny_source, korean_text, source={"model": str(folder)}))


def test_weights_of_another_model_are_refused(tiny_source, korean_text, tmp_path):
    folder = shutil.copytree(tiny_source("bert"), tmp_path / "source")
    shutil.copy(tiny_source("modernbert") / "config.json", folder)
    with pytest.raises(DataError, match=r"its weights lack .* of a modernbert model"):
        preflight.check(small(tiny_source, korean_text, source={"model": str(folder)}))


@pytest.mark.parametrize("kind", ["source", "replace", "keep", "extend", "append", "trim"])
def test_an_architecture_has_no_source_tokenizer(kind, tiny_source, korean_text):
    recipe = small(
        tiny_source,
        korean_text,
        source={"architecture": {"model_type": "bert"}},
        training={"method": "scratch", "preset": "xpt2021"},
        tokenizer=keys_of(kind),
    )
    with pytest.raises(RecipeError, match="needs a source model"):
        preflight.check(recipe)


def test_a_source_with_adapters_is_refused_before_anything_is_made(
    tiny_source, korean_text, tmp_path
):
    folder = shutil.copytree(tiny_source("bert"), tmp_path / "source")
    (folder / "adapters.json").write_text("{}")
    with pytest.raises(UnsupportedModelError, match="has adapters, which cannot be grafted onto"):
        preflight.check(small(tiny_source, korean_text, source={"model": str(folder)}))


@pytest.mark.parametrize(
    ("key", "value"),
    [("lexicons", ["./no.tsv"]), ("source_text", ["./no.tsv"]), ("target_vectors", "./no.tsv")],
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


def test_a_baseline_that_needs_another_tokenizer_is_refused(tiny_source, korean_text):
    recipe = small(tiny_source, korean_text, baselines=[{"method": "lapt"}])
    with pytest.raises(RecipeError, match="method 'lapt' needs"):
        preflight.check(recipe)


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


def test_a_plan_that_can_learn_has_no_such_note(tiny_source, korean_text):
    steps = {"value": 60}
    assert too_small(tiny_source, korean_text) == []
    assert too_small(tiny_source, korean_text, budget=steps, learning_rate=2e-3) == []


def test_embeddings_that_learn_faster_move_as_far_as_their_own_rate_allows(
    tiny_source, korean_text
):
    few = {"method": "xpt-sp", "budget": {"value": 60}}
    assert too_small(tiny_source, korean_text, **few)
    assert too_small(tiny_source, korean_text, **few, embedding_rate_factor=8) == []


def test_steps_that_depend_on_the_text_are_not_judged(tiny_source, korean_text):
    assert too_small(tiny_source, korean_text, budget={"value": 1, "unit": "epochs"}) == []


def test_training_on_with_nothing_new_is_never_called_too_small(tiny_source, korean_text):
    assert too_small(tiny_source, korean_text, method="continued", budget={"value": 2}) == []


def test_adapt_warns_before_it_trains_on_a_plan_that_is_too_small(shorthand, command, tmp_path):
    ended = command(*shorthand(tmp_path / "run"))
    assert "the plan is too small to learn from" in ended.err


@pytest.mark.parametrize(
    ("method", "notes"), [({"method": "metaxlm"}, 1), ({"method": "metaxlm-dict"}, 0)]
)
def test_dictionaries_that_nothing_reads_are_noted(
    method, notes, tiny_source, korean_text, tmp_path
):
    (tmp_path / "ko.tsv").write_text("나무\ttree\n", encoding="utf-8")
    resources = {"lexicons": [str(tmp_path / "ko.tsv")]}
    recipe = small(tiny_source, korean_text, training=method, embeddings=resources)
    said = preflight.check(recipe).notes
    assert sum("reads no dictionaries" in note for note in said) == notes
    beside = small(
        tiny_source,
        korean_text,
        training={"method": "metaxlm"},
        baselines=[{"method": "metaxlm-dict"}],
        embeddings=resources,
    )
    assert checks.unread(beside) == []


def of_kind(source, text, kind, **tokenizer):
    return recipe_from(
        {
            "language": "ko",
            "source": {"model": str(source)},
            "corpus": {"text": [str(text)]},
            "tokenizer": keys_of(kind) | {"vocab_size": 400, "new_pieces": 40} | tokenizer,
        }
    )


@pytest.mark.parametrize("kind", ["unigram", "byte-bpe", "wordpiece"])
def test_a_vocabulary_that_transformers_would_read_otherwise_is_refused(
    kind, tiny_source, korean_text, tmp_path
):
    source = shutil.copytree(tiny_source("qwen2"), tmp_path / "no-chat")
    (source / "chat_template.jinja").unlink()
    with pytest.raises(RecipeError, match=f"family's own pattern.* than this '{kind}'"):
        preflight.check(of_kind(source, korean_text, kind))


@pytest.mark.parametrize("kind", ["keep", "source", "replace", "extend", "append", "trim"])
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
