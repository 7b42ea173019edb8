"""The demo's own source model, text and recipe: of the installed package, or of a clone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.files import check_free, removed_on_failure
from lingraft.recipe import catalogue
from lingraft.recipe.decoding import load
from lingraft.recipe.methods import recipe_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe import Recipe

PACKAGE = Path(__file__).resolve().parent.parent
PLACES = (PACKAGE / "demo", PACKAGE.parent.parent / "demo")
"""In an installed package, and in a clone."""
TEXT = "data/libreoffice-help.en-ko.jsonl.gz"
FILES = ("source", "LICENSES", "data/README.md", TEXT, "data/libreoffice-help.de-fr-ja.jsonl.gz")
"""Files of demo/ that the package holds; pyproject.toml puts them there."""
EXAMPLE = "파일을 {mask} 저장합니다."
"""A sentence of the demo's language: "saves the file …"."""


def folder() -> Path:
    """Return the folder with the demo's files.

    Raises:
        DataError: this installation has none.
    """
    for place in PLACES:
        if (place / "source" / "config.json").is_file():
            return place
    raise DataError(
        "demo: its files are not in this installation; "
        "install lingraft's wheel, or call it in a clone"
    )


def recipe(settings: Sequence[str] = (), method: str | None = None) -> Recipe:
    """Return the demo's recipe on its files, wherever they are.

    Args:
        settings: overrides such as "training.budget=300 steps".
        method: "xpt" takes the two phases of the paper; None what lingraft chooses.

    Raises:
        DataError: this installation has no demo.
        RecipeError: a setting is wrong.
    """
    place = folder()
    data = load(catalogue.files()["demo-xpt" if method == "xpt" else "demo"])
    data["source"]["model"] = str(place / "source")
    data["corpus"]["text"] = [str(place / TEXT)]
    if method is not None:
        data["training"]["method"] = method
    return recipe_from(data, list(settings), "demo")


def copy_files(target: Path) -> None:
    """Copy the demo's source model and text.

    Args:
        target: a folder that is empty or not there.

    Raises:
        DataError: it holds something, or this installation has no demo.
    """
    place = folder()
    check_free(target, "choose another --files-to, or delete it")
    with removed_on_failure(target):
        for name in FILES:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (place / name).is_dir() else shutil.copyfile
            copy(place / name, target / name)
