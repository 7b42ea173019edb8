"""Known source and baseline models, as the papers' tables have them (docs/reference/families.md).

Values are those of the tables named in `SOURCES`, with their spelling of sizes; a cell that a
table leaves open, or that cannot be read in our copy, is empty. The Hub ids are ours: the papers
give almost none. They give no licences either: see the model's page on the Hub.

The recipes that ship with lingraft: commented TOML files.
"""

from __future__ import annotations

import csv
import difflib
import itertools
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from lingraft.errors import RecipeError

DATA = "catalogue.tsv"
SOURCES = {
    "S1": "the survey of Korean and multilingual models with XPT (2022), figure 1 and text",
    "S2": "the same, figure 2",
    "V": "Luo et al. 2021, VECO, table 1",
    "C": "Son et al. 2022, Language Chameleon, section 3.3 and table 1",
    "X": "Lee et al. 2021, XPT, section 4",
    "M": "Chi et al. 2021, Cross-Lingual Language Model Meta-Pretraining, section 4.1",
}
"""Letter in the column `source` → where the values are from."""


@dataclass(frozen=True)
class Known:
    """A model of the catalogue; cells are empty where the source does not say."""

    name: str
    title: str
    """The source's name."""
    architecture: str
    objective: str
    tokenizer: str
    vocabulary: str
    """Number of pieces."""
    corpus: str
    parameters: str
    languages: str
    """A code, or how many."""
    publisher: str
    hub: str
    """Id on the Hugging Face Hub, where there is one that we know."""
    source: str
    """Keys of `SOURCES`."""


COLUMNS = tuple(Known.__dataclass_fields__)


@cache
def models() -> dict[str, Known]:
    """Return all models by name."""
    text = resources.files("lingraft.recipe").joinpath(DATA).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    assert tuple(rows.fieldnames or ()) == COLUMNS
    return {row["name"]: Known(**row) for row in rows}


def resolve(name: str) -> str:
    """Return the Hub id of one of the catalogue's models; other names stay as they are.

    A directory of that name comes first. What is not in the catalogue stays as it is, and so does a
    name that is also the model's old id on the Hub (roberta-base): recipes hold those.

    Raises:
        RecipeError: the catalogue has the model, but knows no Hub id of it.
    """
    model = models().get(name)
    if model is None or Path(name).is_dir() or model.hub.endswith(f"/{name}"):
        return name
    if not model.hub:
        raise RecipeError(f"model {name!r}: the catalogue knows no Hub id of it; give a directory")
    return model.hub


def hint(name: str) -> str:
    """Return the nearest names, in brackets, for messages on a missing model; or nothing."""
    if "/" in name or name in models():
        return ""
    close = difflib.get_close_matches(name.casefold(), list(models()), n=3, cutoff=0.7)
    return f" (lingraft show models has {', '.join(close)})" if close else ""


PACKAGED = Path(__file__).parents[1] / "recipes"
"""In an installed package."""
CHECKOUT = Path(__file__).parents[3] / "recipes"
"""In a clone, from where the wheel takes them (pyproject.toml)."""


def files() -> dict[str, Path]:
    """Return recipes and studies by name, in alphabetic order; those for a start first."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    paths = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return {name: paths.pop(name) for name in ("start", "demo") if name in paths} | paths


def summary(path: Path) -> str:
    """Return the first sentence of a recipe's comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("# "), lines)
    text = " ".join(line[2:] for line in comment)
    return re.split(r"\. (?=[A-Z])", text.strip())[0].rstrip(".")


def text(name: str) -> str:
    """Return a recipe as it was written, comments and all.

    Raises:
        RecipeError: there is none of that name.
    """
    paths = files()
    if name not in paths:
        raise RecipeError(f"recipe '{name}': is none of those that ship: {', '.join(paths)}")
    return paths[name].read_text(encoding="utf-8")
