"""Writes the imports between packages, and their rules, into docs/development/architecture.md.

`make docs` calls it. With ``--check``, as in `make lint`, it writes nothing and fails if the page
is out of date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import grimp
from networkx import DiGraph, transitive_reduction

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "development" / "architecture.md"
BLOCK = re.compile(r"(?<=<!-- from pyproject.toml and the imports -->\n).*?(?=<!-- end -->)", re.S)


def picture() -> str:
    """Return the imports between packages as a flowchart, without arrows that others imply."""
    graph = grimp.build_graph("recap", cache_dir=None)
    packages = graph.find_children("recap") - {"recap.__main__"}
    for package in packages:
        graph.squash_module(package)
    arrows = DiGraph()
    for package in packages:
        for imported in graph.find_modules_directly_imported_by(package) & packages - {package}:
            arrows.add_edge(package.removeprefix("recap."), imported.removeprefix("recap."))
    drawn = transitive_reduction(arrows)
    lines = ["```mermaid", "flowchart TB"]
    for package in sorted(drawn):
        if drawn[package]:
            lines.append(f"    {package} --> {' & '.join(sorted(drawn[package]))}")
    return "\n".join([*lines, "```"])


def rules() -> str:
    """Return a line for each contract of import-linter, with the files that it excepts."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = []
    for contract in settings["tool"]["importlinter"]["contracts"]:
        files = []
        for exception in contract.get("ignore_imports", []):
            module = exception.split(" -> ")[0].removeprefix("recap.")
            files.append(f"`{module.replace('.', '/')}.py`")
        line = f"- {contract['name']}"
        lines.append(f"{line}: {', '.join(files)}" if files else line)
    return "\n".join(lines)


def main() -> None:
    """Write the page, or compare it."""
    page = PAGE.read_text(encoding="utf-8")
    text = f"\n{picture()}\n\nThe rules, which `make lint` checks:\n\n{rules()}\n\n"
    current = BLOCK.sub(lambda _: text, page)
    if current != page and "--check" in sys.argv:
        sys.exit(f"{PAGE}: the picture or the rules of imports are out of date: run `make docs`")
    PAGE.write_text(current, encoding="utf-8")


if __name__ == "__main__":
    main()
