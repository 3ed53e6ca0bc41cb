"""From clustering matrices of layers to clusters and to their tree, in which a layer merges those below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Matrix = Sequence[Sequence[float]]
Partition = list[list[int]]  # clusters, each of sorted numbers of elements, in the order of their first ones
Neighbors = Sequence[tuple[int, int]]  # pairs of elements that lie beside each other


def line_neighbors(length: int) -> list[tuple[int, int]]:
    """Return the pairs of neighbors along a line."""
    return [(i, i + 1) for i in range(length - 1)]


def grid_neighbors(cells: Sequence[int | None], height: int) -> list[tuple[int, int]]:
    """Return the pairs of elements in neighboring cells of a grid in raster order; None: a cell without one."""
    width = len(cells) // height
    pairs = [(t, t + 1) for t in range(len(cells)) if (t + 1) % width] + [
        (t, t + width) for t in range(len(cells) - width)
    ]
    known = [(cells[a], cells[b]) for a, b in pairs]
    return [(a, b) for a, b in known if a is not None and b is not None]


def partitions(matrices: Mapping[int, Matrix], neighbors: Neighbors, threshold: float) -> dict[int, Partition]:
    """Return the clusters of each layer: what is connected by neighbors with C~ of at least `threshold`.

    What a layer has clustered stays together above it. With Eq. 6 that is so by itself, as C~ never falls. `matrices`
    are C~ of the elements by the number of the layer, `neighbors` the pairs that may be clustered directly.
    """
    found: dict[int, Partition] = {}
    parents: list[int] = []
    for layer in sorted(matrices):
        matrix = matrices[layer]
        parents = parents or list(range(len(matrix)))
        for a, b in neighbors:
            if matrix[a][b] >= threshold:
                first, second = sorted((_root(parents, a), _root(parents, b)))
                parents[second] = first
        clusters: dict[int, list[int]] = {}
        for element in range(len(parents)):
            clusters.setdefault(_root(parents, element), []).append(element)
        found[layer] = list(clusters.values())
    return found


def _root(parents: list[int], element: int) -> int:
    while parents[element] != element:
        parents[element] = parents[parents[element]]
        element = parents[element]
    return element


def tree(layers: Mapping[int, Partition]) -> list[Any]:
    """Return the clusters of the highest layer as nested lists of the clusters below, down to numbers of elements.

    A cluster that a layer takes over unchanged is not nested again.
    """
    nodes: dict[int, Any] = {}
    for number, layer in enumerate(sorted(layers)):
        if number == 0:
            nodes = {element: element for cluster in layers[layer] for element in cluster}
        merged = {}
        for cluster in layers[layer]:
            children = [nodes[element] for element in cluster if element in nodes]
            merged[cluster[0]] = children[0] if len(children) == 1 else children
        nodes = merged
    return list(nodes.values())


def bracketed(node: Any, words: Sequence[str]) -> str:
    """Return a tree as text: words, and clusters in brackets."""
    if isinstance(node, int):
        return words[node]
    return f"({' '.join(bracketed(child, words) for child in node)})"
