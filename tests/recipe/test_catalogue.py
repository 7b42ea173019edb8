"""The catalogue of models, and the lists that the command line prints."""

from __future__ import annotations

import pytest

from lingraft.errors import RecipeError
from lingraft.recipe import catalogue


def test_every_model_names_a_source_that_is_listed() -> None:
    for known in catalogue.models().values():
        assert set(known.source.split(", ")) <= catalogue.SOURCES.keys(), known.name


def test_a_name_stands_for_the_hub_id_and_all_else_for_itself() -> None:
    assert catalogue.resolve("klue-bert-base") == "klue/bert-base"
    assert catalogue.resolve("runs/ko/model") == "runs/ko/model"
    assert catalogue.resolve("klue/bert-base") == "klue/bert-base"
    with pytest.raises(RecipeError, match="knows no Hub id"):
        catalogue.resolve("hyperclova")


def test_a_name_that_is_an_old_hub_id_stays_so_that_recipes_keep_their_fingerprints() -> None:
    assert catalogue.resolve("roberta-base") == "roberta-base"
