"""What Ada-ClustFormer's clusters promise, beside the contract of all models."""

import pytest
import torch
from torch import nn

from helpers.model_cases import N, T, built, log_probabilities, random_images, random_tokens
from helpers.refusals import refused
from recap.core.errors import ConfigError, DataError
from recap.models.images import Images, Stream
from recap.nn.rows import Rows
from recap.papers.acf.model import GridClusters, LineClusters, Window, region_cells
from recap.papers.acf.settings import AcfModel
from recap.papers.transformer.settings import TransformerModel
from recap.settings.params import validate


def config(**changes):
    return AcfModel.model_validate({**AcfModel.example().model_dump(), **changes})


def sized(**changes):
    return AcfModel(kind="acf", d_model=8, heads=1, **changes)


def matrices(model, images, tokens):
    """Return C~ of each clustering layer of the encoder and of the decoder."""
    found = {"encoder": [], "decoder": []}
    handles = [
        module.register_forward_hook(
            lambda _m, _i, out, place=place: found[place].append(out.exp())
        )
        for place, modules in model.cluster_modules().items()
        for module in modules
        if module is not None
    ]
    model.decode(tokens, model.encode(images))
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("stacking", ["clusters", "steps"])
@pytest.mark.parametrize("kind", ["line", "grid"])
@pytest.mark.parametrize("shift", [-60.0, 100.0])
def test_gradients_are_finite_in_float32_for_extreme_scores(stacking, kind, shift):
    torch.manual_seed(0)
    if kind == "line":
        layers = [LineClusters(sized(stacking=stacking), rate=1) for _ in range(3)]
    else:
        layers = [GridClusters(sized(stacking=stacking, sampling_rate=1)) for _ in range(3)]
    x = torch.randn(1, 1, 576, 8, requires_grad=True)
    carried, total = (), 0.0
    for layer in layers:
        nn.init.constant_(layer.scores.bias, shift)
        log_c, carried = layer(Rows(x), carried)
        assert bool(torch.isfinite(log_c).all())
        assert log_c.max().item() <= 1e-6
        total = total + (log_c.exp() * torch.randn_like(log_c)).sum() + log_c.mean()
    total.backward()
    assert bool(torch.isfinite(x.grad).all())
    for layer in layers:
        assert all(bool(torch.isfinite(p.grad).all()) for p in layer.parameters())
    if shift < 0:
        assert log_c.exp().min().item() == 0.0  # the product itself has no gradient left ...
        assert layers[0].scores.bias.grad.abs().max().item() > 1  # ... and the logarithm has


@pytest.mark.parametrize("shift", [-3.0, 0.0, 3.0])
def test_clusters_are_probabilities_that_grow_from_layer_to_layer(shift):
    model = built(config(sampling_rate=1, encoder_layers=3, decoder_layers=3))
    for layer in [*model.encoder, *model.decoder]:
        nn.init.constant_(layer.clusters.scores.bias, shift)
    found = matrices(model, random_images(config()), random_tokens())
    for layers in found.values():
        assert len(layers) == 3
        for c in layers:
            assert bool(((c >= 0) & (c <= 1)).all())
            torch.testing.assert_close(c, c.mT)
            assert bool((c.diagonal(dim1=-2, dim2=-1) == 1).all())
        for below, above in zip(layers, layers[1:], strict=False):
            assert bool((above >= below).all())
    first = found["decoder"][0]
    for token in range(T):
        assert bool((first[..., token, token:].diff() <= 0).all())  # Eq. 5


def test_a_fixed_window_is_the_special_case_whose_probabilities_are_0_and_1():
    # C = 1 for pairs up to a distance, 0 beyond: as if Eq.
    # 4 merged each element with the last ones alone.
    x = Rows(torch.zeros(2, 1, 12, 4))
    line, _ = Window(window=2, height=1)(x, ())
    distance = (torch.arange(12) - torch.arange(12)[:, None]).abs()
    assert torch.equal(line[0, 0].exp(), (distance <= 2).float())
    grid, _ = Window(window=1, height=3)(x, ())
    row, column = torch.arange(12) // 4, torch.arange(12) % 4
    near = ((row - row[:, None]).abs() <= 1) & ((column - column[:, None]).abs() <= 1)
    assert torch.equal(grid[0, 0].exp(), near.float())


def test_the_order_of_regions_in_a_store_changes_nothing():
    model = built(config(layout="regions", region_rows=3, sampling_rate=1))
    images, tokens = random_images(config(layout="regions"), masked=False), random_tokens()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(2))
    stream = images.main
    mixed = Images(
        {"grid": Stream(stream.values[:, order], stream.mask, stream.boxes[:, order], stream.sizes)}
    )
    torch.testing.assert_close(
        log_probabilities(model, images, tokens),
        log_probabilities(model, mixed, tokens),
        atol=1e-12,
        rtol=0,
    )
    memory, other = model.encode(images), model.encode(mixed)
    torch.testing.assert_close(memory.values[:, order], other.values)  # in the order of the store


@pytest.mark.parametrize("regions", [1, 7, 36, 50])
def test_clusters_of_regions_do_not_depend_on_dummies(regions):
    generator = torch.Generator().manual_seed(regions)
    boxes = torch.rand(1, 50, 4, generator=generator)
    mask = torch.arange(50)[None] < regions
    values = torch.randn(1, 50, 8, generator=generator)
    cells = region_cells(boxes, mask, 6)
    assert sorted(cells[cells < 50].tolist()) == list(range(regions))
    real = (cells < 50)[0]
    torch.manual_seed(0)
    module = GridClusters(sized(sampling_rate=1, layout="regions", region_rows=6))
    found = []
    for dummy in (0.0, 100.0):
        laid_out = torch.cat([values, torch.full((1, 1, 8), dummy)], 1)[0, cells]
        found.append(module(Rows(laid_out[:, None]), ())[0][0, 0][real][:, real])
    assert torch.equal(*found)


def test_vectors_that_are_no_grid_are_refused():
    model = built(config())
    with pytest.raises(DataError, match="an image has 8 vectors"):
        model.encode(
            Images.of(torch.zeros(1, 8, 7, dtype=torch.float64), torch.ones(1, 8, dtype=torch.bool))
        )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"layout": "regions", "visual_positions": "grid"}, ["grid positions", "layout grid"]),
        (
            {"layout": "regions", "encoder_clustering": "1d"},
            ["layout regions", "encoder_clustering 2d"],
        ),
        ({"plain_encoder_layers": 2}, ["2 layers", "plain_encoder_layers"]),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, named):
    with refused(ConfigError, "acf.yaml", *named):
        validate(AcfModel, {**AcfModel.example().model_dump(), **changes}, "acf.yaml")


def test_without_clusters_it_is_the_transformer():
    acf = built(config(encoder_clustering="none", decoder_clustering="none"))
    transformer = built(TransformerModel.example())
    transformer.load_state_dict(acf.state_dict())
    images, tokens = random_images(config()), random_tokens()
    expected = log_probabilities(transformer, images, tokens)
    torch.testing.assert_close(log_probabilities(acf, images, tokens), expected, atol=0, rtol=0)
