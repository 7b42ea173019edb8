"""Checks that a version is named alike everywhere before it is published.

    python scripts/check_release.py v0.2.0

Without a tag the versions in the files are compared with each other.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## \[(.+?)\]( - \d{4}-\d\d-\d\d)?$", re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def problems(root: Path = ROOT, tag: str | None = None) -> list[str]:
    """What must be mended before the version is published.

    Args:
        root: a checkout.
        tag: the tag of the release, say v0.2.0; None before there is one.
    """
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.search(r"^version: (.+)$", citation, re.MULTILINE)
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = {match[1]: match[2] for match in HEADING.finditer(changes)}
    found = []
    if cited is None or cited[1].strip() != version:
        found.append(f"CITATION.cff: its version must be {version}, that of pyproject.toml")
    if "Unreleased" not in headings:
        found.append("CHANGELOG.md: the heading '## [Unreleased]' is missing")
    undated = [name for name, date in headings.items() if name != "Unreleased" and not date]
    found += [f"CHANGELOG.md: version {name} has no date" for name in undated]
    kinds = set(re.findall(r"^### (.+)$", changes, re.MULTILINE))
    found += [f"CHANGELOG.md: '### {kind}' is no kind of change" for kind in sorted(kinds - KINDS)]
    if tag is not None:
        if tag != f"v{version}":
            found.append(f"tag {tag}: pyproject.toml has version {version}")
        if version not in headings:
            found.append(f"CHANGELOG.md: the heading '## [{version}] - DATE' is missing")
    return found


def main() -> int:
    found = problems(tag=sys.argv[1] if len(sys.argv) > 1 else None)
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
