"""What holds for every method on every family: a new line in METHODS is tested by this."""

from __future__ import annotations

import functools

import pytest
import torch
from papers import papers
from tiny_shapes import ENCODERS

from lingraft.models.families import FAMILIES
from lingraft.models.parts import part_of
from lingraft.models.source import load_model
from lingraft.pipeline import adapt as pipeline, evaluating, preflight, stages
from lingraft.pipeline.stages import Context
from lingraft.recipe import Validation
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import recipe_from
from lingraft.recipe.records import METHODS
from lingraft.rundir import Run

WHOLE = list(METHODS)[: list(METHODS).index("untouched")]
"""Those whose phases name whole parts; the others are in test_row_methods.py."""
CASES = [(ENCODERS[place % len(ENCODERS)], method) for place, method in enumerate(WHOLE)]
"""Every method on one family, and every family under several methods."""
SMALL = {
    "tokenizer": {"vocab_size": 400, "max_tokens": 32},
    "hardware": {"precision": "fp32", "row_tokens": 32},
    "evaluation": {"max_sentences": 4, "max_words": 2, "samples": 1},
}


METHOD = {"budget": {"value": 4}, "batch": {"size": 4}, "learning_rate": 0.01, "warmup": 0}


@pytest.fixture(scope="module")
def accelerator(one_process):
    with one_process() as made:
        yield made


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory, korean_text):
    """A dictionary of whatever a piece that starts a Korean word can be."""
    words = korean_text.read_text(encoding="utf-8").split()
    starts = {word[:length] for word in words for length in range(1, len(word) + 1)}
    path = tmp_path_factory.mktemp("lexicon") / "ko-en.txt"
    path.write_text("".join(f"{start}\tthe\n" for start in sorted(starts)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pair_streams(tmp_path_factory, korean_text):
    """Paragraphs of four sentences, and as many made-up translations."""
    folder, lines = tmp_path_factory.mktemp("pairs"), korean_text.read_text("utf-8").split("\n")
    blocks = ["\n".join(lines[i : i + 4]) for i in range(0, 400, 4)]
    (folder / "ko.txt").write_text("\n\n".join(blocks), "utf-8")
    pairs = [f"{one.split()[0]}\ttree {i}\n" for i, one in enumerate(lines[:100])]
    (folder / "ko-en.tsv").write_text("".join(pairs), "utf-8")
    paragraphs = {"text": [str(folder / "ko.txt")], "document": "block", "deduplicate": False}
    return [
        {"name": "ko", "language": "ko", "corpus": paragraphs},
        {"name": "ko-en", "language": "ko/en", "corpus": {"text": [str(folder / "ko-en.tsv")]}},
    ]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory, tiny_source, korean_text, pair_streams, lexicon, accelerator):
    """A finished run of a few steps: its context. Methods share text and vocabulary by family."""
    root = tmp_path_factory.mktemp("methods")

    def context(family, method, folder, parent=None):
        tables = {
            "source": {"model": str(tiny_source(family))},
            "training": METHOD | papers(method),
            "embeddings": {"lexicons": [str(lexicon)]},
        }
        if any(template.objectives for template in METHODS[method].phases):
            tables["streams"] = pair_streams
        else:
            tables |= {
                "language": "ko",
                "corpus": {"min_characters": 2, "text": [str(korean_text)]},
            }
        recipe = recipe_from(SMALL | tables)
        phases = []
        for phase in recipe.phases:
            # each look writes weights
            change = {"validation": Validation(every_steps=2, max_sentences=4)}
            if phase.distil:
                change["distil"] = phase.distil.model_copy(update={"stream": ""})
            phases.append(phase.model_copy(update=change))
        recipe = recipe.model_copy(update={"phases": tuple(phases)})
        (root / folder).mkdir(parents=True, exist_ok=True)
        run = Run(root / folder, parent)
        run.recipe_path.write_text(to_toml(recipe), encoding="utf-8")
        return Context(recipe, run, accelerator)

    @functools.cache
    def shared(family, kind):
        method = next(name for name, m in METHODS.items() if m.tokenizer.get("action") == kind)
        made = context(family, method, f"{family}-{kind}")
        return made.run.path, stages.tokenizer(made, stages.corpus(made))

    @functools.cache
    def run(family, method):
        if any(template.objectives for template in METHODS[method].phases):
            parent, made = None, context(family, method, f"{family}/{method}")
            tokenizer_made = stages.tokenizer(made, stages.corpus(made))
        else:
            parent, tokenizer_made = shared(family, METHODS[method].tokenizer.get("action"))
            made = context(family, method, f"{family}/{method}", parent)
        trained = pipeline.train(made, pipeline.graft(made, tokenizer_made))
        pipeline.export(made, trained, evaluating.evaluate(made, trained))
        return made

    return run


@functools.cache
def model(folder):
    return load_model(str(folder)).model


def tensors(folder):
    return dict(model(folder).named_parameters())


@pytest.mark.parametrize(("family", "method"), CASES)
def test_a_run_trains_what_its_phases_name_and_leaves_the_rest_bit_identical(
    family, method, run_of
):
    made = run_of(family, method)
    graft = made.recipe.graft
    for index, phase in enumerate(made.recipe.phases):
        before, after = (tensors(stages.weights_before(made, i)) for i in (index, index + 1))
        depth = model(stages.weights_before(made, index)).config.num_hidden_layers
        itl = graft.places.inserted(depth)
        named = phase.trained
        assert before.keys() == after.keys()
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        moved = {part_of(name, FAMILIES[family], itl) for name in changed}
        present = {part_of(name, FAMILIES[family], itl) for name in before}
        assert moved == named & present


@pytest.mark.parametrize(("family", "method"), CASES)
def test_the_model_that_a_method_exports_loads_and_is_the_one_that_was_trained(
    family, method, run_of
):
    made = run_of(family, method)
    exported = tensors(made.run.model_path)
    trained = tensors(stages.weights_before(made, len(made.recipe.phases)))
    assert exported.keys() == trained.keys()
    assert all(torch.equal(exported[name], trained[name]) for name in exported)
    assert made.run.stage("evaluation").result()["metrics"]["mask-only"]["perplexity"] > 1


@pytest.mark.parametrize(("family", "method"), CASES)
def test_the_plan_of_a_method_has_the_sizes_of_its_model(family, method, run_of):
    made = run_of(family, method)
    graft, vocabulary = made.run.stage("graft").result(), made.run.stage("tokenizer").result()
    section = made.recipe.tokenizer.model_copy(update={"vocab_size": vocabulary["vocab_size"]})
    plan = preflight.check(made.recipe.model_copy(update={"tokenizer": section}))
    said, done = plan.by_part, graft["parameters"]["by_part"]
    if section.action in ("add", "keep"):  # at most: what is added, and rows without a piece
        for part in ("embeddings", "output_bias"):
            most, rows = said.pop(part), done.pop(part)
            assert most > rows or (most == rows and section.action == "keep")
    assert said == done
