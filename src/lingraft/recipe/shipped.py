"""The recipes that ship with lingraft: commented TOML files."""

from __future__ import annotations

import re
from pathlib import Path

from lingraft.errors import RecipeError

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
    comment = ""
    for line in lines:
        if not line.startswith("# "):
            break
        comment += f" {line[2:]}"
    return re.split(r"\. (?=[A-Z])", comment.strip())[0].rstrip(".")


def text(name: str) -> str:
    """Return a recipe as it was written, comments and all.

    Raises:
        RecipeError: there is none of that name.
    """
    paths = files()
    if name not in paths:
        raise RecipeError(f"recipe '{name}': is none of those that ship: {', '.join(paths)}")
    return paths[name].read_text(encoding="utf-8")
