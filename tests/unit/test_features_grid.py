import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from recap.core.config import GridFeatures
from recap.core.device import select_device
from recap.core.errors import ConfigError, DataError, FeatureError, RecapError
from recap.data.corpus.corpus import Caption, write_corpus
from recap.features.grid import Backbone, extract_grid
from recap.features.maps import as_maps, channel_scale
from recap.features.pictures import batches, in_order, resampling
from recap.features.store import FeatureStore
from recap.features.torchvision_ops import ensure_torchvision

CPU = torch.device("cpu")
SIZES = {3: (40, 24), 1: (32, 32), 8: (50, 50), 5: (20, 60), 4: (32, 40)}


def spec(**changes):
    values = {
        "backbone": "test_resnet",
        "weights": "random",
        "image_size": 64,
        "grid": 2,
        "batch_size": 2,
        "shard_size": 3,
    }
    return GridFeatures(kind="grid", **{**values, **changes})


def backbone(**changes):
    return Backbone(spec(**changes), weights=None, device=CPU)


def tensors_of(net):
    return {name: tensor.contiguous() for name, tensor in net.model.state_dict().items()}


@pytest.fixture
def pictures(tmp_path):
    """A corpus of five small pictures in a folder."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for image_id, (width, height) in SIZES.items():
        noise = np.random.default_rng(image_id).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{image_id}.png")
    rows = [Caption(i, f"{i}.png", "train" if i > 1 else "test", i, "a dog", ["a", "dog"]) for i in SIZES]
    write_corpus(rows, tmp_path / "corpus.parquet", dataset="noise", kind="karpathy", source_sha256="0" * 64)
    return folder


def extract(folder, out="f.h5", *, threads=1, device="cpu", **changes):
    root = folder.parent
    extract_grid(
        spec=spec(**changes),
        corpus=root / "corpus.parquet",
        images=[folder],
        inputs=root,
        trained=None,
        device=device,
        threads=threads,
        shards=root / "shards",
        out=root / out,
    )
    return root / out


def test_store_of_a_corpus(pictures):
    store = FeatureStore(extract(pictures))
    assert store.ids.tolist() == sorted(SIZES)
    assert {int(i): tuple(size.tolist()) for i, size in zip(store.ids, store.image_sizes, strict=True)} == SIZES
    values, mask = store.read([5, 1])
    assert values.shape == (2, 4, store.dim)
    assert mask.all()
    said = json.loads(store.attributes["extractor"])
    assert said["backbone"] == "test_resnet"
    assert "no crop" in said["preprocessing"]["resize"]
    assert "batch_size" not in said


@pytest.mark.parametrize("weights", ["random", "tensors.safetensors"])
def test_an_image_of_several_views_has_the_rows_of_each_in_turn(pictures, weights):
    folder = pictures.parent
    save_file(tensors_of(backbone()), folder / "tensors.safetensors")
    changes = {"weights": weights, "dtype": "float32"}
    single = FeatureStore(extract(pictures, "single.h5", **changes))
    views = {1: [3, 8], 2: [4], 7: [5, 3, 8]}
    rows = [
        Caption(i, "|".join(f"{view}.png" for view in some), "train", i, "a dog", ["a", "dog"])
        for i, some in views.items()
    ]
    write_corpus(rows, folder / "corpus.parquet", dataset="noise", kind="karpathy", source_sha256="0" * 64)
    store = FeatureStore(extract(pictures, "several.h5", **changes))
    assert store.rows([1, 2, 7]).tolist() == [8, 4, 12]
    assert [tuple(size) for size in store.image_sizes.tolist()] == [SIZES[3], SIZES[4], SIZES[5]]
    if weights == "random":
        assert "6 training pictures" in store.attributes["extractor"]
        return
    for image_id, some in views.items():
        expected = single.read(some)[0].flatten(0, 1)
        assert torch.allclose(store.read([image_id])[0][0], expected, atol=1e-5)


def test_a_view_that_is_missing_is_named(pictures):
    rows = [Caption(1, "3.png|none.png", "train", 1, "a dog", ["a", "dog"])]
    write_corpus(rows, pictures.parent / "corpus.parquet", dataset="noise", kind="karpathy", source_sha256="0" * 64)
    with pytest.raises(DataError, match=r"^none.png: not found in"):
        extract(pictures)


def test_bytes_do_not_depend_on_threads_or_repetition(pictures):
    first = extract(pictures, "1.h5").read_bytes()
    assert extract(pictures, "2.h5", threads=3).read_bytes() == first
    assert extract(pictures, "3.h5", seed=1).read_bytes() != first


def test_random_features_are_standardised_over_the_training_pictures(pictures):
    store = FeatureStore(extract(pictures, dtype="float32"))
    values = store.read([3, 4, 5, 8])[0].flatten(0, 1)
    moving = values.std(0) > 0
    assert moving.any()
    assert values[:, moving].mean(0).abs().max() < 1e-4
    assert (values[:, moving].std(0, correction=0) - 1).abs().max() < 1e-4
    assert "4 training pictures" in store.attributes["extractor"]


def test_a_channel_that_never_moves_becomes_zero():
    mean, factor = channel_scale(np.stack([np.full((2, 3), 5.0), np.arange(6.0).reshape(2, 3)]) * [[1, 1, 0]])
    assert factor[2] == 0
    mean, factor = channel_scale(np.full((4, 4, 1), 0.1, np.float32))
    assert factor[0] == 0
    assert mean[0] == np.float32(0.1)


def test_rows_are_in_raster_order():
    torch.manual_seed(0)
    net = backbone(grid=4, out_index=1)
    blank = torch.full((1, 64, 64, 3), 120, dtype=torch.uint8)
    spot = blank.clone()
    spot[0, 4:12, 36:44] = 255  # inside the cell in row 0, column 2
    change = (net(spot) - net(blank)).abs().sum(-1)[0]
    assert change.argmax() == 2


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "test_convnext", "test_efficientnet"])
@pytest.mark.parametrize("out_index", [None, 0])
def test_backbones_of_every_form_give_rows(name, out_index):
    net = backbone(backbone=name, image_size=96, grid=3, out_index=out_index)
    picture = torch.randint(0, 256, (2, 96, 96, 3), dtype=torch.uint8)
    rows = net(picture)
    assert rows.shape[:2] == (2, 9)
    assert torch.isfinite(rows).all()
    # Nothing of one picture may depend on the others of its batch.
    assert torch.allclose(net(picture[:1]), rows[:1], atol=1e-5)


def test_tokens_lose_their_prefix_and_channels_come_first():
    model = torch.nn.Identity()
    tokens = torch.arange(2 * 5 * 3.0).view(2, 5, 3)
    model.num_prefix_tokens = 1
    assert torch.equal(as_maps(tokens, model=model, backbone="x"), tokens[:, 1:].transpose(1, 2).view(2, 3, 2, 2))
    with pytest.raises(ConfigError, match=r"\[2, 5\]"):
        as_maps(tokens[..., 0], model=model, backbone="x")
    model.num_prefix_tokens = 2
    with pytest.raises(ConfigError, match="no square grid"):
        as_maps(tokens, model=model, backbone="x")
    maps = torch.rand(2, 4, 6, 3)
    assert as_maps(maps, model=model, backbone="x") is maps
    model.output_fmt = "NHWC"
    assert torch.equal(as_maps(maps, model=model, backbone="x"), maps.permute(0, 3, 1, 2))


def test_seed_decides_about_random_weights_and_leaves_the_generator_alone():
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first = backbone().weights_sha256
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(8)
    assert backbone().weights_sha256 == first
    assert backbone(seed=1).weights_sha256 != first


def test_activation_is_overridden():
    kinds = {type(module) for module in backbone(backbone="test_efficientnet", activation="relu6").model.modules()}
    assert torch.nn.ReLU6 in kinds
    assert torch.nn.SiLU not in kinds


def test_weights_from_a_file(tmp_path):
    random = backbone()
    save_file(tensors_of(random), tmp_path / "w.safetensors")
    loaded = Backbone(spec(weights="w.safetensors", seed=5), weights=tmp_path / "w.safetensors", device=CPU)
    picture = torch.randint(0, 256, (1, 64, 64, 3), dtype=torch.uint8)
    assert torch.equal(loaded(picture), random(picture))


def test_weights_that_do_not_fit_are_one_sentence(tmp_path):
    good = tensors_of(backbone())
    name = next(iter(good))

    def problem(tensors, file="w.safetensors"):
        if tensors is not None:
            save_file(tensors, tmp_path / file)
        with pytest.raises(FeatureError) as error:
            Backbone(spec(weights=file), weights=tmp_path / file, device=CPU)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert f"it lacks {name!r}" in problem({key: value for key, value in good.items() if key != name})
    assert "it has 'odd'" in problem({**good, "odd": torch.ones(1)})
    assert f"{name!r} is [1]" in problem({**good, name: torch.ones(1)})
    assert "no such weights file" in problem(None, "none.safetensors")
    assert "only safetensors" in problem(good, "w.pt")
    content = (tmp_path / "w.safetensors").read_bytes()
    (tmp_path / "w.safetensors").write_bytes(content[: len(content) // 2])
    assert "truncated or no safetensors file" in problem(None)
    assert load_file(tmp_path / "w.pt").keys() == good.keys()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backbone": "test_resnt"}, "timm has no 'test_resnt'; did you mean 'test_resnet'"),
        ({"backbone": "nope"}, r"timm has no 'nope'; the nearest of its \d+ are nfnet_"),
        ({"out_index": 9}, "has the stages 0 to 4, not 9"),
        (
            {"backbone": "test_resnet.r160_in2k"},
            "timm has no 'test_resnet.r160_in2k'; did you mean 'test_resnet.r160_in1k'",
        ),
        ({"backbone": "test_nfnet", "activation": "relu"}, "test_nfnet: cannot be built: .*activation"),
        ({"backbone": "pit_ti_224", "activation": "relu"}, "pit_ti_224: cannot be built with act_layer"),
    ],
)
def test_unknown_names_are_said(changes, words):
    with pytest.raises(ConfigError, match=words):
        backbone(**changes)


def test_a_map_too_coarse_for_the_grid_is_refused():
    with pytest.raises(ConfigError, match="maps of 2 x 2 cells, too coarse for `grid: 7`"):
        backbone(grid=7)(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))


def test_pretrained_without_a_network_says_how_to_go_on(monkeypatch):
    ensure_torchvision()
    import timm

    def offline(name, pretrained, **options):
        raise ConnectionError("no route to the hub\nsecond line")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(
        FeatureError, match=r"test_resnet: .*no route to the hub\); without a network, set `weights`"
    ) as error:
        backbone(weights="pretrained")
    assert "second line" not in str(error.value)


@pytest.mark.parametrize("threads", [1, 3])
def test_missing_picture_is_named_before_any_work(pictures, threads):
    (pictures / "5.png").unlink()
    with pytest.raises(DataError, match=r"5\.png"):
        extract(pictures, threads=threads)
    assert not (pictures.parent / "shards").exists()


@pytest.mark.parametrize("threads", [1, 3])
def test_truncated_picture_is_one_sentence_and_no_store(pictures, threads):
    content = (pictures / "8.png").read_bytes()
    (pictures / "8.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"8\.png") as error:
        extract(pictures, threads=threads, weights="random")
    assert "\n" not in str(error.value)
    assert not (pictures.parent / "f.h5").exists()


def test_gpu_asked_for_and_absent(pictures, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RecapError, match=r"'cuda' is asked for, but torch .*use 'auto' or 'cpu'"):
        extract(pictures, device="cuda")
    assert select_device("auto") == CPU
    with pytest.raises(ConfigError, match="use auto, cpu or cuda"):
        select_device("tpu")


def test_order_is_kept_and_few_items_run_ahead():
    taken = []

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    results = in_order(lambda number: number * number, items(), threads=3)
    assert next(results) == 0
    assert len(taken) <= 7
    assert list(results) == [number * number for number in range(1, 50)]


def test_batches_stay_inside_their_group():
    assert list(batches([[1, 2, 3], [4], [5, 6]], 2)) == [[1, 2], [3], [4], [5, 6]]


def test_unknown_interpolation_is_named():
    with pytest.raises(ConfigError, match="'random'"):
        resampling("random")


def test_timm_can_be_imported_beside_any_torchvision():
    assert ensure_torchvision() in ("native", "schemas-only", "absent")
    import timm

    assert timm.list_models("test_resnet") == ["test_resnet"]
