"""Backbones of every form: rows, random and given weights, and names that timm does not have."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from helpers.backbones import CPU, backbone, spec, tensors_of
from helpers.refusals import refused
from recap.core.errors import ConfigError, FeatureError
from recap.features.backbones import ensure_torchvision
from recap.features.grid import Backbone, as_maps


def test_rows_are_in_raster_order():
    torch.manual_seed(0)
    net = backbone(grid=4, out_index=1)
    blank = torch.full((1, 64, 64, 3), 120, dtype=torch.uint8)
    spot = blank.clone()
    spot[0, 4:12, 36:44] = 255  # inside the cell in row 0, column 2
    change = (net.rows(spot) - net.rows(blank)).abs().sum(-1)[0]
    assert change.argmax() == 2


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "test_convnext", "test_efficientnet"])
@pytest.mark.parametrize("out_index", [None, 0])
def test_backbones_of_every_form_give_rows(name, out_index):
    net = backbone(backbone=name, image_size=96, grid=3, out_index=out_index)
    picture = torch.randint(0, 256, (2, 96, 96, 3), dtype=torch.uint8)
    rows = net.rows(picture)
    assert rows.shape[:2] == (2, 9)
    assert torch.isfinite(rows).all()
    # Nothing of one picture may depend on the others of its batch.
    assert torch.allclose(net.rows(picture[:1]), rows[:1], atol=1e-5)


def test_tokens_lose_their_prefix_and_channels_come_first():
    model = torch.nn.Identity()
    tokens = torch.arange(2 * 5 * 3.0).view(2, 5, 3)
    maps = torch.rand(2, 4, 6, 3)
    for features in (tokens[..., 0], tokens):
        with refused(ConfigError, "x: ", str(list(features.shape))):
            as_maps(features, model=model, backbone="x")
    model.num_prefix_tokens, model.output_fmt = 1, "NHWC"
    assert torch.equal(
        as_maps(tokens, model=model, backbone="x"), tokens[:, 1:].transpose(1, 2).view(2, 3, 2, 2)
    )
    assert torch.equal(as_maps(maps, model=model, backbone="x"), maps.permute(0, 3, 1, 2))


def test_seed_decides_about_random_weights_and_leaves_the_generator_alone():
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first = backbone().weights_sha256
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(8)
    assert backbone().weights_sha256 == first
    assert backbone(seed=1).weights_sha256 != first


def test_weights_from_a_file(tmp_path):
    random = backbone()
    save_file(tensors_of(random), tmp_path / "w.safetensors")
    loaded = Backbone(
        spec(weights="w.safetensors", seed=5), weights=tmp_path / "w.safetensors", device=CPU
    )
    picture = torch.randint(0, 256, (1, 64, 64, 3), dtype=torch.uint8)
    assert torch.equal(loaded.rows(picture), random.rows(picture))


def test_weights_that_do_not_fit_are_one_sentence(tmp_path):
    good = tensors_of(backbone())
    name = next(iter(good))

    def refuses(named, tensors=None, file="w.safetensors"):
        if tensors is not None:
            save_file(tensors, tmp_path / file)
        with refused(FeatureError, named):
            Backbone(spec(weights=file), weights=tmp_path / file, device=CPU)

    refuses(name, {key: value for key, value in good.items() if key != name})
    refuses('"odd"', {**good, "odd": torch.ones(1)})
    refuses(name, {**good, name: torch.ones(1)})
    refuses("none.safetensors", file="none.safetensors")
    torch.save(good, tmp_path / "w.pt")
    refuses("safetensors", file="w.pt")
    content = (tmp_path / "w.safetensors").read_bytes()
    (tmp_path / "w.safetensors").write_bytes(content[: len(content) // 2])
    refuses("w.safetensors: ")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"backbone": "nope"}, ["backbone", "'nope'", "nfnet_"]),
        ({"out_index": 9}, ["out_index", "test_resnet", "4]", "9"]),
        ({"backbone": "pit_ti_224", "activation": "relu"}, ["pit_ti_224", "act_layer"]),
    ],
)
def test_unknown_names_are_said(changes, named):
    with refused(ConfigError, *named):
        backbone(**changes)


def test_a_map_too_coarse_for_the_grid_is_refused():
    with refused(ConfigError, "`grid: 7`"):
        backbone(grid=7).rows(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))


def test_pretrained_without_a_network_says_how_to_go_on_after_one_question(monkeypatch, tmp_path):
    ensure_torchvision()
    import huggingface_hub
    import timm

    asked = []

    def offline(self, repository, **options):
        asked.append(repository)
        raise ConnectionError("no route " + "to the hub " * 20 + "\nsecond line")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", offline)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(
        timm, "create_model", lambda *words, **options: pytest.fail("the hub was asked again")
    )
    with refused(FeatureError, "test_resnet", "`weights`") as error:
        backbone(weights="pretrained")
    assert asked == ["timm/test_resnet.r160_in1k"]
    assert "second line" not in str(error.value)


@pytest.mark.seconds
def test_timm_is_imported_without_the_compiler_which_works_afterwards():
    code = """
import sys
import torch
from recap.features.backbones import timm_library

model = timm_library().create_model("resnet18", pretrained=False).eval()
assert not [name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))]
x = torch.randn(1, 3, 64, 64)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(x), model(x))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
