"""Every kind of features has its rule; imported boxes are cut out of photographs and encoded."""

import base64
import json

import numpy as np
import pytest
from PIL import Image

from recap.features.store import FeatureStore


@pytest.fixture
def photos(workspace):
    """A workspace whose profile needs crops of the boxes of a TSV, and its outside files."""
    folder = workspace.folder / "inputs"
    (folder / "photos").mkdir(parents=True)
    images, lines = [], []
    for number, split in enumerate(("train", "train", "val", "test")):
        name = f"dog_{number}_ab"
        Image.new("RGB", (40, 30), (60 * number, 90, 120)).save(folder / "photos" / f"{name}.jpg")
        words = {"tokens": ["a", "dog"], "raw": "a dog", "imgid": number, "sentid": number}
        images.append(
            {"filename": f"{name}.jpg", "imgid": number, "split": split, "sentids": [number], "sentences": [words]}
        )
        boxes = np.float32([[0, 0, 40, 30], [5, 5, 20, 25]])
        arrays = [base64.b64encode(array.tobytes()).decode() for array in (boxes, np.ones((2, 6), np.float32))]
        lines.append("\t".join([name, "40", "30", "2", *arrays]))
    (folder / "captions.json").write_text(json.dumps({"images": images, "dataset": "dogs"}))
    (folder / "regions.tsv").write_text("\n".join(lines) + "\n")
    workspace.change("tiny.yaml", "[tiny]", "[photos]")
    return workspace


def test_imported_boxes_are_cropped_and_encoded(photos):
    photos.change("tables/photos.yaml", "features: tiny_grid", "features: tiny_crops")
    done = photos.snakemake("features_all", config=("inputs=inputs",))
    assert done.returncode == 0, done.stderr
    folder = photos.folder / "results" / "tiny" / "features" / "tiny_photos"
    regions, crops = FeatureStore(folder / "tiny_imported.h5"), FeatureStore(folder / "tiny_crops.h5")
    assert regions.ids.tolist() == crops.ids.tolist() == [0, 1, 2, 3]
    assert (crops.column([2], "boxes") == regions.column([2], "boxes")).all()
    assert set(crops.rows([0, 1, 2, 3])) == {2}
    assert photos.planned("features_all", config=("inputs=inputs",)) == {}


def test_regions_have_a_rule_of_their_own(photos):
    photos.change("tables/photos.yaml", "features: tiny_grid", "features: tiny_regions")
    planned = photos.planned("features_all", config=("inputs=inputs",))
    own = {"subset": 1, "used_images": 1, "extractor": 1}
    assert planned == {"corpus": 1, **own, "detector_features": 1, "features_all": 1}
