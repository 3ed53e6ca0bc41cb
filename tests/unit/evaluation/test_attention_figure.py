"""Where models look: the hook and the picture."""

import torch
from PIL import Image

from helpers.feature_stores import SIZE, write_store
from helpers.model_cases import build_model
from helpers.refusals import refused
from recap.core.errors import ConfigError, FeatureError
from recap.data.files.images import ImageSource
from recap.evaluation.figures import vector_boxes
from recap.models.ensemble import Ensemble
from recap.models.explained import attention_maps
from recap.models.images import InputSpec
from recap.runs.inputs import FeatureSources
from recap.tables.contact_sheet import AttentionMap, grid_boxes, shaded, write_attention


def test_a_model_without_the_hook_is_named():
    model = Ensemble(
        [build_model({"kind": "transformer", "d_model": 8, "heads": 2}, InputSpec({"main": 5}, 9))]
    )
    with refused(ConfigError, "Ensemble", "`attention_modules`"):
        attention_maps(model, torch.zeros(1, 1, 1, dtype=torch.long), None)


def test_the_strongest_box_is_bright_and_outlined():
    white = Image.new("RGB", (64, 64), (255, 255, 255))
    picture = shaded(white, grid_boxes(2), [0.0, 0.1, 0.2, 0.7])
    assert picture.getpixel((48, 48)) == (255, 255, 255)
    assert picture.getpixel((32, 48)) == (220, 20, 20)  # left edge of the last cell
    assert max(picture.getpixel((16, 16))) < 90
    # thinner than a pixel
    assert shaded(white, [(0.5, 0.5, 0.501, 0.9)], [1.0]).getpixel((32, 40)) == (220, 20, 20)


def test_figure_of_two_models(tmp_path):
    Image.new("RGB", (40, 20), (0, 200, 0)).save(tmp_path / "a.png")
    maps = {
        7: [
            AttentionMap("one", ["a", "dog"], grid_boxes(2), [[0.25] * 4, [1, 0, 0, 0]]),
            AttentionMap("two", [], [], []),
        ]
    }
    out = tmp_path / "figure.png"
    where = {"maps": maps, "files": {7: "a.png"}, "source": ImageSource([tmp_path]), "out": out}
    write_attention(heading="", **where)
    with Image.open(out) as figure:
        assert figure.width > 11 * 132 and figure.height > 2 * 24


def test_regions_are_where_their_boxes_are_and_other_vectors_are_cells_of_a_grid(tmp_path):
    def read(name, **options):
        return (
            FeatureSources([write_store(tmp_path / f"{name}.h5", [7], **options)])
            .read([7], with_boxes=True)
            .main
        )

    regions = read("regions", stream="region", rows=3, boxes=True)
    assert vector_boxes(regions, "x") == [
        tuple(box) for box in (regions.boxes[0] / torch.tensor(SIZE * 2)).tolist()
    ]
    assert vector_boxes(read("cells", rows=4), "x") == grid_boxes(2)
    with refused(FeatureError, "image 7"):
        vector_boxes(read("others", rows=3), "image 7")
