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


def test_the_curves_of_the_picture_have_the_same_seeds_and_as_many_tokens(curves: Any) -> None:
    assert {tuple(seeds) for seeds in curves.values()} == {(0, 1, 2)}
    last = [max(curve)[0] for seeds in curves.values() for curve in seeds.values()]
    assert max(last) - min(last) < 2 * 2_048  # each of two phases ends with a whole step
    for seeds in curves.values():
        for curve in seeds.values():
            tokens = [point[0] for point in curve]
            assert tokens == sorted(set(tokens))


def test_the_demos_table_counts_ties_where_there_are_any(demo: Any, rows: list[Any]) -> None:
    tied = [row for row in rows if getattr(row, "metric", "") == demo.TIES]

    def with_ties(count: float) -> list[Any]:
        return [r.model_copy(update={"value": count}) if r in tied else r for r in rows]

    runs, asked = len(tied), tied[0].n
    assert "Ties" not in demo.table(with_ties(0))
    assert f"Ties: {2 * runs} of {runs * asked:,}." in demo.table(with_ties(2))


def test_the_demos_table_says_how_many_runs_there_are(demo: Any, rows: list[Any]) -> None:
    def about(dropped: set[tuple[str, int]]) -> str:
        left = [row for row in rows if (row.axes["method"], row.axes["seed"]) not in dropped]
        return str(demo.table(left))

    assert "\n3 seeds, mean ± standard deviation; " in about(set())
    assert "\n2 to 3 seeds, mean ± " in about({("xpt", 1)})
    one = about({(method, seed) for method in demo.NAMES for seed in (1, 2)})
    assert "\n1 seed; " in one
    assert "±" not in one
