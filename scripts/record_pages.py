"""Pages in docs/ that hold what records of the code say.

python scripts/record_pages.py models      # docs/models.md
python scripts/record_pages.py families    # the tables of docs/families.md
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lingraft.models.families import FAMILIES
from lingraft.recipe.catalogue import COLUMNS, SOURCES
from lingraft.recipe.catalogue import models as known_models

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MODELS = """# Models

<!-- Made from src/lingraft/recipe/catalogue.tsv by
python scripts/record_pages.py models
Change that file, not this one. -->

Source and baseline models by name, as the papers' tables have them. The command
`lingraft show models` prints most of it. A name can be given wherever a model is: as
`source.model` in a recipe, `--source`, and the model of `lingraft finetune` and
`evaluate`. It stands for the Hub id; a folder of that name comes first.
Sizes are spelt as in the source. A cell is empty where the table leaves it open or our
copy cannot be read. The Hub ids are ours. The papers give no licences: read a
model's page before you build on it.
"""
FAMILY = ("family", "kind", "positions", "silent layers", "4.57", "notes")


def models() -> str:
    """The known models, and where their values are from."""
    titles = [name.replace("_", " ") for name in COLUMNS]
    rows = [
        [str(getattr(known, column)).replace("|", "\\|") for column in COLUMNS]
        for known in known_models().values()
    ]
    sources = "\n".join(f"- {key}: {text}." for key, text in SOURCES.items())
    return f"{MODELS}\n{_table(titles, rows)}\n\nSources:\n\n{sources}\n"


def families() -> str:
    """What a record says that a user should know, a row a family; and what is refused."""
    rows = [
        (
            f"`{name}`",
            family.kind,
            family.kind_of_positions,
            "yes" if family.identity else "no",
            "yes" if family.older else "no class",
            family.note,
        )
        for name, family in FAMILIES.items()
    ]
    return _table(FAMILY, rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print({"models": models, "families": families}[sys.argv[1]](), end="")
