"""From a study's file to its cells."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from tiny_study import HEAD, write_study

from lingraft.errors import RecipeError
from lingraft.recipe.decoding import load
from lingraft.recipe.methods import recipe_from
from lingraft.study import grid, inputs
from lingraft.study.recipe import decode, read_study, to_toml


@pytest.fixture
def study(tmp_path, tiny_source, korean_text):
    def written(body, head=HEAD, **changes):
        return write_study(tmp_path, tiny_source("roberta"), korean_text, body, head, **changes)

    return written


def cells(study, *only):
    return grid.chosen(grid.cells(study), only)


def ids(found):
    return [cell.id for cell in found]


def test_a_study_is_the_union_of_its_grids_in_their_order(study):
    found = cells(
        study(
            '[[grids]]\nmethod = ["scratch", "xpt"]\nsentences = [100, 200]\nseed = [0, 1]\n'
            '[[grids]]\nmethod = ["xpt-sp"]\nseed = [7]\n'
        )
    )
    assert ids(found) == [
        "scratch-n100-s0", "scratch-n100-s1", "scratch-n200-s0", "scratch-n200-s1",
        "xpt-n100-s0", "xpt-n100-s1", "xpt-n200-s0", "xpt-n200-s1", "xpt-sp-s7",
    ]  # fmt: skip
    assert found[3].axes == {"method": "scratch", "sentences": 200, "seed": 1}
    assert found[3].recipe.training.method == "scratch"
    assert found[3].recipe.seed == 1
    assert {phase.max_train_sentences for phase in found[3].recipe.phases} == {200}
    assert found[-1].axes["sentences"] is None


def test_a_method_fills_in_the_phases_that_the_base_recipe_gives_itself(study):
    (cell,) = cells(study('[[grids]]\nmethod = ["xpt"]\n'))
    assert [phase.name for phase in cell.recipe.phases] == ["phase-1", "phase-2"]
    assert sum(phase.budget.value for phase in cell.recipe.phases) == 4
    assert cell.recipe.baselines == ()


def test_what_a_method_prescribes_wins_over_what_the_base_writes_out(study):
    body = '[[grids]]\nmethod = ["xpt-sp", "scratch", "adapters", "auto"]\n'
    written = {
        "graft": {"source_weights": "pretrained", "inserted_before": 2},
        "embeddings": {"init": "focus"},
    }
    made = {cell.axes["method"]: cell.recipe for cell in cells(study(body, **written))}
    by_xpt = {name: recipe.graft for name, recipe in made.items()}
    assert (made["xpt-sp"].embeddings.init, by_xpt["xpt-sp"].inserted_before) == ("focus", 2)
    assert made["scratch"].embeddings.init == by_xpt["scratch"].source_weights == "random"
    assert by_xpt["scratch"].inserted_before == 2
    assert (by_xpt["adapters"].adapters, by_xpt["adapters"].inserted_before) == ("matched", 0)
    assert by_xpt["auto"].source_weights == "pretrained"
    of_scratch = {
        "training": {
            "method": "scratch",
            "preset": "xpt2021",
            "budget": {"value": 4},
            "batch": {"size": 8},
        }
    }
    by_scratch = {
        cell.axes["method"]: cell.recipe.graft for cell in cells(study(body, **of_scratch))
    }
    assert by_scratch["scratch"].source_weights == "random"
    assert by_scratch["xpt-sp"].source_weights == by_scratch["auto"].source_weights == "pretrained"


def test_a_recipe_that_occurs_twice_is_one_cell(study):
    found = cells(
        study(
            '[[grids]]\nmethod = ["xpt"]\nseed = [0]\n'
            '[[grids]]\nmethod = ["xpt"]\n"embeddings.init" = ["random", "match"]\n'
        )
    )
    assert len(found) == 2
    assert found[0].id == "xpt-s0"
    assert found[1].axes["embeddings.init"] == "match"


def test_ids_show_further_axes_and_do_not_depend_on_the_other_cells(study):
    body = '[[grids]]\nmethod = ["xpt"]\n"embeddings.init" = ["match", "mean"]\n'
    first = ids(cells(study(body)))
    assert [name.startswith("xpt-s0-") for name in first] == [True, True]
    assert "-match-" in first[0]
    assert ids(cells(study(body.replace('"match", ', ""))))[0] == first[1]


def test_rules_apply_to_the_cells_that_match_and_axes_win_over_them(study):
    found = cells(
        study(
            '[[grids]]\nmethod = ["scratch", "xpt-sp"]\n"training.learning_rate" = [1e-3]\n'
            '[[grids]]\nmethod = ["scratch"]\nseed = [5]\n'
            '[[rules]]\nwhen = { method = "scratch" }\n'
            'set = { "training.learning_rate" = 2e-3, "phases.0.dropout" = 0.25 }\n'
        )
    )
    rates = [cell.recipe.phases[0].optimizer.learning_rate for cell in found]
    assert rates == [1e-3, 1e-3, 2e-3]
    assert [cell.recipe.phases[0].dropout for cell in found] == [0.25, None, 0.25]


def test_only_takes_methods_ids_and_conditions(study):
    whole = study('[[grids]]\nmethod = ["scratch", "xpt"]\nsentences = [100, 200]\nseed = [0, 1]\n')
    assert ids(cells(whole, "xpt")) == [f"xpt-n{n}-s{s}" for n in (100, 200) for s in (0, 1)]
    assert ids(cells(whole, "method=x*,sentences=200", "scratch-n100-s1")) == [
        "scratch-n100-s1", "xpt-n200-s0", "xpt-n200-s1",
    ]  # fmt: skip
    assert len(cells(whole)) == 8


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("size=3", "--only size=3: 'size' is no axis; axes: method, seed, sentences"),
        ("xpt-sp", "--only xpt-sp: no cell matches; cells: xpt-s0"),
    ],
)
def test_only_says_what_it_does_not_know(study, only, message):
    with pytest.raises(RecipeError) as caught:
        cells(study('[[grids]]\nmethod = ["xpt"]\n'), only)
    assert str(caught.value) == message


ERRORS = {
    "an axis that is no key of a recipe": (
        "[[grids]]\nsentence = [3]\n",
        "grids: 'sentence' is no axis: write method, sentences or a dotted path of a recipe",
    ),
    "a path that a recipe lacks": (
        '[[grids]]\n"training.lerning_rate" = [1e-3]\n',
        "study 'tiny', cell training.lerning_rate=0.001: training.lerning_rate: no such key. "
        "Did you mean 'learning_rate'?",
    ),
    "a rule about something that is no axis": (
        '[[grids]]\nseed = [0]\n[[rules]]\nwhen = { methods = "xpt" }\nset = { "seed" = 1 }\n',
        "rules.0.when: 'methods' is no axis of a grid; axes: seed",
    ),
    "a rule that no cell matches": (
        '[[grids]]\nseed = [0]\n[[rules]]\nwhen = { seed = 3 }\nset = { "seed" = 1 }\n',
        'rules.0: no cell matches { "seed" = 3 }; correct it or leave it out',
    ),
}


@pytest.mark.parametrize(("body", "message"), ERRORS.values(), ids=ERRORS)
def test_what_is_wrong_with_a_study_is_one_line(study, body, message):
    with pytest.raises(RecipeError) as caught:
        grid.cells(study(body))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_in_place_of_a_study_is_told_apart(study, tmp_path):
    study("[[grids]]\nseed = [0]\n")
    with pytest.raises(RecipeError, match="is a recipe, not a study"):
        read_study(tmp_path / "base.toml")


def test_a_study_that_was_written_out_has_the_same_cells(study, tmp_path):
    whole = study('[[grids]]\nmethod = ["xpt"]\n"embeddings.init" = ["match"]\n')
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "copy.toml"
    copy.write_text(to_toml(whole))
    assert cells(read_study(copy)) == cells(whole)


ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/studies.md"
SHIPPED = sorted(path for path in (ROOT / "recipes").glob("*.toml") if "base" in load(path))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_study_that_ships_has_cells_and_the_name_of_its_file(path):
    study = read_study(path)
    assert study.name == path.stem
    assert cells(study)


def test_the_study_file_in_the_guide_has_cells():
    blocks = re.findall(r"^```toml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    data = tomllib.loads("".join(blocks))
    assert [task["name"] for task in data["tasks"]] == ["korsts", "klue-nli"]
    found = cells(decode(data | {"base": str(ROOT / "recipes" / data["base"])}))
    assert len(found) == 3 * 3 * 3 + 2 + 2
    assert {len(cell.tunings) for cell in found} == {1, 4}
    assert {cell.recipe.phases[-1].optimizer.learning_rate for cell in found} == {2e-3, 3e-3}


class TestFingerprint:
    @pytest.fixture
    def of(self, study):
        def fingerprint(**changes):
            (cell,) = cells(study('[[grids]]\nmethod = ["xpt"]\n', **changes))
            return inputs.of_cell(cell.recipe)

        return fingerprint

    def test_does_not_depend_on_names_places_times_and_the_use_of_the_machine(
        self, of, tmp_path, korean_text
    ):
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

    def test_depends_on_the_content_of_text_source_and_resources(
        self, of, tmp_path, korean_text, tiny_source
    ):
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
        assert len(set(found)) == len(found)

    def test_depends_on_the_content_of_what_judges_and_teaches_and_not_on_its_place(
        self, of, tmp_path, tiny_source
    ):
        def with_kept(name, text):
            path = tmp_path / name
            path.write_text(text)
            return of(evaluation={"max_sentences": 20, "max_words": 20, "kept": [str(path)]})

        assert with_kept("one.txt", "A text.") == with_kept("two.txt", "A text.")
        assert len({of(), with_kept("one.txt", "A text."), with_kept("one.txt", "Another.")}) == 3
        teacher = tmp_path / "teacher"
        shutil.copytree(tiny_source("roberta"), teacher)
        phase = {
            "name": "phase-1", "train": ["all"], "budget": {"value": 4}, "batch": {"size": 8},
            "distil": {"stream": "ko", "teacher": str(teacher)},
        }  # fmt: skip

        text = tmp_path / "one.txt"

        def taught():
            recipe = recipe_from(
                {
                    "source": {"model": str(tiny_source("roberta"))},
                    "streams": [{"name": "ko", "language": "ko", "corpus": {"text": [str(text)]}}],
                    "phases": [phase],
                }
            )
            return inputs.of_cell(recipe)

        before = taught()
        (teacher / "config.json").write_text("{}")
        assert taught() != before


@pytest.mark.parametrize("axis", ["hardware.precision", "evaluation.samples", "export.license"])
def test_an_axis_that_decides_no_result_is_refused(study, axis):
    values = {"hardware.precision": '"fp32", "bf16"', "evaluation.samples": "1, 2"}
    body = f'[[grids]]\nmethod = ["xpt"]\n"{axis}" = [{values.get(axis, """ "mit", "gpl" """)}]\n'
    with pytest.raises(RecipeError, match=f"'{axis}' decides no result"):
        cells(study(body))


def test_two_cells_of_one_name_are_refused(study):
    rule = '[[rules]]\nwhen = { sentences = 100 }\nset = { "training.learning_rate" = 1e-3 }\n'
    body = '[[grids]]\nmethod = ["xpt"]\nsentences = [100]\n[[grids]]\nmethod = ["xpt"]\n'
    head = HEAD + '"training.max_train_sentences" = 100\n'
    with pytest.raises(RecipeError, match="two cells that differ are both 'xpt-n100-s0'"):
        cells(study(body + rule, head))


def test_the_size_of_a_cell_is_that_of_its_phases(study):
    rule = '[[rules]]\nwhen = { method = "xpt" }\n'
    rule += 'set = { "phases.0.optimizer.learning_rate" = 1e-3 }\n'
    head = HEAD + '"training.max_train_sentences" = 100\n'
    found = cells(study('[[grids]]\nmethod = ["xpt", "scratch"]\n' + rule, head))
    assert ids(found) == ["xpt-n100-s0", "scratch-n100-s0"]


def test_a_study_compares_settings_that_are_said(study):
    budget = '"training.budget" = { value = 5, unit = "minutes" }'
    with pytest.raises(RecipeError, match="a study compares settings that are said: give budgets"):
        cells(study('[[grids]]\nmethod = ["xpt"]\n', without("training.budget") + budget + "\n"))


def without(key):
    return "".join(f"{line}\n" for line in HEAD.splitlines() if not line.startswith(f'"{key}"'))


def test_cells_of_auto_are_complete_and_share_the_vocabulary_of_the_base(
    study, tiny_source, korean_text, tmp_path
):
    """Each cell has settings of its own, but for how many pieces there are."""
    budgets = ", ".join(f'{{ value = {n}, unit = "tokens" }}' for n in ("20e3", "1e6", "1e8"))
    body = f'[[grids]]\nmethod = ["auto", "scratch"]\n"training.budget" = [{budgets}]\n'
    read = study(body, 'name = "tiny"\nbase = "base.toml"\n')
    bare = f'language = "ko"\nsource.model = "{tiny_source("bert")}"\n'
    bare += f'corpus.text = ["{korean_text}"]\n'
    (tmp_path / "base.toml").write_text(bare)
    with pytest.raises(RecipeError, match=r"give tokenizer\.vocab_size: cells share"):
        cells(read)
    (tmp_path / "base.toml").write_text(bare + 'training.budget = {value = 1e6, unit = "tokens"}\n')
    found = cells(read)
    assert len(found) == 6
    assert all(cell.recipe.phases for cell in found)
    assert len({cell.recipe.phases[0].batch.size for cell in found}) == 3
    assert {cell.recipe.tokenizer.vocab_size for cell in found} == {4_000}
    assert {cell.recipe.training.method for cell in found} == {"xpt-sp", "scratch"}
