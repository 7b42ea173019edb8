"""Count the library: lines of code, all lines, files over their budget, long functions.

    python scripts/code_size.py                    # the working tree
    python scripts/code_size.py --at 2290925       # a commit

A line of code holds code: no blank line, comment or docstring. `all` counts every line of every
file under src/, templates and tables too.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections import Counter

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FILE_LINES, FUNCTION_LINES = 400, 60


def code_lines(text: str) -> int:
    """Lines that hold code."""
    strings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


def long_functions(text: str) -> list[tuple[str, int]]:
    """Functions over the budget, with their lines."""
    functions = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    sizes = [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions]
    return [(name, size) for name, size in sizes if size > FUNCTION_LINES]


def files(folder: str, commit: str | None) -> dict[str, str]:
    """Tracked text files of a folder, of the working tree or a commit."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout

    if commit:
        names = git("ls-tree", "-r", "--name-only", commit, folder).split("\n")
        return {name: git("show", f"{commit}:{name}") for name in names if name}
    names = git("ls-files", "--cached", "--others", "--exclude-standard", folder).split("\n")
    texts = {}
    for name in filter(None, names):
        try:
            with open(name, encoding="utf-8") as file:  # noqa: PTH123 - git gives names as text
                texts[name] = file.read()
        except FileNotFoundError:  # deleted in the working tree
            continue
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--at", help="a commit; the working tree by default")
    arguments = parser.parse_args()
    code: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    warnings = []
    for name, text in files("src/lingraft", arguments.at).items():
        parts = name.split("/")
        package = parts[2] if len(parts) > 3 else "(top)"
        lines[package] += text.count("\n")
        if name.endswith(".py"):
            code[package] += code_lines(text)
            if text.count("\n") > FILE_LINES:
                warnings.append(f"{name}: {text.count(chr(10))} lines")
            warnings += [f"{name}: {f} has {n} lines" for f, n in long_functions(text)]
    print(f"{'package':14}{'code':>8}{'all':>8}")
    for package in sorted(lines, key=lambda key: -lines[key]):
        print(f"{package:14}{code[package]:8,}{lines[package]:8,}")
    print(f"{'src':14}{code.total():8,}{lines.total():8,}")
    tests = files("tests", arguments.at)
    python = [text for name, text in tests.items() if name.endswith(".py")]
    print(
        f"{'tests':14}{sum(map(code_lines, python)):8,}{sum(t.count(chr(10)) for t in python):8,}"
    )
    print("\n".join(warnings))


if __name__ == "__main__":
    main()
