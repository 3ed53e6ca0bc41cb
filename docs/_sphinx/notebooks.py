"""Reads a Jupyter notebook as a page of Markdown,
in the form of the guides: files below their paths, commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MAGICS = {"%%bash": "sh", "%%writefile": "yaml"}


def as_markdown(notebook: str) -> str:
    """Return the cells of a notebook, with the text that its code cells printed."""
    return (
        "\n\n".join(part for cell in json.loads(notebook)["cells"] for part in _parts(cell)) + "\n"
    )


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    magic, _, path = text.partition("\n")[0].partition(" ")
    if magic in MAGICS:
        text = text.partition("\n")[2]
    if path and magic == "%%writefile":
        yield f"`{path}`:"
    slow = " slow" if "slow" in cell["metadata"].get("tags", ()) else ""
    yield f"```{MAGICS.get(magic, 'python')}{slow}\n{text}\n```"
    for output in cell["outputs"]:
        yield f"```text\n{''.join(output['text'])}```"
