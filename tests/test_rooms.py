"""The library is easy to see: no circles of imports, one name a thing, docstrings that act."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import lingraft

ROOT = Path(lingraft.__file__).parent
TREES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): (
        ast.parse(path.read_text(encoding="utf-8"))
    )
    for path in sorted(ROOT.rglob("*.py"))
}
SHARED_NAMES = {"Cell", "Run", "Side", "Step"}
"""Names of classes that stand for different things in different rooms."""
SAYS_NOTHING = re.compile(r"(?:What|Whether|Which|How|Of|Those|One|Where|As)\b")


def imported(tree: ast.Module) -> set[str]:
    """Modules of ours that a module imports, for types and inside functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in TREES:
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in TREES else node.module for name in whole}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in TREES}
    return found


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {name: imported(tree) - {name} for name, tree in TREES.items() if name != "lingraft"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def test_a_class_name_stands_for_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert {name for name, found in homes.items() if len(found) > 1} == SHARED_NAMES
    assert len(SHARED_NAMES) <= 10


def test_docstrings_begin_with_what_is_done() -> None:
    wrong = [
        f"{module}: {node.name}: {text.splitlines()[0]}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        if (text := ast.get_docstring(node)) and SAYS_NOTHING.match(text)
    ]
    assert wrong == []
