"""What is packaged is whole: the demo's files, extras, workflows that call make."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from lingraft.pipeline import demo

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
LEFT_OUT = {"slurm", "ray", "wandb", "mlflow", "fused", "lm-eval"}
"""Of `all`: clusters, trackers with an account, what a CPU cannot use, another harness."""


def test_the_wheel_holds_all_that_the_demo_reads() -> None:
    packed = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {
        f"demo/{name}": f"lingraft/demo/{name}" for name in demo.FILES
    }.items() <= packed.items()
    assert packed["recipes"] == "lingraft/recipes"
    assert [path for path in packed if not (ROOT / path).exists()] == []


def test_nothing_that_the_wheel_holds_is_left_out_of_the_sdist() -> None:
    targets = PROJECT["tool"]["hatch"]["build"]["targets"]
    left_out = targets["sdist"]["exclude"]
    packed = targets["wheel"]["force-include"]
    assert [path for path in packed if any(path.startswith(out) for out in left_out)] == []


def test_the_extra_all_is_every_extra_that_a_run_can_need() -> None:
    (everything,) = EXTRAS["all"]
    named = set(re.fullmatch(r"lingraft\[(.*)\]", everything)[1].split(","))
    assert named == set(EXTRAS) - LEFT_OUT - {"all", "docs"}


def test_every_extra_is_in_the_table_of_the_page_on_installing() -> None:
    text = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    table = "\n".join(line for line in text.splitlines() if line.startswith("| `"))
    assert [name for name in EXTRAS if f"`{name}`" not in table.replace("|", "")] == []


def test_every_package_of_the_extras_and_the_development_group_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    wanted += [one for name, packages in EXTRAS.items() if name not in LEFT_OUT for one in packages]
    names = {re.match(r"[\w-]+", one)[0].lower() for one in wanted} - {"lingraft"}
    assert sorted(names - pinned) == []


def distributions(requirements: Iterable[str]) -> set[str]:
    return {re.match(r"[\w.-]+", one)[0].lower().replace("_", "-") for one in requirements}


def imported(path: Path) -> set[str]:
    """The first names of what a file imports."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_workflows_call_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    called: dict[str, set[str]] = {}
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        runs = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
        assert all(run.startswith("make ") for run in runs), path.name
        called[path.stem] = {run.split()[1] for run in runs}
    assert called == {
        "ci": {"check", "test", "test-slow", "docs", "docker"},
        "release": {"check", "test", "test-slow", "release-check", "dist"},
    }
    assert set().union(*called.values()) <= targets
