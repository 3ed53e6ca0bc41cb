"""Clusters, trees and alignment of trained models, from matrices to files."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file

from helpers.model_cases import build_model, built, random_images
from helpers.prepared import prepare
from recap.data.corpus import Corpus
from recap.data.vocabulary import load_vocabulary
from recap.evaluation.figures import DrawnModels
from recap.models.images import InputSpec, Stream
from recap.papers.acf.figures import (
    ClusterMap,
    bracketed,
    caption_with_clusters,
    cluster_maps,
    clusters_of_vectors,
    grid_neighbors,
    late_interaction,
    mutual_argmax,
    partitions,
    tree,
    write_clusters,
)
from recap.papers.acf.model import region_cells
from recap.papers.acf.settings import AcfModel, ClustersFigure
from recap.papers.transformer.settings import TransformerModel
from recap.tables.contact_sheet import grid_boxes

GOLDEN = Path(__file__).parents[3] / "golden"
WORDS = ["a", "man", "on", "a", "horse"]


def matrix(pairs, size):
    """Return a matrix of 0 with a few symmetric entries."""
    values = np.eye(size)
    for (a, b), value in pairs.items():
        values[a, b] = values[b, a] = value
    return values.tolist()


def layers():
    first = matrix({(0, 1): 0.9, (3, 4): 0.6, (2, 3): 0.2, (1, 2): 0.1}, 5)
    second = matrix({(0, 1): 0.95, (3, 4): 0.8, (2, 3): 0.7, (1, 2): 0.3}, 5)
    third = matrix({(0, 1): 0.95, (3, 4): 0.8, (2, 3): 0.7, (1, 2): 0.5}, 5)
    return partitions({1: first, 3: second, 6: third}, list(pairwise(range(5))), 0.5)


def test_words_are_clustered_layer_by_layer_into_a_tree():
    assert layers() == {1: [[0, 1], [2], [3, 4]], 3: [[0, 1], [2, 3, 4]], 6: [[0, 1, 2, 3, 4]]}
    assert tree(layers()) == [[[0, 1], [2, [3, 4]]]]
    assert bracketed(tree(layers())[0], WORDS) == "((a man) (on (a horse)))"


def test_neighbors_of_a_grid_are_beside_and_below():
    assert sorted(grid_neighbors([0, 1, 2, 3], 2)) == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert sorted(grid_neighbors([0, 1, 2, None], 2)) == [(0, 1), (0, 2)]
    assert all(abs(a - b) in (1, 3) for a, b in grid_neighbors(list(range(9)), 3))
    # the end of a row and the begin of the next
    assert (2, 3) not in grid_neighbors(list(range(9)), 3)


def cluster_map(label, **changes):
    patches = {1: [[0, 1], [2], [3]], 3: [[0, 1], [2, 3]], 6: [[0, 1, 2, 3]]}
    given = {"words_of_layer": layers(), "patches_of_layer": patches} | changes
    return ClusterMap(label=label, words=WORDS, boxes=grid_boxes(2), **given)


def test_the_figure_and_its_trees_are_written(tmp_path):
    from PIL import Image

    photos = {7: Image.new("RGB", (40, 30), (90, 120, 30))}
    maps = {
        7: [cluster_map("BASE", words_of_layer={}, patches_of_layer={}), cluster_map("ACF <1>")]
    }
    out = tmp_path / "clusters.png"
    write_clusters(maps, photos, heading="Clusters of 'a' & b", layers=[1, 6], out=out)
    two = Image.open(out).size
    write_clusters(maps, photos, heading="", layers=None, out=out)
    assert Image.open(out).size[0] >= two[0]
    written = json.loads(out.with_suffix(".json").read_text())["7"]
    assert written[0]["tree"] == written[0]["patch_tree"] == []
    assert written[1] == maps[7][1].text()
    assert written[1]["tree"] == ["((a man) (on (a horse)))"]
    assert written[1]["phrases"]["3"] == ["a man", "on a horse"]
    assert written[1]["patch_tree"] == [[[0, 1], [2, 3]]]


def test_maps_are_what_the_layers_attend_with():
    config = AcfModel.model_validate({**AcfModel.example().model_dump(), "plain_encoder_layers": 1})
    model, images = built(config), random_images(config, 1, masked=False)
    encoder, decoder = cluster_maps(model, images, torch.tensor([[[1, 4, 5, 6]]]))
    assert {layer: c.shape for layer, c in encoder.items()} == {2: (9, 9)}
    assert {layer: c.shape for layer, c in decoder.items()} == {1: (4, 4), 2: (4, 4)}
    assert not any(module._forward_hooks for module in model.modules())
    _, shorter = cluster_maps(model, images, torch.tensor([[[1, 4, 5]]]))
    torch.testing.assert_close(shorter[2], decoder[2][:3, :3])
    assert cluster_maps(built(TransformerModel.example()), images, torch.tensor([[[1, 4]]])) == (
        {},
        {},
    )


def test_the_untrained_model_stands_beside_the_trained_one_with_its_caption(tmp_path):
    data = prepare(tmp_path)
    config = {**AcfModel.example().model_dump(), "sampling_rate": 1}
    words = load_vocabulary(tmp_path / "vocabulary.json")
    (tmp_path / "run").mkdir()
    save_file(
        build_model(config, InputSpec({"main": 6}, len(words))).state_dict(),
        tmp_path / "run/model.safetensors",
    )
    (tmp_path / "run/config.yaml").write_text(yaml.safe_dump({"spec": {"model_settings": config}}))
    images = sorted(Corpus.read(tmp_path / "corpus.parquet").captions("test"))[:2]
    runs = {"ACF": tmp_path / "run"}
    models = DrawnModels(
        runs,
        tmp_path / "corpus.parquet",
        data.folder / "vocabulary.json",
        [tmp_path / "features.h5"],
        [],
        "",
    )
    figures = (
        ClustersFigure(kind="clusters", beam=2, threshold=0.5, untrained=untrained)
        for untrained in (False, True)
    )
    alone, both = (caption_with_clusters(figure, models, "ACF", images) for figure in figures)
    assert [[drawn.label for drawn in each] for each in both.values()] == [
        ["ACF", "ACF, untrained"]
    ] * 2
    assert [each[0] for each in both.values()] == [each[0] for each in alone.values()]
    for trained, untrained in both.values():
        assert (
            trained.words == untrained.words
            and trained.patches_of_layer != untrained.patches_of_layer
        )


def test_regions_are_clustered_with_their_neighbors_in_the_layout():
    boxes = torch.tensor(
        [[[60.0, 0, 80, 20], [0, 50, 20, 70], [0, 0, 20, 20], [60, 50, 80, 70], [90, 0, 100, 50]]]
    )
    stream = Stream(
        torch.zeros(1, 5, 3),
        torch.ones(1, 5, dtype=torch.bool),
        boxes,
        torch.tensor([[100.0, 100.0]]),
    )
    # the columns 2, 1 and 0, 3 and 4
    assert region_cells(boxes, stream.mask, 2).tolist() == [[2, 0, 4, 1, 3, 5]]
    matrix = torch.eye(6)
    matrix[0, 1] = matrix[1, 0] = 0.9  # the cells of regions 2 and 0
    matrix[0, 4] = matrix[4, 0] = 0.9  # those of 2 and 3, which are no neighbors
    found, clusters = clusters_of_vectors({1: matrix}, stream, 2, 0.5, "a.h5: image 1")
    assert clusters == {1: [[0, 2], [1], [3], [4]]}
    assert found[0] == pytest.approx((0.6, 0.0, 0.8, 0.2))


def test_alignment_as_in_the_golden_vectors():
    golden = {
        key: torch.from_numpy(np.asarray(x))
        for key, x in np.load(GOLDEN / "acf_naive_alignment.npz").items()
    }
    count, share = mutual_argmax(golden["D_v"], golden["D_t"])
    assert count == golden["count"]
    assert share == pytest.approx(golden["score_over_min"].item(), abs=1e-12)
    assert count / len(golden["D_t"]) == pytest.approx(golden["score_over_text"].item(), abs=1e-12)
    scores = golden["V_score"]
    expected = (scores.max(1).values.mean() + scores.max(0).values.mean()) / 2 / 0.07
    assert late_interaction(golden["D_v"], golden["D_t"]) == pytest.approx(
        expected.item(), abs=1e-10
    )
