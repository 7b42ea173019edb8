"""A notebook as a page of the site: its text, its code and what came out, as Markdown.

    python scripts/notebook_page.py docs/tutorial.ipynb

runs a notebook in the root of the clone and keeps what came out, but for standard error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PICTURE = "image/png"


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{_text(output['text']).rstrip()}\n```"
    data = output.get("data", {})
    if PICTURE in data:
        return f"![what the cell draws](data:{PICTURE};base64,{_text(data[PICTURE]).strip()})"
    if "text/html" in data:
        return f'<div class="output">{_text(data["text/html"])}</div>'
    return f"```text\n{_text(data['text/plain']).rstrip()}\n```"


def markdown(notebook: str) -> str:
    """The page of a notebook.

    Args:
        notebook: the .ipynb file's text (nbformat 4).
    """
    blocks = []
    for cell in json.loads(notebook)["cells"]:
        source = _text(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            blocks.append(source)
        elif source:
            blocks.append(f"```python\n{source}\n```")
            blocks += [_output(output) for output in cell.get("outputs", [])]
    return "\n\n".join(blocks) + "\n"


def run(path: Path) -> None:
    """Run a notebook; its file then has the new results."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, 4)
    where = {"metadata": {"path": str(Path(__file__).parents[1])}}
    NotebookClient(notebook, timeout=900, coalesce_streams=True, resources=where).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    nbformat.write(notebook, path)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
