"""ACF's figures: clusters by layer (Figure 5), their trees and alignment (section 4.1)."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from recap.core.documents import write_json
from recap.core.files import atomic_path
from recap.core.log import log
from recap.data.corpus import Corpus, pictures_of
from recap.data.vocabulary import BOS
from recap.evaluation.figures import CaptionedImages, DrawnModels, shown_images, vector_boxes
from recap.models.base import Captioner, build_model
from recap.models.explained import Note
from recap.models.images import Images, Stream, square_side
from recap.nn.fast import fixed_weights
from recap.papers.acf.model import region_cells
from recap.papers.acf.settings import AlignmentFigure, ClustersFigure
from recap.runs.folder import run_model_config
from recap.tables.contact_sheet import Box
from recap.tables.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from PIL.Image import Image

# clusters, each of sorted numbers of elements, in the order of their first ones
Partition = list[list[int]]
TEMPERATURE = 0.07  # of the released code's alignment score


def partitions(
    matrices: Mapping[int, Sequence[Sequence[float]]],
    neighbors: Sequence[tuple[int, int]],
    threshold: float,
) -> dict[int, Partition]:
    """Return the clusters of each layer:
    what is connected by neighbors with C~ of at least `threshold`.

    `matrices` are C~ of the elements by the number of the layer, `neighbors` the pairs that may be
    clustered directly. What a layer has clustered stays together above it. With Eq. 6 that is so by
    itself, as C~ never falls.
    """
    layers: dict[int, Partition] = {}
    first: list[int] = []  # of each element's cluster
    for layer, matrix in sorted(matrices.items()):
        first = first or list(range(len(matrix)))
        for a, b in neighbors:
            if first[a] != first[b] and matrix[a][b] >= threshold:
                low, high = sorted((first[a], first[b]))
                first = [low if each == high else each for each in first]
        clusters: dict[int, list[int]] = {}
        for element, number in enumerate(first):
            clusters.setdefault(number, []).append(element)
        layers[layer] = list(clusters.values())
    return layers


def grid_neighbors(cells: Sequence[int | None], height: int) -> list[tuple[int, int]]:
    """Return pairs of elements in neighboring cells of a grid; None: a cell without one."""
    width = len(cells) // height
    beside = [(t, t + 1) for t in range(len(cells)) if (t + 1) % width]
    below = [(t, t + width) for t in range(len(cells) - width)]
    pairs = []
    for one, other in beside + below:
        a, b = cells[one], cells[other]
        if a is not None and b is not None:
            pairs.append((a, b))
    return pairs


def tree(layers: Mapping[int, Partition]) -> list[Any]:
    """Return the clusters of the highest layer as nested lists
    of the clusters below, down to numbers of elements.

    A cluster that a layer takes over unchanged is not nested again.
    """
    nodes: dict[int, Any] = {}
    for _, clusters in sorted(layers.items()):
        below = nodes
        nodes = {}
        for cluster in clusters:
            # the lowest layer has elements below it
            nested = [below[first] for first in cluster if first in below] if below else cluster
            nodes[cluster[0]] = nested[0] if len(nested) == 1 else nested
    return list(nodes.values())


def bracketed(node: Any, words: Sequence[str]) -> str:
    """Return a tree as text: words, and clusters in brackets."""
    if isinstance(node, int):
        return words[node]
    return f"({' '.join(bracketed(child, words) for child in node)})"


@torch.no_grad()
def cluster_maps(
    model: Captioner, images: Images, tokens: Tensor
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Return C~ of an image's cells as laid out, [M, M],
    and of its caption's tokens [1, 1, T], [T, T].

    Each by the number of the layer, from 1, without those of layers that have no clusters.
    """
    maps: dict[str, dict[int, Tensor]] = {"encoder": {}, "decoder": {}}

    def keep(
        place: str, layer: int, _module: object, _inputs: object, log_clusters: Tensor
    ) -> None:
        maps[place][layer] = log_clusters[0, 0].exp()

    with ExitStack() as hooks:
        for place, modules in getattr(model, "cluster_modules", dict)().items():
            for layer, module in enumerate(modules, start=1):
                if module is not None:
                    hooks.enter_context(module.register_forward_hook(partial(keep, place, layer)))
        model.decode(tokens, model.encode(images))
    return maps["encoder"], maps["decoder"]


def clusters_of_vectors(
    matrices: Mapping[int, Tensor], stream: Stream, height: int | None, threshold: float, where: str
) -> tuple[list[Box], dict[int, Partition]]:
    """Return the boxes of an image's vectors as fractions of it,
    and the clusters of the vectors in each layer.

    `matrices` are C~ of the cells; without any, as of a classic encoder, nothing is drawn. `height`
    is that of the grid in which regions are laid out; None: the vectors are the cells of a square
    grid. `where` names them in an error.
    """
    if not matrices:
        return [], {}
    vectors = stream.mask.shape[1]
    boxes = vector_boxes(stream, where)
    if height is None:
        height = square_side(vectors)
        cells = torch.arange(vectors)
    else:
        assert stream.boxes is not None, "a model of regions is given boxes"
        cells = region_cells(stream.boxes, stream.mask, height)[0]
    # the cell of each vector, in the vectors' own order
    place = torch.argsort(cells)[: int((cells < vectors).sum())]
    ordered = {layer: c[place][:, place].tolist() for layer, c in matrices.items()}
    elements = [cell if cell < vectors else None for cell in cells.tolist()]
    return boxes, partitions(ordered, grid_neighbors(elements, height), threshold)


def clusters_of_image(
    model: Captioner,
    images: Images,
    tokens: Tensor,
    words: Sequence[str],
    threshold: float,
    where: str,
) -> tuple[list[Box], dict[int, Partition], dict[int, Partition]]:
    """Return the boxes of one image's vectors, and the clusters
    of its caption's words and of these vectors by layer.

    `tokens` [1, 1, T + 1] begin with <bos>; none where a side of the model is classic.
    """
    encoder, decoder = cluster_maps(model, images, tokens)
    inner = slice(1, len(words) + 1)  # without <bos>
    matrices = {layer: c[inner, inner].tolist() for layer, c in decoder.items()}
    phrases = partitions(matrices, list(pairwise(range(len(words)))), threshold)
    height = getattr(model, "region_rows", None)
    boxes, patches = clusters_of_vectors(encoder, images.main, height, threshold, where)
    return boxes, phrases, patches


def cluster_notes(
    model: Captioner, images: Images, tokens: Tensor, words: Sequence[str]
) -> list[Note]:
    """Return the tree of the words of a caption, and the number of clusters of patches by layer."""
    _, phrases, patches = clusters_of_image(model, images, tokens, words, 0.5, "the photo")
    notes = []
    if phrases and words:
        notes.append(
            Note(
                "clusters of words",
                lines=[" ".join(bracketed(node, words) for node in tree(phrases))],
            )
        )
    if patches:
        lines = [f"layer {layer}: {len(clusters)} clusters" for layer, clusters in patches.items()]
        notes.append(Note("clusters of patches", lines=lines))
    return notes


@dataclass(frozen=True)
class ClusterMap:
    """The caption of one model for one image, with the clusters of each layer."""

    label: str  #: of the model
    words: list[str]  #: of the caption
    boxes: list[Box]  #: of the feature vectors: left, top, right, bottom as fractions of the image
    #: clusters by the number of the decoder's layer, if it has any
    words_of_layer: Mapping[int, Partition]
    #: clusters of feature vectors, by the number of the encoder's layer
    patches_of_layer: Mapping[int, Partition]

    def text(self) -> dict[str, Any]:
        """Return clusters and trees as plain values: words in brackets, patches as nested lists."""
        words, patches = self.words_of_layer, self.patches_of_layer
        phrases: dict[str, list[str]] = {}
        for layer, clusters in words.items():
            phrases[str(layer)] = []
            for cluster in clusters:
                phrases[str(layer)].append(" ".join(self.words[word] for word in cluster))
        return {
            "model": self.label,
            "caption": " ".join(self.words),
            "phrases": phrases,
            "tree": [bracketed(node, self.words) for node in tree(words)],
            "patches": {str(layer): clusters for layer, clusters in patches.items()},
            "patch_tree": tree(patches),
        }


def draw_clusters(figure: ClustersFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption images with each model and draw the clusters of its layers.

    The trees are written as JSON.
    """
    corpus = Corpus.read(models.corpus)
    images = shown_images(figure, corpus)
    maps: dict[int, list[ClusterMap]] = {image: [] for image in images}
    for label in models.runs:
        for image, drawn in caption_with_clusters(figure, models, label, images).items():
            maps[image] += drawn
    source = pictures_of(models.corpus, models.image_roots)
    names = corpus.files()
    photos = {image: source.open_rgb(names[image]) for image in images}
    write_clusters(
        maps, photos, heading=models.heading, layers=figure.layers, out=files["clusters.png"]
    )


def caption_with_clusters(
    figure: ClustersFigure, models: DrawnModels, label: str, image_ids: Sequence[int]
) -> dict[int, list[ClusterMap]]:
    """Return a model's captions of images with the clusters of each layer.

    With `untrained`, the clusters of the same captions under the model's random initial weights
    come next.
    """
    captioned = CaptionedImages(models, label, image_ids, beam=figure.beam)
    drawn = {label: captioned.model}
    if figure.untrained:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same random weights on every call
            inputs = captioned.sources.input_spec(captioned.vocabulary)
            drawn[f"{label}, untrained"] = build_model(
                run_model_config(models.runs[label]), inputs
            ).eval()
    maps: dict[int, list[ClusterMap]] = {image: [] for image in image_ids}
    for image in image_ids:
        images = captioned.sources.read([image])
        words = captioned.words(image)
        tokens = torch.tensor([[[BOS, *captioned.captions[image]]]])
        where = f"{models.features[0]}: image {image}"
        for name, model in drawn.items():
            clusters = clusters_of_image(model, images, tokens, words, figure.threshold, where)
            maps[image].append(ClusterMap(name, words, *clusters))
    return maps


# inches
EDGE = 2.1  # of a thumbnail
GAP = 0.14  # between two
LINE = 0.24  # of text
BAR = 0.16  # a layer of a tree
PIXELS = 210  # of a thumbnail
CHAR, FONT_SIZE = 0.08, 9.5  # inches: width of a letter of DejaVu Sans Mono in this size, 8 pixels
SHADE = 0.5  # how much of a cluster's color covers the photo
HUES = 11  # different colors; neighbors in number differ most
ALONE, GREY = (0.91, 0.91, 0.91), "0.43"


def color(cluster: Sequence[int]) -> tuple[float, float, float]:
    """Return the color of a cluster: that of its first element, kept while it grows."""
    if len(cluster) == 1:
        return ALONE
    return colorsys.hsv_to_rgb((cluster[0] * 4 % HUES) / HUES, 0.65, 0.95)


def shaded(photo: NDArray[Any], boxes: Sequence[Box], clusters: Partition) -> NDArray[Any]:
    """Color clusters of several boxes over a photo [Y, X, 3], larger boxes below smaller."""
    colored = photo / 255
    color_of: dict[int, tuple[float, float, float]] = {}
    for cluster in clusters:
        if len(cluster) > 1:
            color_of.update(dict.fromkeys(cluster, color(cluster)))
    corners = np.array(boxes)  # [N, 4]
    edges = np.rint(corners * [*photo.shape[1::-1], *photo.shape[1::-1]]).astype(int)
    areas = (corners[:, 2:] - corners[:, :2]).prod(1)
    for element in sorted(color_of, key=lambda element: -areas[element]):
        left, upper, right, lower = edges[element]
        colored[upper : max(upper + 1, lower), left : max(left + 1, right)] = color_of[element]
    return (1 - SHADE) * photo / 255 + SHADE * colored


def write_clusters(
    maps: Mapping[int, Sequence[ClusterMap]],
    photos: Mapping[int, Image],
    *,
    heading: str,
    layers: Sequence[int] | None,
    out: Path,
) -> None:
    """Write the figure, and beside it the trees as JSON:
    for each image and model a row of layers, then its trees.

    `layers` are the numbers of the layers that are drawn, None: all. The trees are of all.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = FigureCanvasAgg(Figure(dpi=PIXELS / EDGE))
    axes = canvas.figure.add_axes((0, 0, 1, 1))  # in inches, downward
    axes.axis("off")
    width, height = 0.0, GAP
    for image, drawn in maps.items():
        # a square, as the backbone's input
        photo = np.asarray(photos[image].resize((PIXELS, PIXELS)))
        for each in drawn:
            right, height = _panel(axes, photo, each, layers, height)
            width = max(width, right)
    lines = wrap(plain(heading), int((width - 2 * GAP) / CHAR))
    start = -len(lines) * LINE
    for number, line in enumerate(lines):
        _write(axes, GAP, start + number * LINE, line)
    axes.set(xlim=(0, width), ylim=(height, start - GAP))
    canvas.figure.set_size_inches(width, height - start + GAP)
    with atomic_path(out) as temporary:
        canvas.figure.savefig(temporary, format="png")
    texts: dict[str, list[dict[str, Any]]] = {}
    for image, drawn in maps.items():
        texts[str(image)] = [each.text() for each in drawn]
    write_json(out.with_suffix(".json"), texts)


def _panel(
    axes: Axes, photo: NDArray[Any], each: ClusterMap, layers: Sequence[int] | None, top: float
) -> tuple[float, float]:
    """Draw one model's clusters of one image below `top`.

    Returns where they end on the right and below.
    """
    shown = sorted({*each.words_of_layer, *each.patches_of_layer})
    if layers is not None:
        shown = [layer for layer in shown if layer in layers]
    words = [plain(word) for word in each.words]
    title = plain(f"{each.label}: {' '.join(words) or '(empty caption)'}")
    _write(axes, GAP, top, title, weight="bold")
    bottom = _draw_layers(axes, photo, each, words, shown, top + 2 * LINE)
    letters = max(len(title), sum(len(word) + 2 for word in words))
    right = GAP + max(max(len(shown) + 1, 4) * (EDGE + GAP), letters * CHAR + GAP)
    if any(each.words_of_layer.values()):  # not of an empty caption
        _write(axes, GAP, bottom + GAP, "tree of words", color=GREY)
        sizes = [(len(word) + 2) * CHAR for word in words]
        starts, bottom = _draw_tree(axes, each.words_of_layer, sizes, bottom + GAP + LINE)
        for word, start in starts.items():
            _write(axes, start, bottom, words[word])
        bottom += LINE
    if any(each.patches_of_layer.values()):
        _write(axes, GAP, bottom + GAP, "tree of feature vectors", color=GREY)
        vectors = len(_elements(tree(each.patches_of_layer)))
        sizes = [(right - 2 * GAP) / vectors for _ in range(vectors)]
        _, bottom = _draw_tree(axes, each.patches_of_layer, sizes, bottom + GAP + LINE)
    return right, bottom + 2 * GAP


def _draw_layers(
    axes: Axes,
    photo: NDArray[Any],
    each: ClusterMap,
    words: Sequence[str],
    layers: Sequence[int],
    top: float,
) -> float:
    """Draw the photo, and beside it the clusters of each layer; return where they end below."""
    bottom = top + EDGE
    axes.imshow(photo, extent=(GAP, GAP + EDGE, bottom, top), aspect="auto")
    phrase = bottom + GAP / 2
    for column, layer in enumerate(layers, start=1):
        left = GAP + column * (EDGE + GAP)
        _write(axes, left, top - LINE, f"layer {layer}", color=GREY)
        if layer in each.patches_of_layer:
            picture = shaded(photo, each.boxes, each.patches_of_layer[layer])
            axes.imshow(picture, extent=(left, left + EDGE, top + EDGE, top), aspect="auto")
        # words of one phrase have its color, in lines as wide as a thumbnail
        x, y = left, phrase
        for cluster in each.words_of_layer.get(layer, []):
            for word in cluster:
                wide = (len(words[word]) + 1) * CHAR
                if x > left and x + wide > left + EDGE:
                    x = left
                    y += LINE
                axes.barh(y, wide, LINE - 0.03, x, align="edge", color=color(cluster))
                _write(axes, x, y, words[word])
                x += wide
                bottom = max(bottom, y + LINE)
    return bottom


def _draw_tree(
    axes: Axes, layers: Mapping[int, Partition], sizes: Sequence[float], top: float
) -> tuple[dict[int, float], float]:
    """Draw a bar for each cluster, the highest layer at the top.

    `sizes` are the widths of the elements. Returns where each begins, and where the bars end below.
    """
    start: dict[int, float] = {}
    left = GAP
    for element in _elements(tree(layers)):
        start[element] = left
        left += sizes[element]
    for layer in sorted(layers, reverse=True):
        bars = []
        for cluster in layers[layer]:
            wide = sum(sizes[element] for element in cluster)
            bars.append((min(start[element] for element in cluster), wide - 0.02))
        colors = [color(cluster) for cluster in layers[layer]]
        axes.broken_barh(bars, (top, BAR - 0.02), facecolors=colors, linewidth=0)
        top += BAR
    return start, top


def _write(axes: Axes, left: float, top: float, text: str, **style: Any) -> None:
    style |= {"fontsize": FONT_SIZE, "family": "DejaVu Sans Mono", "parse_math": False}
    axes.text(left, top + 0.75 * LINE, text, **style)


def _elements(node: Any) -> list[int]:
    if isinstance(node, int):
        return [node]
    elements = []
    for child in node:
        elements += _elements(child)
    return elements


def mutual_argmax(patches: Tensor, words: Tensor) -> tuple[int, float]:
    """Return how many patches [N, D] and words [T, D] are each other's best
    by D_v D_t^T, and that over min(N, T)."""
    scores = patches @ words.T
    word_of_patch = scores.argmax(1)
    patch_of_word = scores.argmax(0)
    count = int((patch_of_word[word_of_patch] == torch.arange(len(patches))).sum())
    return count, count / min(scores.shape)


def late_interaction(patches: Tensor, words: Tensor) -> float:
    """Return the released score of patches [N, D] and words [T, D]: best products, over 0.07."""
    scores = patches @ words.T
    return float((scores.amax(1).mean() + scores.amax(0).mean()) / 2 / TEMPERATURE)


@torch.no_grad()
@fixed_weights()
def score_alignment(
    figure: AlignmentFigure, models: DrawnModels, files: Mapping[str, Path]
) -> None:
    """Caption a split with each model and write how well its words
    and patches find each other, as means over images.

    Patches are the encoder's vectors, words those of the decoder before the output layer, each of
    the word that it predicts. The paper does not say how it normalizes the count; min(N, T) is the
    largest that there can be.
    """
    image_ids = sorted(Corpus.read(models.corpus).captions(figure.split))
    scores: dict[str, dict[str, float]] = {}
    for label in models.runs:
        captioned = CaptionedImages(models, label, image_ids, beam=figure.beam)
        rows = []
        for image in image_ids:
            if not captioned.captions[image]:
                continue  # without words nothing is aligned; `images` says how many count
            memory = captioned.model.encode(captioned.sources.read([image]))
            words = captioned.model.decode(
                torch.tensor([[[BOS, *captioned.captions[image][:-1]]]]), memory
            )[0, 0]
            patches = memory.values[0][memory.mask[0]]
            rows.append((*mutual_argmax(patches, words), late_interaction(patches, words)))
        names = ("mutual_pairs", "mutual_argmax", "late_interaction")
        scores[label] = {"images": len(rows)}
        for column, name in enumerate(names):
            scores[label][name] = sum(row[column] for row in rows) / max(1, len(rows))
        log.info(
            f"{label}: {scores[label]['mutual_argmax']:.4f} of the possible pairs over "
            f"{len(image_ids)} images"
        )
    write_json(
        files["alignment.json"], {"split": figure.split, "beam": figure.beam, "models": scores}
    )
