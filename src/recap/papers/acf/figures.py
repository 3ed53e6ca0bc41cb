"""ACF's figure of trained models: the clusters of patches and words in each layer, with captions (Figure 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from recap.core.errors import ConfigError, FeatureError
from recap.data.corpus import Corpus
from recap.data.vocabulary import BOS
from recap.evaluation.figures import CaptionedImages, DrawnModels, caption_images, shown_images
from recap.models.base import Captioner
from recap.models.images import Images, Stream
from recap.models.registry import build_model
from recap.papers.acf.cluster_tree import Partition, grid_neighbors, line_neighbors, partitions
from recap.papers.acf.clusters import grid_size
from recap.papers.acf.drawing import ClusterMap, write_clusters
from recap.papers.acf.figure_settings import ClustersFigure
from recap.papers.acf.region_grid import region_cells
from recap.reporting.attention import Box, grid_boxes
from recap.runs.folder import run_model_config


def draw_clusters(figure: ClustersFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption images with each model and draw the clusters of its layers; the trees are written as JSON."""
    corpus = Corpus.read(models.corpus)
    images = shown_images(figure, corpus)
    each = [caption_with_clusters(figure, models, label, images) for label in models.runs]
    write_clusters(
        heading=models.heading,
        maps={image: [drawn for model in each for drawn in model[image]] for image in images},
        layers=figure.layers,
        files=corpus.files(),
        image_roots=models.image_roots,
        out=files["clusters.png"],
    )


def caption_with_clusters(
    figure: ClustersFigure, models: DrawnModels, label: str, image_ids: Sequence[int]
) -> dict[int, list[ClusterMap]]:
    """Return a model's captions of images with the clusters of each layer.

    With `untrained`, the clusters of the same captions under the model's random initial weights come next.
    """
    found = caption_images(models, label, image_ids, beam=figure.beam)
    drawn = {label: found.model}
    if figure.untrained:
        drawn[f"{label}, untrained"] = _untrained(models.runs[label], found)
    return {
        image: [
            _cluster_map(found, image, model, name, figure.threshold, f"{models.features[0]}: image {image}")
            for name, model in drawn.items()
        ]
        for image in image_ids
    }


def _untrained(run: Path, found: CaptionedImages) -> Captioner:
    """Return the model of a run with random weights, the same on every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model(run_model_config(run), found.sources.input_spec(found.vocabulary)).eval()


def _cluster_map(
    found: CaptionedImages, image: int, model: Captioner, label: str, threshold: float, where: str
) -> ClusterMap:
    """Return the clusters of an image and its caption in each layer of a model; where: the features, for the error."""
    images = found.sources.read([image])
    maps = cluster_maps(model, images, torch.tensor([[[BOS, *found.captions[image]]]]))
    height = getattr(model, "region_rows", None)
    boxes, patches = clusters_of_vectors(maps.encoder, images.main, height, threshold, where)
    words = found.words(image)
    # A row of C~ is of the token that goes in: the first one is <bos>.
    tokens = {layer: c[1:, 1:].tolist() for layer, c in maps.decoder.items()}
    return ClusterMap(
        label=label,
        words=words,
        boxes=boxes,
        words_of_layer=partitions(tokens, line_neighbors(len(words)), threshold),
        patches_of_layer=patches,
    )


def clusters_of_vectors(
    matrices: Mapping[int, Tensor], stream: Stream, height: int | None, threshold: float, where: str
) -> tuple[list[Box], dict[int, Partition]]:
    """Return the boxes of an image's vectors as fractions of it, and the clusters of the vectors in each layer.

    Args:
        matrices: C~ of the cells by layer; none where the encoder is classic: then nothing is drawn.
        stream: one image.
        height: rows of the grid in which regions are laid out; None: the vectors are the cells of a square grid.
        threshold: C~ from which neighbors are one cluster.
        where: of the features, for the error.
    """
    if not matrices:
        return [], {}
    cells, rows = _cells(stream, height, where)
    elements = [None if cell < 0 else cell for cell in cells.tolist()]
    place = torch.argsort(cells)[int((cells < 0).sum()) :]  # the cell of each vector, in the vectors' own order
    ordered = {layer: c[place][:, place].tolist() for layer, c in matrices.items()}
    clusters = partitions(ordered, grid_neighbors(elements, rows), threshold)
    if not height:
        return grid_boxes(rows), clusters
    assert stream.boxes is not None and stream.sizes is not None, "a model of regions is given boxes"
    scaled = (stream.boxes[0] / stream.sizes[0].repeat(2))[stream.mask[0]].clamp(0, 1)
    return [(x, y, right, bottom) for x, y, right, bottom in scaled.tolist()], clusters


def _cells(stream: Stream, height: int | None, what: str) -> tuple[Tensor, int]:
    """Return the vector in each cell of the grid that the model sees, [M], -1 where there is none, and its rows."""
    vectors = stream.mask.shape[1]
    if height is not None and stream.boxes is not None:
        cells = region_cells(stream.boxes, stream.mask, height)[0]
        return cells.masked_fill(cells == vectors, -1), height
    try:
        rows, _ = grid_size(vectors, None)
    except ValueError as error:
        raise FeatureError(f"{what} has {vectors} vectors, no square grid to draw") from error
    return torch.arange(vectors), rows


@dataclass(frozen=True)
class ClusterMaps:
    """C~ of an image and a caption, by the number of the layer, counted from 1; empty where there are no clusters."""

    encoder: Mapping[int, Tensor]  #: [M, M] of the cells as the model lays them out
    decoder: Mapping[int, Tensor]  #: [T, T] of the tokens


@torch.no_grad()
def cluster_maps(model: Captioner, images: Images, tokens: Tensor) -> ClusterMaps:
    """Return C~ of all layers under teacher forcing.

    Args:
        model: one with `cluster_modules`; others have no clusters, and the maps are empty.
        images: one image.
        tokens: one caption, [1, 1, T], beginning with <bos>.
    """
    if len(images) != 1 or tokens.shape[:2] != (1, 1):
        raise ConfigError(f"clusters are of one image and one caption, not of {len(images)} and {tokens.shape[1]}")
    found: dict[str, dict[int, Tensor]] = {"encoder": {}, "decoder": {}}
    with ExitStack() as hooks:
        for place, modules in getattr(model, "cluster_modules", dict)().items():
            for number, module in enumerate(modules, start=1):
                if module is not None:
                    hooks.enter_context(module.register_forward_hook(_keep(found[place], number)))
        model.decode(tokens, model.encode(images))
    return ClusterMaps(**found)


def _keep(found: dict[int, Tensor], number: int) -> Callable[..., None]:
    def hook(_module: object, _inputs: object, log_clusters: Tensor) -> None:
        found[number] = log_clusters[0, 0].exp()

    return hook
