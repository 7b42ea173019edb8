"""The README's table and picture are made from the committed rows of the demo's study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from script_modules import load

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo() -> Any:
    return load("readme_demo")


@pytest.fixture(scope="module")
def rows(demo: Any) -> list[Any]:
    """The committed rows of the demo's methods."""
    return load("archive", "research/scripts").read("study-demo")


@pytest.fixture(scope="module")
def curves(demo: Any, rows: list[Any]) -> dict[str, dict[int, list[tuple[float, float]]]]:
    """The measured losses of README's picture."""
    return demo.curves(rows)  # type: ignore[no-any-return]


def test_table_and_picture_of_the_readme_are_made_from_the_committed_rows(
    demo: Any, rows: list[Any], curves: Any
) -> None:
    """After a change: make demo-seeds."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert demo.rewritten(readme, rows) == readme
    drawn, path = demo.picture(curves), "docs/assets/loss.svg"
    assert (ROOT / path).read_text(encoding="utf-8") == drawn.svg
    assert f"]({path})" in readme
