"""The catalogue of models, and the lists that the command line prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from transformers import AutoConfig

from lingraft.commands.show import table_of
from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import heads
from lingraft.finetuning.recipe import decode_finetune
from lingraft.pretrained.load import load_config
from lingraft.recipe import Recipe, Source, catalogue
from lingraft.recipe.methods import recipe_from
from lingraft.rundir import fingerprint
from lingraft.tasks import names as names_of_tasks

if TYPE_CHECKING:
    from collections.abc import Callable


def test_every_model_names_a_source_that_is_listed() -> None:
    for known in catalogue.models().values():
        assert set(known.source.split(", ")) <= catalogue.SOURCES.keys(), known.name


def test_names_are_lower_case_and_unique() -> None:
    lines = (Path(catalogue.__file__).parent / catalogue.DATA).read_text("utf-8").splitlines()
    assert len(catalogue.models()) == len(lines) - 1
    assert all(name == name.lower() and "/" not in name for name in catalogue.models())


def test_a_model_is_found_by_its_name_and_by_its_title() -> None:
    assert catalogue.find("klue-roberta-base") == "klue/roberta-base"
    assert catalogue.find("mBERT (cased)") == "google-bert/bert-base-multilingual-cased"


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(RecipeError, match="nearest: klue-roberta-base"):
        catalogue.find("klue-robert")


def test_a_name_stands_for_the_hub_id_and_all_else_for_itself() -> None:
    assert catalogue.resolve("klue-bert-base") == "klue/bert-base"
    assert catalogue.resolve("runs/ko/model") == "runs/ko/model"
    assert catalogue.resolve("klue/bert-base") == "klue/bert-base"
    with pytest.raises(RecipeError, match="knows no Hub id"):
        catalogue.resolve("hyperclova")


def test_a_name_that_is_an_old_hub_id_stays_so_that_recipes_keep_their_fingerprints() -> None:
    assert catalogue.resolve("roberta-base") == "roberta-base"


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "klue-bert-base").mkdir()
    assert catalogue.resolve("klue-bert-base") == "klue-bert-base"


def test_recipes_hold_the_hub_id_and_others_are_as_they_were() -> None:
    def recipe(model: str) -> Recipe:
        data = {"language": "ko", "source": {"model": model}, "corpus": {"text": ["ko.txt"]}}
        return recipe_from(data)

    assert recipe("klue-bert-base") == recipe("klue/bert-base")
    assert fingerprint(recipe("klue-bert-base").source) == fingerprint(
        Source(model="klue/bert-base")
    )
    assert recipe("demo/source").source.model == "demo/source"
    assert (
        recipe_from(
            recipe("demo/source").model_dump(mode="json", exclude_none=True) | {"phases": []},
            ["source.model=xlm-r-base"],
        ).source.model
        == "FacebookAI/xlm-roberta-base"
    )


def test_a_model_to_fine_tune_is_found_by_its_name_and_called_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def load_config(name: str) -> None:
        asked.append(name)
        raise DataError("stop here")

    monkeypatch.setattr(heads, "load_config", load_config)
    with pytest.raises(DataError, match="stop here"):
        heads.resolve("klue-bert-base", tmp_path)
    assert asked == ["klue/bert-base"]
    chosen = decode_finetune({"models": ["klue-bert-base", "mbert"], "tasks": ["nsmc"]})
    assert chosen.model_labels == ("klue-bert-base", "mbert")


def test_the_lists_say_how_a_name_is_used(command: Callable[..., Any]) -> None:
    for what, use, name in (
        ("models", "--source xlm-r-base", "klue-bert-base"),
        ("tasks", "lingraft finetune MODEL --task NAME", "klue-nli"),
    ):
        ended = command("show", what)
        assert ended.status == 0, ended.err
        assert use in " ".join(ended.out.split())
        assert name in ended.out


def test_a_misspelt_model_is_told_with_the_nearest_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise OSError("not on the Hub")

    monkeypatch.setattr(AutoConfig, "from_pretrained", nowhere)
    with pytest.raises(
        DataError, match=r"\(lingraft show models has klue-bert-base, .*\): it is no directory"
    ):
        load_config("klue-bert-bas")
    for name in ("someone/klue-bert-bas", "entirely-different", "klue-bert-base"):
        assert catalogue.hint(name) == ""


def test_the_survey_s_cells_are_those_of_its_figures() -> None:
    known = catalogue.models()
    assert known["kcelectra-base"].parameters == "124M"
    assert known["korbert"].vocabulary == "30,349 (morphemes), 30,797 (WordPiece)"
    assert known["mt5-base"].objective == "MLM-SC"
    assert known["krbert-character"].parameters == ""  # not legible in our copy


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("tasks", [*names_of_tasks(), "bucc2018-{lang}", "tatoeba-{lang}"]),
        ("models", list(catalogue.models())),
    ],
)
def test_the_lists_have_a_row_for_each_and_a_cell_for_each_column(
    what: str, names: list[str]
) -> None:
    table = table_of(what)
    assert [row.cells[0].text for row in table.rows] == names
    assert {len(row.cells) for row in table.rows} == {len(table.columns)}
