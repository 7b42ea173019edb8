#!/usr/bin/env python3
"""Print a recipe or a study of an earlier version with the present names of its keys.

    python scripts/convert_recipe.py OLD.toml > NEW.toml

Comments, order and layout stay. Keys that have moved to another table ([graft] to [embeddings])
stand behind the table that they came from. What is left over, lingraft check names.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from lingraft.recipe.renamed import RENAMED, present
from lingraft.tokenizer.files import TRAINED

HEADER = re.compile(r"^(\s*\[\[?)\s*([\w.-]+)\s*(\]\]?.*)$", re.DOTALL)
ASSIGNED = re.compile(r"""^(\s*)(["']?)([\w.-]+)\2(\s*=\s*)(.*)$""", re.DOTALL)
TABLES = {"method": "training", "training": "hardware", "resources": "embeddings"}
DOTTED = re.compile(r"""(["'])([a-z_]+(?:\.[\w-]+)+)\1(?=\s*=)""")


def converted(text: str) -> str:
    """Return the text of a recipe with the present keys; of one that has them as it is."""
    if not _is_old(tomllib.loads(text)):
        return text
    out: list[str] = []
    moved: dict[str, list[str]] = {}
    table = ""
    for line in text.splitlines(keepends=True):
        if header := HEADER.match(line):
            _flush(out, moved)
            start, table, end = header.groups()
            out.append(f"{start}{_table(table)}{end}")
        elif assigned := ASSIGNED.match(line):
            home, new = _assignment(table, *assigned.groups())
            (out if home == _table(table) else moved.setdefault(home, [])).append(new)
        else:
            out.append(_values(line))
    _flush(out, moved)
    return _merged("".join(out))


def _is_old(data: Any, path: str = "") -> bool:
    """Return whether plain data hold a key that has another name now."""
    if isinstance(data, list):
        return any(_is_old(item, f"{path}.0") for item in data)
    if not isinstance(data, dict):
        return False
    paths = {key: f"{path}.{key}" if path else key for key in data}
    names = [*paths.values(), *paths]
    return any(present(name) != name and "." in name for name in names) or any(
        _is_old(value, paths[key]) for key, value in data.items()
    )


def _table(table: str) -> str:
    """Return the present name of a table."""
    first, dot, rest = table.partition(".")
    return present(table) if table in RENAMED else f"{TABLES.get(first, first)}{dot}{rest}"


def _assignment(
    table: str, indent: str, quote: str, key: str, equals: str, value: str
) -> tuple[str, str]:
    """Return the table that a line belongs to now, and the line."""
    path = f"{table}.{key}" if table and table not in ("set", "grids") else key
    if path in TABLES and "{" not in value:  # an axis of a study, which is called method
        return _table(table), f"{indent}{quote}{key}{quote}{equals}{_values(value)}"
    new = present(path) if path not in TABLES else TABLES[path]
    if path == "tokenizer.kind" and any(f'"{name}"' in value for name in ("source", *TRAINED)):
        new = "tokenizer.algorithm"
    home = _table(table)
    if table in ("", "set", "grids"):
        return home, f"{indent}{quote}{new}{quote}{equals}{_values(value)}"
    if new == path or new.startswith(f"{home}."):
        last = key if new == path else new.removeprefix(f"{home}.")
        return home, f"{indent}{last}{equals}{_values(value)}"
    home, _, last = new.partition(".")
    return home, f"{indent}{last}{equals}{_values(value)}"


def _values(text: str) -> str:
    """Return values, and keys within them, as they are named now."""
    text = DOTTED.sub(lambda key: f"{key[1]}{present(key[2])}{key[1]}", text)
    text = re.sub(r"""(["'])itl\1""", r"\1inserted\1", text)
    return re.sub(r"""(["'])given\1""", r"\1use\1", text)


def _flush(out: list[str], moved: dict[str, list[str]]) -> None:
    """Write keys that belong to another table behind the one that they stood in."""
    for home, lines in moved.items():
        while out and not out[-1].strip():
            out.pop()
        out += ["\n\n" if out and not out[-1].endswith("\n") else "\n", f"[{home}]\n", *lines, "\n"]
    moved.clear()


def _merged(text: str) -> str:
    """Return the text with one table of each name, and none that is empty beside another's keys."""
    text = re.sub(r"\[graft\]\n\s*(?=\[embeddings\]\n)", "", text)
    first = re.search(r"^\[embeddings\]\n", text, re.MULTILINE)
    if first is None or text.count("\n[embeddings]\n") + text.startswith("[embeddings]\n") < 2:
        return text
    start = first.end()
    end = text.find("\n[", start) + 1 or len(text)
    block = text[start:end].strip("\n") + "\n"
    rest = text[: first.start()] + text[end:]
    return re.sub(r"^\[embeddings\]\n", lambda head: head[0] + block, rest, count=1, flags=re.M)


if __name__ == "__main__":
    sys.stdout.write(converted(Path(sys.argv[1]).read_text(encoding="utf-8")))
