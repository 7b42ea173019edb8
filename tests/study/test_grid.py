"""From a study's file to its cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_study import HEAD, write_study

from lingraft.errors import RecipeError
from lingraft.recipe.decoding import load
from lingraft.study import grid, recipe
from lingraft.study.recipe import read_study


@pytest.fixture
def study(tmp_path, tiny_source, korean_text):
    def written(body, head=HEAD, **changes):
        return write_study(tmp_path, tiny_source("roberta"), korean_text, body, head, **changes)

    return written


def cells(study, *only):
    return grid.chosen(grid.cells(study), only)


def ids(found):
    return [cell.id for cell in found]


GRID = '[[grids]]\nmethod = ["scratch", "xpt"]\nsentences = [100, 200]\nseed = [0, 1]\n'


def test_a_study_is_the_union_of_its_grids_in_their_order(study):
    found = cells(study(f'{GRID}[[grids]]\nmethod = ["xpt-sp"]\nseed = [7]\n'))
    assert ids(found) == [
        "scratch-n100-s0", "scratch-n100-s1", "scratch-n200-s0", "scratch-n200-s1",
        "xpt-n100-s0", "xpt-n100-s1", "xpt-n200-s0", "xpt-n200-s1", "xpt-sp-s7",
    ]  # fmt: skip
    assert found[3].axes == {"method": "scratch", "sentences": 200, "seed": 1}
    assert found[3].recipe.training.method == "scratch"
    assert found[3].recipe.seed == 1
    assert {phase.max_train_sentences for phase in found[3].recipe.phases} == {200}
    assert found[-1].axes["sentences"] is None


def test_what_a_method_prescribes_wins_over_what_the_base_writes_out(study):
    body = '[[grids]]\nmethod = ["xpt-sp", "scratch", "adapters", "auto"]\n'
    written = {"graft": {"source_weights": "pretrained", "inserted_before": 2}}
    written |= {"embeddings": {"init": "focus"}}
    made = {cell.axes["method"]: cell.recipe for cell in cells(study(body, **written))}
    by_xpt = {name: recipe.graft for name, recipe in made.items()}
    assert (made["xpt-sp"].embeddings.init, by_xpt["xpt-sp"].inserted_before) == ("focus", 2)
    assert made["scratch"].embeddings.init == by_xpt["scratch"].source_weights == "random"
    assert by_xpt["scratch"].inserted_before == 2
    assert (by_xpt["adapters"].adapters, by_xpt["adapters"].inserted_before) == ("matched", 0)
    assert by_xpt["auto"].source_weights == "pretrained"
    training = {"method": "scratch", "preset": "xpt2021", "budget": {"value": 4}}
    found = cells(study(body, training=training | {"batch": {"size": 8}}))
    weights = {cell.axes["method"]: cell.recipe.graft.source_weights for cell in found}
    assert weights == dict.fromkeys(weights, "pretrained") | {"scratch": "random"}


def test_a_recipe_that_occurs_twice_is_one_cell(study):
    body = '[[grids]]\nmethod = ["xpt"]\nseed = [0]\n'
    body += '[[grids]]\nmethod = ["xpt"]\n"embeddings.init" = ["random", "match"]\n'
    found = cells(study(body))
    assert len(found) == 2
    assert found[0].id == "xpt-s0"
    assert found[1].axes["embeddings.init"] == "match"


def test_rules_apply_to_the_cells_that_match_and_axes_win_over_them(study):
    body = '[[grids]]\nmethod = ["scratch", "xpt-sp"]\n"training.learning_rate" = [1e-3]\n'
    body += '[[grids]]\nmethod = ["scratch"]\nseed = [5]\n[[rules]]\nwhen.method = "scratch"\n'
    body += 'set = { "training.learning_rate" = 2e-3, "phases.0.dropout" = 0.25 }\n'
    found = cells(study(body))
    assert [cell.recipe.phases[0].optimizer.learning_rate for cell in found] == [1e-3, 1e-3, 2e-3]
    assert [cell.recipe.phases[0].dropout for cell in found] == [0.25, None, 0.25]


def test_only_takes_methods_ids_and_conditions(study):
    whole = study(GRID)
    assert ids(cells(whole, "xpt")) == [f"xpt-n{n}-s{s}" for n in (100, 200) for s in (0, 1)]
    assert ids(cells(whole, "method=x*,sentences=200", "scratch-n100-s1")) == [
        "scratch-n100-s1", "xpt-n200-s0", "xpt-n200-s1",
    ]  # fmt: skip
    assert len(cells(whole)) == 8
    with pytest.raises(RecipeError, match="--only xpt-sp: no cell matches; cells: scratch-n100-s0"):
        cells(whole, "xpt-sp")


RULE = '[[grids]]\nseed = [0]\n[[rules]]\nwhen = {{ {} }}\nset = {{ "seed" = 1 }}\n'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[[grids]]\nsentence = [3]\n", "study 'tiny', cell sentence=3: sentence: no such key"),
        (GRID + '[select]\n"a.b" = "dev"\n', "select: a.b is an axis of no grid"),
        (
            '[[grids]]\n"tokenizer.vocab_size" = [1]\n[select]\n"tokenizer.vocab_size" = "dev"\n',
            "losses by other tokens do not compare",
        ),
        (RULE.format("seed = 3"), 'rules.0: no cell matches { "seed" = 3 }'),
        (
            '[[grids]]\n"training.budget" = ["5 minutes"]\n',
            "give budgets in tokens, steps or epochs",
        ),
        (
            '[[grids]]\n"embeddings.init" = ["wechsel"]\n',
            "'wechsel' needs a bilingual lexicon; set embeddings.lexicons",
        ),
    ],
)
def test_what_is_wrong_with_a_study_is_one_line(study, body, message):
    with pytest.raises(RecipeError) as caught:
        grid.cells(study(body))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/studies.md"
SHIPPED = sorted(path for path in (ROOT / "recipes").glob("*.toml") if "base" in load(path))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_study_that_ships_has_cells_and_the_name_of_its_file(path):
    study = read_study(path)
    assert study.name == path.stem
    assert cells(study)


class TestFingerprint:
    @pytest.fixture
    def of(self, study):
        def fingerprint(**changes):
            (cell,) = cells(study('[[grids]]\nmethod = ["xpt"]\n', **changes))
            return recipe.of_cell(cell.recipe, recipe.shared(cell.recipe)["tokenizer"])

        return fingerprint

    def test_does_not_depend_on_names_places_times_or_the_machine(self, of, tmp_path, korean_text):
        moved = tmp_path / "moved.txt"
        moved.write_bytes(korean_text.read_bytes())
        text = {"text": [str(moved)], "valid": 0.05, "test": 0.1}
        first = of()
        assert of(name="other", corpus=text) == first
        assert of(hardware={"row_tokens": 32}, export={"license": "mit"}) == first
        assert of(embeddings={"lexicons": ["nowhere.txt"]}) == first

    @pytest.mark.parametrize(
        "changes",
        [
            {"seed": 1},
            {"tokenizer": {"vocab_size": 301, "max_tokens": 64}},
            {"evaluation": {"max_sentences": 20, "max_words": 21}},
            {"embeddings": {"init": "match"}},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_depends_on_everything_that_decides_the_result(self, of, changes):
        assert of(**changes) != of()

    def test_depends_on_text_source_and_resources(self, of, tmp_path, korean_text, tiny_source):
        text = tmp_path / "more.txt"
        text.write_text(korean_text.read_text() + "문장 하나 더.\n")
        lexicon = tmp_path / "lexicon.tsv"
        with_lexicon = {"embeddings": {"init": "dictionary", "lexicons": [str(lexicon)]}}
        lexicon.write_text("집\thouse\n")
        found = [of(), of(**with_lexicon)]
        lexicon.write_text("집\thome\n")
        found.append(of(**with_lexicon))
        found.append(of(corpus={"text": [str(text)], "valid": 0.05, "test": 0.1}))
        found.append(of(source={"model": str(tiny_source("bert"))}))
        prompts = tmp_path / "prompts.txt"
        for asked in ("비가 옵니까?", "누가 옵니까?"):
            prompts.write_text(asked)
            found.append(of(evaluation={"prompts": str(prompts)}))
        assert len(set(found)) == len(found)


def test_cells_of_auto_share_the_vocabulary_of_the_base(study, tiny_source, korean_text, tmp_path):
    budgets = ", ".join(f'{{ value = {n}, unit = "tokens" }}' for n in ("20e3", "1e8"))
    body = f'[[grids]]\nmethod = ["auto", "scratch"]\n"training.budget" = [{budgets}]\n'
    read = study(body, 'name = "tiny"\nbase = "base.toml"\n')
    bare = f'language = "ko"\nsource.model = "{tiny_source("bert")}"\n'
    bare += f'corpus.text = ["{korean_text}"]\n'
    (tmp_path / "base.toml").write_text(bare)
    with pytest.raises(RecipeError, match=r"give tokenizer\.vocab_size: cells share"):
        cells(read)
    (tmp_path / "base.toml").write_text(bare + "tokenizer.vocab_size = 400\n")
    found = cells(read)
    assert len({cell.recipe.phases[0].batch.size for cell in found}) > 1
    assert {cell.recipe.tokenizer.vocab_size for cell in found} == {400}
    assert [cell.axes["method"] for cell in found] == ["auto", "auto", "scratch", "scratch"]


def test_cells_of_auto_read_what_the_others_read(study, tiny_source, korean_text, tmp_path):
    body = '[[grids]]\nmethod = ["auto", "xpt-sp"]\n'
    read = study(body, 'name = "tiny"\nbase = "base.toml"\n')
    bare = f'source.model = "{tiny_source("bert")}"\ntokenizer.vocab_size = 400\n'
    bare += 'training = { budget = "20000 tokens", replay = { en = 0.2 }, packing = true }\n'
    for language in ("en", "ko"):
        bare += f'[[streams]]\nname = "{language}"\nlanguage = "{language}"\n'
        bare += f'corpus.text = ["{korean_text}"]\n'
    (tmp_path / "base.toml").write_text(bare)
    auto, given = (cell.recipe for cell in cells(read))
    assert [entry.share for entry in auto.phases[0].data] == [0.2, None]
    assert auto.phases[0].data == given.phases[0].data
    assert auto.phases[0].packing
    assert recipe.shared(auto) == recipe.shared(given)
