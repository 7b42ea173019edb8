"""What users do wrong with `lingraft demo`."""

from __future__ import annotations


def add(cases):
    """Put the cases behind those that there are."""
    cases["the demo's files into a folder that holds something"] = files_there


def files_there(place):
    (place.folder / "files").mkdir()
    (place.folder / "files/thesis.tex").write_text("mine", encoding="utf-8")
    return ["demo", "--files-to", "files"]
