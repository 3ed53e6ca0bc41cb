"""Settings of Sphinx: Markdown by MyST, the theme furo, the reference from the code.

`make docs` builds the pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import mlflow.pyfunc  # noqa: F401  # autodoc imports with TYPE_CHECKING true, under which fastapi and pyfunc fail
from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
from diagrams import draw_diagrams
from notebooks import as_markdown
from reference import write_reference

from recap import __version__

project = "recap"
release = __version__
copyright = "the recap developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_sphinx", "results/prose"]
default_role = "literal"
myst_heading_anchors = 4
napoleon_use_ivar = True
# several packages have a class of one name, as `Study`; annotations name no module
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
python_maximum_signature_line_length = 100
html_theme = "furo"
html_title = f"recap {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path: list[str] = []

# Stars and bars are formulas in our docstrings, and marks
# of reStructuredText; a name's last underscore is one, too.
MARKS = re.compile(r"(?<!\\)([*|]|\b\w+_(?=\W|$))")


def as_plain_text(
    app: Sphinx, what: str, name: str, subject: object, options: object, lines: list[str]
) -> None:
    """Escape in a docstring what reStructuredText would take for marks.

    Keep formulas, which are indented or go on in an indented line.
    """
    paragraphs = [part.split("\n") for part in "\n".join(lines).split("\n\n")]
    kept: list[str] = []
    for paragraph in paragraphs:
        indented = [line.startswith(" ") for line in paragraph]
        if what == "module":
            formula = any(indented)
        elif all(indented):
            formula = what == "class"
        else:  # a paragraph such as `Raises:` is napoleon's
            formula = any(indented) and not paragraph[0].endswith(":")
        if formula:
            kept += ["::", "", *(f"    {line}" for line in paragraph), ""]
        else:
            kept += [*_plain("\n".join(paragraph)).split("\n"), ""]
    lines[:] = kept


def _plain(text: str) -> str:
    parts = re.split(r"(``[^`]+``|`[^`]+`)", text)
    return "".join(
        f"``{part.strip('`')}``" if part.startswith("`") else MARKS.sub(_escaped, part)
        for part in parts
    )


def _escaped(match: re.Match[str]) -> str:
    text = match[1]
    return f"{text[:-1]}\\_" if text.endswith("_") else f"\\{text}"


class Notebook(MystParser):
    """Shows a notebook as the page of Markdown that its cells make."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the JSON of a notebook."""
        super().parse(as_markdown(inputstring), document)


def setup(app: Sphinx) -> None:
    """Write the reference before Sphinx reads the pages.

    Show what it cannot color as plain text.
    """
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(Notebook)
    app.add_lexer("csv", TextLexer)
    app.connect("doctree-read", draw_diagrams)
    app.connect(
        "builder-inited", lambda app: write_reference(Path(app.srcdir) / "reference" / "generated")
    )
    app.connect("autodoc-process-docstring", as_plain_text, priority=400)  # napoleon has 500
