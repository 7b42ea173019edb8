import tomllib

import pytest
from script_modules import load

from lingraft.errors import RecipeError
from lingraft.recipe.decoding import decode, to_toml
from lingraft.recipe.methods import recipe_from

OLD = """# A comment.
language = "ko"

[source]
model = "m"

[corpus]
text = ["ko.txt"]
sentences = 100   # of them

[tokenizer]
kind = "unigram"
normalisation = "nfkc"

[graft]
layers_before = 2
embeddings = "focus"   # by likeness
layer_initialiser = "copy"

[resources]
vector_width = 64

[method]
name = "xpt"
preset = "xpt2021"

[[phases]]
name = "one"
train = ["embeddings", "itl"]
join_sentences = true
[phases.budget]
value = 9
[phases.optimiser]
learning_rate = 1e-3

[training]
precision = "fp32"

[evaluation]
sentences = 7
rate = 0.3

[export]
licence = "mit"
"""


def test_an_old_recipe_becomes_a_present_one_with_its_comments():
    new = load("convert_recipe").converted(OLD)
    recipe = recipe_from(tomllib.loads(new))
    assert (recipe.corpus.max_train_sentences, recipe.tokenizer.algorithm) == (100, "unigram")
    assert (recipe.embeddings.init, recipe.embeddings.vector_width) == ("focus", 64)
    assert (recipe.graft.inserted_before, recipe.graft.inserted_init) == (2, "copy")
    (phase,) = recipe.phases
    assert phase.trained == {"embeddings", "inserted"}
    assert (phase.packing, phase.optimizer.learning_rate) == (True, 1e-3)
    assert (recipe.hardware.precision, recipe.evaluation.masking_rate) == ("fp32", 0.3)
    assert recipe.export.license == "mit"
    assert {"# A comment.", "# of them", "# by likeness"} <= {
        line[line.index("#") :] for line in new.splitlines() if "#" in line
    }
    assert load("convert_recipe").converted(to_toml(recipe)) == to_toml(recipe)


def test_a_study_has_its_settings_and_axes_renamed():
    old = (
        'name = "s"\nbase = "b.toml"\n[set]\n"method.batch" = { size = 8 }\n'
        '[[grids]]\nmethod = ["xpt"]\n"graft.embeddings" = ["mean"]\n"tokenizer.kind" = ["keep"]\n'
        '[[rules]]\nwhen = { method = "xpt" }\nset = { "phases.1.optimiser.betas" = [0.9, 0.9] }\n'
    )
    new = tomllib.loads(load("convert_recipe").converted(old))
    assert new["set"] == {"training.batch": {"size": 8}}
    assert set(new["grids"][0]) == {"method", "embeddings.init", "tokenizer.action"}
    assert new["rules"][0]["when"] == {"method": "xpt"}
    assert set(new["rules"][0]["set"]) == {"phases.1.optimizer.betas"}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"method": {"name": "xpt"}}, "method.name: is training.method now"),
        ({"training": {"precision": "fp32"}}, "training.precision: is hardware.precision now"),
        ({"graft": {"embeddings": "mean"}}, "graft.embeddings: is embeddings.init now"),
        ({"resources": {"parallel": []}}, "resources.parallel: is no key any more"),
        ({"evaluation": {"choices": []}}, "evaluation.choices: is no key any more"),
    ],
)
def test_an_old_key_is_refused_in_one_line_that_names_the_new_one(tables, said):
    small = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["ko.txt"]}}
    with pytest.raises(RecipeError) as caught:
        decode(small | tables)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
