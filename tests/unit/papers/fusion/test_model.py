"""The Fusion Transformer beside its contract: what its streams, boxes and options mean."""

import pytest
import torch

from helpers.feature_stores import write_store
from helpers.model_cases import build_model, built, log_probabilities, random_images, random_tokens
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.models.images import Images, InputSpec, Stream
from recap.papers.fusion.model import (
    SMALLEST_SIDE,
    Boxes,
    RelativeSpatialEncoding,
    cell_boxes,
    direction_index,
)
from recap.runs.inputs import FeatureSources
from recap.settings.models import MODELS

EXAMPLE = MODELS.classes()["fusion"].example()
RIGHT, DOWN, LEFT, UP = range(4)


def test_the_direction_leads_from_the_key_to_the_query():
    # left, right, low, high
    centres = torch.tensor([[0.1, 0.5], [0.9, 0.5], [0.5, 0.9], [0.5, 0.1]])
    index = direction_index(centres, 1)
    assert index[1, 0] == RIGHT and index[0, 1] == LEFT
    assert index[2, 3] == DOWN and index[3, 2] == UP
    assert (index.diagonal() == 0).all()


def test_ties_do_not_depend_on_rounding():
    exact = Boxes.of(cell_boxes(7)).centres
    noise = 1e-12 * torch.randn(
        exact.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(direction_index(exact + noise, 1), direction_index(exact, 1))


def test_boxes_without_area_have_a_finite_geometry():
    boxes = Boxes.of(
        torch.tensor([[0.2, 0.2, 0.2, 0.2], [0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)
    )
    assert boxes.sides[0].tolist() == [SMALLEST_SIDE] * 2
    for per_quadrant, direction in ((1, "log_index"), (2, "learned"), (0, "log_index")):
        module = RelativeSpatialEncoding(
            heads=2, per_quadrant=per_quadrant, direction=direction, plus_one=False
        )
        assert torch.isfinite(module.double()(boxes)).all()


def moved(stream):
    """Return a stream whose boxes are mirrored, left to right."""
    left, top, right, bottom = stream.boxes.unbind(-1)
    width = stream.sizes[:, :1]
    return Stream(
        stream.values,
        stream.mask,
        torch.stack([width - right, top, width - left, bottom], -1),
        stream.sizes,
    )


@pytest.mark.parametrize(
    "changes", [{}, {"directions_per_quadrant": 0}], ids=["direction", "no direction"]
)
def test_boxes_of_regions_count_and_those_of_the_grid_are_not_asked_for(changes):
    model, tokens = built(EXAMPLE.model_copy(update=changes)), random_tokens()
    images = random_images(EXAMPLE)
    expected = log_probabilities(model, images, tokens)
    mirrored = Images(
        {
            name: moved(stream) if name == "region" else stream
            for name, stream in images.streams.items()
        }
    )
    assert (log_probabilities(model, mirrored, tokens) - expected).abs().amax(
        (1, 2, 3)
    ).min() > 1e-6
    grid = images["grid"]
    bare = Images({**images.streams, "grid": Stream(grid.values, grid.mask)})
    assert torch.equal(log_probabilities(model, bare, tokens), expected)


def test_directions_alone_tell_mirrored_boxes_apart():
    # Eq. 9 takes absolute distances, so without direction the bias is that of the mirrored boxes.
    boxes = torch.tensor(
        [[0.1, 0.1, 0.2, 0.3], [0.6, 0.2, 0.8, 0.3], [0.4, 0.7, 0.9, 0.9]], dtype=torch.float64
    )
    mirrored = torch.stack([1 - boxes[:, 2], boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3]], -1)
    for per_quadrant in (0, 1):
        module = RelativeSpatialEncoding(
            heads=2, per_quadrant=per_quadrant, direction="log_index", plus_one=False
        )
        bias, other = (module.double().embed(Boxes.of(some)) for some in (boxes, mirrored))
        assert torch.allclose(bias, other, atol=1e-9) is (per_quadrant == 0)


def test_regions_without_a_grid_or_two_second_streams_are_refused():
    for sizes in ({"region": 5}, {"grid": 7}, {"grid": 7, "region": 5, "segment": 5}):
        with refused(ConfigError, "region and segment"):
            build_model(EXAMPLE, InputSpec(sizes, 9))
    assert build_model(EXAMPLE, InputSpec({"segment": 5, "grid": 7}, 9)).second_stream == "segment"


def test_only_the_stream_whose_boxes_are_read_needs_boxes(tmp_path):
    grid = write_store(tmp_path / "grid.h5", [1, 2], stream="grid", width=7, rows=lambda _: 9)
    region = write_store(tmp_path / "region.h5", [1, 2], stream="region", width=5, boxes=True)
    sources = FeatureSources([grid, region])
    inputs = InputSpec(sources.sizes, 11)
    model = build_model(EXAMPLE, inputs).eval()
    sources.choose([model], inputs)
    images = sources.read([2, 1])
    assert images["grid"].boxes is None and images["region"].boxes is not None
    assert torch.isfinite(model.decode(random_tokens(2), model.encode(images))).all()
    cells = build_model(EXAMPLE.model_copy(update={"second_geometry": "cells"}), inputs)
    sources.choose([cells], inputs)
    assert sources.read([2])["region"].boxes is None


def test_the_geometry_of_boxes_is_the_same_under_autocast():
    torch.manual_seed(0)
    boxes = Boxes.of(torch.rand(2, 9, 4, dtype=torch.float64))
    encoding = RelativeSpatialEncoding(heads=4, per_quadrant=2, direction="learned", plus_one=False)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            bias = encoding(boxes)
        found.append([bias, *torch.autograd.grad(bias.sum(), list(encoding.parameters()))])
    assert found[1][0].dtype == torch.float32
    torch.testing.assert_close(*found, rtol=0, atol=0)
