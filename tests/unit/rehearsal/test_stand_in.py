"""Stand-ins for detectors write stores in the form of the detectors'."""

import numpy as np
import pytest
from PIL import Image

from recap.features.records import stored_arrays
from rehearsal.stand_in import StandInRegions, StandInSegments, found_regions, occupancy

PICTURE = Image.new("RGB", (60, 40))
REGIONS = {"kind": "stand_in_regions", "detector": "grid_feats_x101_c5", "weights": "a.pkl"}


@pytest.mark.parametrize(
    ("changes", "width", "streams"),
    [
        ({}, 2048, ("region",)),
        ({"grid": 7, "attributes": 0}, 2048, ("region", "grid")),
        ({"vectors": "fc1"}, 1024, ("region",)),
    ],
)
def test_regions_have_boxes_in_the_picture_vectors_classes_and_what_the_settings_ask_for(changes, width, streams):
    spec = StandInRegions(**{**REGIONS, **changes})
    arrays = stored_arrays(found_regions(7, PICTURE, spec), dtype="float16", streams=streams)
    assert arrays["region/values"].shape[1] == width
    assert spec.min_boxes <= len(arrays["region/values"]) <= spec.max_boxes
    assert ("region/attributes" in arrays) == bool(spec.attributes)
    assert ("grid/values" in arrays) == bool(spec.grid)
    again = stored_arrays(found_regions(7, PICTURE, spec), dtype="float16", streams=streams)
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_a_grid_alone_has_no_regions():
    spec = StandInRegions(**REGIONS, grid=7, regions=False)
    arrays = stored_arrays(found_regions(7, PICTURE, spec), dtype="float16", streams=spec.streams())
    assert {name: array.shape for name, array in arrays.items()} == {"grid/values": (49, 2048)}
    with pytest.raises(ValueError, match="`grid`"):
        StandInRegions(**REGIONS, regions=False)


def test_shares_of_classes_add_up_in_each_cell():
    spec = StandInSegments(kind="stand_in_segments", weights="a.pkl", grid=7)
    values = stored_arrays(occupancy(7, PICTURE, spec), dtype="float32", streams=("segment",))["segment/values"]
    assert values.shape == (49, 133)
    np.testing.assert_allclose(values.sum(1), 1, rtol=1e-5)
