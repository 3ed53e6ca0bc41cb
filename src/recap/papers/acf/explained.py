"""What Ada-ClustFormer looked at, and which words and patches each layer clustered."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from recap.models.base import Captioner
from recap.models.explained import Explained, Note
from recap.models.images import Images
from recap.papers.acf.cluster_tree import bracketed, line_neighbors, partitions, tree
from recap.papers.acf.figures import cluster_maps, clusters_of_vectors
from recap.papers.transformer.model import cross_attentions

THRESHOLD = 0.5  # C~ from which neighbors are one cluster


def clusters(model: Captioner, images: Images, tokens: Tensor, words: Sequence[str]) -> list[Note]:
    """Return the tree of the words, and the number of clusters of patches by layer."""
    maps = cluster_maps(model, images, tokens)
    matrices = {layer: c[1 : len(words) + 1, 1 : len(words) + 1].tolist() for layer, c in maps.decoder.items()}
    found = partitions(matrices, line_neighbors(len(words)), THRESHOLD)
    notes = []
    if found and words:
        notes.append(Note("clusters of words", lines=[" ".join(bracketed(node, words) for node in tree(found))]))
    height = getattr(model, "region_rows", None)
    _, patches = clusters_of_vectors(maps.encoder, images.main, height, THRESHOLD, "the photo")
    if patches:
        lines = [f"layer {layer}: {len(each)} clusters" for layer, each in patches.items()]
        notes.append(Note("clusters of patches", lines=lines))
    return notes


EXPLAINED = Explained(cross_attentions, notes=clusters)
