"""Clusters of patches and words by layer as a figure (ACF, Figure 5), and their trees as a picture and as text."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.documents import write_json
from recap.core.files import atomic_path
from recap.data.files.images import ImageSource
from recap.papers.acf.cluster_tree import Partition, bracketed, tree
from recap.reporting.attention import Box
from recap.reporting.figures import sheet_fonts, wrapped
from recap.reporting.text import plain

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_EDGE, _GAP, _LINE, _CHIP = 208, 14, 24, 22  # pixels: edge of a thumbnail, gap, line of text, colored word
_BAR = 16  # height of a layer in a tree
_SHADE = 0.5  # how much of a cluster's color covers the photo
_TEXT_COLOR, _GREY, _BACKGROUND, _ALONE = (20, 20, 20), (110, 110, 110), (255, 255, 255), (232, 232, 232)
_HUES = 11  # different colors; neighbors in number differ most

Color = tuple[int, int, int]


@dataclass(frozen=True)
class ClusterMap:
    """The caption of one model for one image, with the clusters of each layer."""

    label: str  #: of the model
    words: list[str]  #: of the caption
    boxes: list[Box]  #: of the feature vectors: left, top, right, bottom as fractions of the image
    #: clusters of words, by the number of the decoder's layer; empty where it has none
    words_of_layer: Mapping[int, Partition]
    patches_of_layer: Mapping[int, Partition]  #: clusters of feature vectors, by the number of the encoder's layer


def write_clusters(
    *,
    heading: str,
    maps: Mapping[int, Sequence[ClusterMap]],
    layers: Sequence[int] | None,
    files: Mapping[int, str],
    image_roots: Sequence[Path],
    out: Path,
) -> None:
    """Write the figure, and beside it the trees as JSON: for each image and model a row of layers, then its trees.

    Args:
        heading: text above the figure.
        maps: image id -> one map per model.
        layers: numbers of the layers that are drawn; None: all. The trees are of all layers.
        files, image_roots: image id -> image file, and the folders or zips with these.
        out: the PNG to write; the trees go to the same name with `.json`.
    """
    from PIL import Image as Pillow

    source = ImageSource(list(image_roots))
    panels = [_panel(source.open_rgb(files[image]), each, layers) for image, models in maps.items() for each in models]
    width = max(panel.width for panel in panels)
    panels.insert(0, _heading(heading, width))
    sheet = Pillow.new("RGB", (width, sum(panel.height for panel in panels)), _BACKGROUND)
    top = 0
    for panel in panels:
        sheet.paste(panel, (0, top))
        top += panel.height
    with atomic_path(out) as temporary:
        sheet.save(temporary, format="PNG")
    texts = {str(image): [as_text(each) for each in models] for image, models in maps.items()}
    write_json(out.with_suffix(".json"), texts)


def as_text(each: ClusterMap) -> dict[str, Any]:
    """Return clusters and trees as plain values: words in brackets, patches as nested lists of their numbers."""
    words, patches = each.words_of_layer, each.patches_of_layer
    return {
        "model": each.label,
        "caption": " ".join(each.words),
        "phrases": {
            str(layer): [" ".join(each.words[word] for word in cluster) for cluster in clusters]
            for layer, clusters in words.items()
        },
        "tree": [bracketed(node, each.words) for node in tree(words)] if words else [],
        "patches": {str(layer): clusters for layer, clusters in patches.items()},
        "patch_tree": tree(patches) if patches else [],
    }


def color(cluster: Sequence[int]) -> Color:
    """Return the color of a cluster: that of its first element, so that it stays while the cluster grows."""
    if len(cluster) == 1:
        return _ALONE
    red, green, blue = colorsys.hsv_to_rgb((cluster[0] * 4 % _HUES) / _HUES, 0.65, 0.95)
    return round(255 * red), round(255 * green), round(255 * blue)


def _heading(text: str, width: int) -> Image:
    from PIL import Image as Pillow
    from PIL import ImageDraw

    font = sheet_fonts()["plain"]
    lines = wrapped(plain(text), font, width - 2 * _GAP)
    strip = Pillow.new("RGB", (width, len(lines) * _LINE + _GAP), _BACKGROUND)
    ImageDraw.Draw(strip).multiline_text((_GAP, _GAP), "\n".join(lines), font=font, fill=_TEXT_COLOR)
    return strip


def _panel(image: Image, each: ClusterMap, layers: Sequence[int] | None) -> Image:
    """Return the panel of one model for one image."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    fonts, step = sheet_fonts(), _EDGE + _GAP
    known = sorted({*each.words_of_layer, *each.patches_of_layer})
    shown = [layer for layer in known if layers is None or layer in layers]
    thumbnail = image.resize((_EDGE, _EDGE), Pillow.Resampling.LANCZOS)  # a square, as the backbone's input
    chips = {layer: _chip_lines(each, layer, fonts["plain"]) for layer in shown}
    below = max([len(lines) for lines in chips.values()] or [0]) * (_CHIP + 2)
    trees: list[tuple[str, Mapping[int, Partition], Sequence[str]]] = [
        ("tree of words", each.words_of_layer, each.words),
        ("tree of feature vectors", each.patches_of_layer, []),
    ]
    trees = [each_tree for each_tree in trees if any(each_tree[1].values())]  # an empty caption has no tree
    words = sum(fonts["plain"].getlength(f"{plain(word)}  ") for word in each.words)
    title = plain(f"{each.label}: {' '.join(each.words) or '(empty caption)'}")
    width = max(
        _GAP + (1 + max(len(shown), 3)) * step,
        round(words) + 3 * _GAP,
        round(fonts["bold"].getlength(title)) + 2 * _GAP,
    )
    trees_height = sum(_tree_height(layers_of, leaves) for _, layers_of, leaves in trees)
    height = 2 * _LINE + _EDGE + below + trees_height + 3 * _GAP
    panel = Pillow.new("RGB", (width, height), _BACKGROUND)
    draw = ImageDraw.Draw(panel)
    draw.text((_GAP, 2), title, font=fonts["bold"], fill=_TEXT_COLOR)
    panel.paste(thumbnail, (_GAP, 2 * _LINE))
    for column, layer in enumerate(shown, start=1):
        left = _GAP + column * step
        draw.text((left, _LINE), f"layer {layer}", font=fonts["plain"], fill=_GREY)
        if layer in each.patches_of_layer:
            panel.paste(shaded(thumbnail, each.boxes, each.patches_of_layer[layer]), (left, 2 * _LINE))
        _draw_chips(draw, (left, 2 * _LINE + _EDGE + 4), chips[layer], fonts["plain"])
    top = 2 * _LINE + _EDGE + below + _GAP
    for name, layers_of, leaves in trees:
        draw.text((_GAP, top), name, font=fonts["plain"], fill=_GREY)
        _draw_tree(draw, (_GAP, top + _LINE, width - 2 * _GAP), layers_of, leaves, fonts["plain"])
        top += _tree_height(layers_of, leaves)
    return panel


def shaded(image: Image, boxes: Sequence[Box], clusters: Partition) -> Image:
    """Lay the colors of clusters of more than one box over an image, larger boxes below smaller ones."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    colored = image.copy()
    draw = ImageDraw.Draw(colored)
    color_of = {element: color(cluster) for cluster in clusters if len(cluster) > 1 for element in cluster}
    pixels = {
        element: [round(x * edge) for x, edge in zip(boxes[element], (*image.size, *image.size), strict=True)]
        for element in color_of
    }
    for element in sorted(color_of, key=lambda element: -_area(boxes[element])):
        left, upper, right, lower = pixels[element]
        draw.rectangle((left, upper, max(left, right - 1), max(upper, lower - 1)), fill=color_of[element])
    return Pillow.blend(image, colored, _SHADE)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


Chip = tuple[str, Color]  # words of a cluster, and its color


def _chip_lines(each: ClusterMap, layer: int, font: Any) -> list[list[Chip]]:
    """Break the phrases of a layer into lines as wide as a thumbnail; words of one phrase keep its color."""
    lines: list[list[Chip]] = [[]]
    used = 0.0
    for cluster in each.words_of_layer.get(layer, []):
        for word in cluster:
            text = plain(each.words[word])
            wide = font.getlength(f"{text} ")
            if lines[-1] and used + wide > _EDGE:
                lines.append([])
                used = 0.0
            lines[-1].append((text, color(cluster)))
            used += wide
    return lines


def _draw_chips(draw: ImageDraw, at: tuple[int, int], lines: Sequence[Sequence[Chip]], font: Any) -> None:
    for number, line in enumerate(lines):
        left, top = float(at[0]), at[1] + number * (_CHIP + 2)
        for text, fill in line:
            wide = font.getlength(f"{text} ")
            draw.rectangle((left, top, left + wide, top + _CHIP), fill=fill)
            draw.text((left + 2, top), text, font=font, fill=_TEXT_COLOR)
            left += wide


def _tree_height(layers: Mapping[int, Partition], leaves: Sequence[str]) -> int:
    return _LINE + len(layers) * _BAR + (_LINE if leaves else 0) + _GAP // 2


def _draw_tree(
    draw: ImageDraw, at: tuple[int, int, int], layers: Mapping[int, Partition], leaves: Sequence[str], font: Any
) -> None:
    """Draw a bar for each cluster, the highest layer at the top, above the elements in the order of the tree.

    `at` is left, top and width; `leaves` are names of the elements, which are not written where there are none.
    """
    left, top, width = at
    order = list(_elements(tree(layers)))
    place = {element: number for number, element in enumerate(order)}
    step = width / len(order)
    if leaves:
        wides = [font.getlength(f"{plain(leaves[element])}  ") for element in order]
        edges = [left + sum(wides[:number]) for number in range(len(wides) + 1)]
    else:
        edges = [left + step * number for number in range(len(order) + 1)]
    for row, layer in enumerate(sorted(layers, reverse=True)):
        for cluster in layers[layer]:
            first, last = min(place[e] for e in cluster), max(place[e] for e in cluster)
            upper = top + row * _BAR
            draw.rectangle((edges[first] + 1, upper + 1, edges[last + 1] - 2, upper + _BAR - 2), fill=color(cluster))
    below = top + len(layers) * _BAR + 2
    for element in order if leaves else []:
        draw.text((edges[place[element]] + 2, below), plain(leaves[element]), font=font, fill=_TEXT_COLOR)


def _elements(node: Any) -> list[int]:
    return [node] if isinstance(node, int) else [element for child in node for element in _elements(child)]
