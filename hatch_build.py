"""What the package index is told beside pyproject.toml: addresses, and a README whose links work.

The repository's address stands in one place, `repository` in pyproject.toml. While that is empty,
it is the one that GitHub's workflows name; where there is none, links stay relative.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s]+)")
PLACES = {
    "Repository": "",
    "Documentation": "/blob/HEAD/docs/index.md",
    "Changelog": "/blob/HEAD/CHANGELOG.md",
    "Issues": "/issues",
}


def absolute(text: str, repository: str) -> str:
    """Return Markdown with absolute links; pictures lead to the files themselves."""

    def whole(match: re.Match[str]) -> str:
        target = match[1]
        if target.startswith("../../"):  # on GitHub beside the branch's files
            return f"{repository}/{target.removeprefix('../../')}"
        kind = "raw" if target.endswith((".svg", ".png")) else "blob"
        return f"{repository}/{kind}/HEAD/{target}"

    return LINK.sub(whole, text)


def address(configured: str) -> str:
    """Return the repository's address, or nothing."""
    server, name = (os.environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY"))
    return configured.rstrip("/") or (f"{server}/{name}" if server and name else "")


class CustomMetadataHook(MetadataHookInterface):
    """README and addresses, made when the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what pyproject.toml calls dynamic."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = address(str(self.config.get("repository", "")))
        metadata["urls"] = {}
        if repository:
            text = absolute(text, repository)
            metadata["urls"] = {name: f"{repository}{path}" for name, path in PLACES.items()}
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
