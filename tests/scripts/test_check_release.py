"""What is published names one version everywhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from script_modules import load

ROOT = Path(__file__).resolve().parents[2]
FILES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md")


@pytest.fixture(scope="module")
def release() -> Any:
    return load("check_release")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_repository_names_one_version_and_keeps_its_changelog(release: Any) -> None:
    assert release.problems() == []


def test_a_tag_needs_its_version_and_a_dated_heading(release: Any, copy: Path) -> None:
    told = "\n".join(release.problems(copy, "v9.0.0"))
    assert "tag v9.0.0: pyproject.toml has version" in told
    changes = copy / "CHANGELOG.md"
    version = told.split("version ")[1].split()[0]
    assert "heading" in "\n".join(release.problems(copy, f"v{version}"))
    text = changes.read_text(encoding="utf-8")
    dated = text.replace("### Added", f"## [{version}] - 2026-12-01\n\n### Added", 1)
    changes.write_text(dated, encoding="utf-8")
    assert release.problems(copy, f"v{version}") == []
