"""The catalogue of models, its page, and the lists that the command line prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from lingraft import catalogue, listing
from lingraft.errors import RecipeError
from lingraft.tasks import TASKS

PAGE = Path(__file__).parent.parent / "docs" / "models.md"


def test_the_page_is_made_from_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == catalogue.markdown()


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


def test_a_model_without_a_hub_id_says_so() -> None:
    with pytest.raises(RecipeError, match="knows no Hub id"):
        catalogue.find("hyperclova")


def test_what_is_not_in_the_catalogue_resolves_to_itself() -> None:
    assert catalogue.resolve("roberta-base") == "FacebookAI/roberta-base"
    assert catalogue.resolve("runs/ko/model") == "runs/ko/model"
    assert catalogue.resolve("hyperclova") == "hyperclova"


def test_the_survey_s_cells_are_those_of_its_figures() -> None:
    known = catalogue.models()
    assert known["kcelectra-base"].parameters == "124M"
    assert known["korbert"].vocabulary == "30,349 (morphemes), 30,797 (WordPiece)"
    assert known["mt5-base"].objective == "MLM-SC"
    assert known["krbert-character"].parameters == ""  # not legible in our copy


@pytest.mark.parametrize(
    ("what", "names"), [("tasks", list(TASKS)), ("models", list(catalogue.models()))]
)
def test_the_lists_have_a_row_for_each_and_a_cell_for_each_column(
    what: str, names: list[str]
) -> None:
    _, columns, rows = listing.table_of(what)
    assert [row[0] for row in rows] == names
    assert {len(row) for row in rows} == {len(columns)}
