"""Draws as SVG the flowcharts of pages, which GitHub draws with Mermaid:
built pages need no script and no network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from grandalf.graphs import Edge, Graph, Vertex
from grandalf.layouts import SugiyamaLayout
from grandalf.routing import route_with_lines
from networkx import DiGraph, transitive_reduction

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

HEIGHT, MARGIN = 30, 20  # of a box; of the picture
CHARACTER = 8.2  # width
ARROW = re.compile(r"([\w./&\s]+?) --> ([\w./&\s]+)")
STYLE = (
    "text{font:14px sans-serif;text-anchor:middle;fill:currentColor} "
    "path,rect{fill:none;stroke:currentColor}"
)
# Lines lie behind the boxes, which hide them by the color of the page (a variable of furo).
BOX = "fill:var(--color-background-primary,#fff);stroke:var(--color-brand-primary,#06c)"


class Box:
    """The place and size of a name, which the layout writes and reads."""

    def __init__(self, name: str) -> None:
        self.w, self.h, self.xy = CHARACTER * len(name) + 16, HEIGHT, (0.0, 0.0)


class Line:
    """The points of an arrow, which the layout writes."""

    def setpath(self, points: list[tuple[float, float]]) -> None:
        """Keep the points; the layout calls it by this name."""
        self.points = points


def edges(text: str) -> list[tuple[str, str]]:
    """Return the arrows of a flowchart, ``a --> b & c``.

    Raises:
        ValueError: a line has another form.
    """
    found = []
    for line in filter(None, map(str.strip, text.splitlines()[1:])):
        match = ARROW.fullmatch(line)
        if match is None:
            raise ValueError(f"diagram: {line!r} is no line of the form a --> b & c")
        starts, ends = ([name.strip() for name in side.split("&")] for side in match.groups())
        found += [(start, end) for start in starts for end in ends]
    return found


def picture(text: str) -> str:
    """Return a flowchart as SVG, layer below layer,
    in the colors of the page, without arrows that others imply."""
    arrows = list(transitive_reduction(DiGraph(edges(text))).edges)
    boxes: dict[str, Any] = {
        name: Vertex(name) for name in dict.fromkeys(name for arrow in arrows for name in arrow)
    }
    lines = [Edge(boxes[start], boxes[end]) for start, end in arrows]
    for name, box in boxes.items():
        box.view = Box(name)
    for line in lines:
        line.view = Line()
    for part in Graph(list(boxes.values()), lines).C:
        layout = SugiyamaLayout(part)
        layout.route_edge, layout.xspace, layout.yspace = route_with_lines, 14, 34
        layout.init_all()
        layout.draw(10)
    views = [box.view for box in boxes.values()]
    points = [point for line in lines for point in line.view.points]
    left = min([view.xy[0] - view.w / 2 for view in views] + [x for x, _ in points]) - MARGIN
    right = max([view.xy[0] + view.w / 2 for view in views] + [x for x, _ in points]) + MARGIN
    top, bottom = (each(view.xy[1] for view in views) for each in (min, max))
    size = (left, top - HEIGHT, right - left, bottom - top + 2 * HEIGHT)
    drawn = [_line(line.view.points) for line in lines]
    drawn += [_box(name, box.view) for name, box in boxes.items()]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="{" ".join(f"{each:.0f}" for each in size)}" '
        f'style="width:max(100%,{0.6 * size[2]:.0f}px)"><style>{STYLE}</style>'
        '<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<polygon points="0 0, 7 3, 0 6" '
        f'style="fill:currentColor"/></marker>{"".join(drawn)}</svg>'
    )


def _line(points: list[tuple[float, float]]) -> str:
    return (
        f'<path d="M {" L ".join(f"{x:.0f} {y:.0f}" for x, y in points)}" marker-end="url(#head)" '
        'opacity="0.6"/>'
    )


def _box(name: str, view: Box) -> str:
    x, y = view.xy
    return (
        f'<rect x="{x - view.w / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{view.w:.0f}" '
        f'height="{HEIGHT}" rx="4" '
        f'style="{BOX}"/><text x="{x:.0f}" y="{y + 5:.0f}">{escape(name)}</text>'
    )


def draw_diagrams(app: Sphinx, page: nodes.document) -> None:
    """Replace each block of Mermaid with a picture."""
    from docutils import nodes

    for block in list(page.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            drawn = f'<div style="overflow-x:auto">{picture(block.astext())}</div>'
            block.replace_self(nodes.raw("", drawn, format="html"))
