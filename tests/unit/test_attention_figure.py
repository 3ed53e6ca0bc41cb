"""Where models look: the hook and the picture."""

import pytest
import torch
from PIL import Image

from recap.core.errors import ConfigError
from recap.models.attention_maps import attention_maps
from recap.models.registry import build_model
from recap.reporting.attention import Look, grid_boxes, shaded, write_attention

F, V, N = 5, 9, 4
SIZES = {"d_model": 8, "heads": 2}
MODELS = [
    {"kind": "xlan", **SIZES, "d_joint": 3, "encoder_layers": 1},
    {"kind": "xlan", **SIZES, "d_joint": 3, "encoder_layers": 0, "decoder_attention": "conventional"},
    {"kind": "x_transformer", **SIZES, "d_joint": 3, "d_feed_forward": 8, "encoder_layers": 1, "decoder_layers": 2},
    {"kind": "up_down", "d_model": 8, "d_word": 8, "d_attention": 4},
]


@pytest.mark.parametrize("config", MODELS, ids=lambda config: "-".join(map(str, config.values())))
@pytest.mark.parametrize("words", [1, 3])
def test_weights_of_every_word_sum_to_one_over_real_vectors(config, words):
    torch.manual_seed(0)
    model = build_model(config, feature_size=F, vocabulary_size=V).eval()
    mask = torch.tensor([[True] * N, [True, True, False, False]])
    maps = attention_maps(model, torch.full((2, 2, words), 4), model.encode(torch.randn(2, N, F), mask))
    assert maps.shape == (2, 2, words, N)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 2, words))
    assert maps[1, :, :, 2:].abs().max() == 0
    assert not any(module._forward_hooks for module in model.modules())


def test_a_model_without_the_hook_is_named():
    model = build_model({"kind": "transformer", "d_model": 8, "heads": 2}, feature_size=F, vocabulary_size=V)
    with pytest.raises(ConfigError, match="a Transformer does not show where it looks"):
        attention_maps(model, torch.zeros(1, 1, 1, dtype=torch.long), None)


def test_the_strongest_box_is_bright_and_outlined():
    white = Image.new("RGB", (64, 64), (255, 255, 255))
    picture = shaded(white, grid_boxes(2), [0.0, 0.1, 0.2, 0.7])
    assert picture.getpixel((48, 48)) == (255, 255, 255)
    assert picture.getpixel((32, 48)) == (220, 20, 20)  # left edge of the last cell
    assert max(picture.getpixel((16, 16))) < 90


def test_figure_of_two_models(tmp_path):
    Image.new("RGB", (40, 20), (0, 200, 0)).save(tmp_path / "a.png")
    looks = {7: [Look("one", ["a", "dog"], grid_boxes(2), [[0.25] * 4, [1, 0, 0, 0]]), Look("two", [], [], [])]}
    out = tmp_path / "figure.png"
    where = {"looks": looks, "files": {7: "a.png"}, "image_roots": [tmp_path], "out": out}
    write_attention(heading="", **where)
    with Image.open(out) as figure:
        width, height = figure.size
    assert width > 11 * 132
    assert height > 2 * 24
    write_attention(heading="Scale of this run: small. " * 12, **where)  # three lines at this width
    with Image.open(out) as figure:
        assert figure.size[0] == width
        assert figure.size[1] > height + 24
