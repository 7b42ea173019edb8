"""Writes docs/results.md and its figures from docs/results/*.jsonl and *.notes.md."""

from __future__ import annotations

from pathlib import Path

from lingraft.study import document

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"


def main() -> None:
    made = document.files(FOLDER, ROOT / "recipes")
    for path in FOLDER.glob("*.svg"):
        if f"{FOLDER.name}/{path.name}" not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER.parent / name).write_text(text, encoding="utf-8")
    print(f"{FOLDER.parent / document.RESULTS}: {len(made) - 1} figures")


if __name__ == "__main__":
    main()
