"""What is packaged is whole: the demo's files, extras, workflows that call make."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.pipeline import demo

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
LEFT_OUT = {"slurm", "ray", "wandb", "mlflow", "lm-eval"}
"""Of `all`: clusters, trackers with an account, another harness."""


def test_the_wheel_holds_all_that_the_demo_reads() -> None:
    packed = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    needed = {f"demo/{name}": f"lingraft/demo/{name}" for name in demo.FILES}
    assert needed.items() <= packed.items()
    assert packed["recipes"] == "lingraft/recipes"
    assert [path for path in packed if not (ROOT / path).exists()] == []


def test_the_extra_all_is_every_extra_that_a_run_can_need() -> None:
    (everything,) = EXTRAS["all"]
    named = set(re.fullmatch(r"lingraft\[(.*)\]", everything)[1].split(","))
    assert named == set(EXTRAS) - LEFT_OUT - {"all", "docs"}


def distributions(requirements: Iterable[str]) -> set[str]:
    return {re.match(r"[\w.-]+", one)[0].lower().replace("_", "-") for one in requirements}


def imported(path: Path) -> set[str]:
    """The first names of what a file imports."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.add(str(node.module))
    return {module.partition(".")[0] for module in modules}


def test_every_package_that_is_imported_is_a_dependency_or_an_extra() -> None:
    """Also where another dependency happens to bring it."""
    extras = [one for packages in EXTRAS.values() for one in packages]
    declared = distributions([*PROJECT["project"]["dependencies"], *extras])
    known = packages_distributions()
    modules = set().union(*map(imported, (ROOT / "src").rglob("*.py")))
    foreign = modules - sys.stdlib_module_names - {"lingraft"}
    assert [m for m in sorted(foreign) if not declared & distributions(known.get(m, [m]))] == []
