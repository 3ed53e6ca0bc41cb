"""Directions, geometry and positions of boxes against evaluations
of the equations and code of the papers followed."""

import pytest
import torch

from helpers.golden import close, load
from recap.nn.attention import MultiHeadAttention
from recap.nn.layers import grid_table
from recap.nn.rows import Rows
from recap.papers.fusion.model import (
    Boxes,
    BoxPositions,
    RelativeSpatialEncoding,
    cell_boxes,
    cell_positions,
    direction_index,
    relative_geometry,
    sinusoidal_embedding,
)


def released_geometry(corners):
    """As ORT's and DLCT's code, whose ratio of sizes is the inverse."""
    omega = relative_geometry(Boxes.of(corners), plus_one=True)
    return torch.cat([omega[..., :2], -omega[..., 2:]], -1)


@pytest.mark.parametrize("per_quadrant", [1, 2, 3])
def test_directions_of_boxes(per_quadrant):
    golden = load("ft_naive_geometry")
    boxes = Boxes.of(golden["boxes"])
    close(boxes.centres, golden["centres"])
    assert torch.equal(
        direction_index(boxes.centres, per_quadrant), golden[f"s_index_d{per_quadrant}"]
    )


@pytest.mark.parametrize("per_quadrant", [1, 2, 3])
def test_directions_of_cells_with_all_their_ties(per_quadrant):
    golden = load("ft_naive_absolute_and_grid")
    boxes = cell_boxes(4)
    close(boxes, golden["grid_boxes_4x4"])
    found = direction_index(Boxes.of(boxes).centres, per_quadrant)
    assert torch.equal(found, golden[f"s_index_4x4_d{per_quadrant}"])


def test_geometry_of_boxes_and_cells():
    golden = load("ft_naive_geometry")
    boxes = Boxes.of(golden["boxes"])
    close(relative_geometry(boxes), golden["omega4"])
    close(relative_geometry(boxes, plus_one=True), golden["omega4_plus_one"])
    grid = load("ft_naive_absolute_and_grid")
    close(relative_geometry(Boxes.of(grid["grid_boxes_4x4"])), grid["omega4_4x4"])


def encoding(**changes):
    options = {"heads": 2, "per_quadrant": 1, "direction": "log_index", "plus_one": False}
    return RelativeSpatialEncoding(**(options | changes)).double()


def test_relative_spatial_encoding_from_boxes_to_the_logarithm_of_its_gate():
    golden = load("ft_naive_geometry")
    boxes = Boxes.of(golden["boxes"])
    module = encoding()
    module.gate.load_state_dict({"weight": golden["W_G"], "bias": golden["b_G"]})
    close(module.numbers(boxes), golden["omega5_d1"])
    close(module.embed(boxes), golden["emb80_d1"])
    close(module(boxes), golden["log_gate"])
    close(module(boxes).exp().where(golden["gate"] > 1e-6, 0), golden["gate"])
    close(encoding(per_quadrant=0).embed(boxes), golden["emb64_no_direction"])


@pytest.mark.parametrize("unit", ["", "_pixel"])
def test_geometry_of_the_released_code(unit):
    golden = load("geometry_box_dlct_ort")
    omega = released_geometry(golden[f"boxes{unit}"])
    close(omega, golden["omega4_no_trig" if not unit else "omega4_pixel"])
    close(sinusoidal_embedding(omega), golden[f"emb64{unit}"])


def test_gates_of_regions_and_cells_in_the_released_code():
    golden = load("geometry_all_dlct")
    boxes = golden["all_boxes"]
    # the code divides its cells in float32
    close(torch.cat([golden["boxes"], cell_boxes(7)[None]], 1), boxes, 1e-7)
    embedded = sinusoidal_embedding(released_geometry(boxes))
    close(embedded[:, :2], golden["emb64_rows_0_2"])
    gate = (embedded @ golden["WG"].T + golden["bG"]).movedim(-1, 1)[:, :, :8].relu()
    close(gate, golden["gate_relu"])
    close(gate.clamp(min=1e-6).log(), golden["log_gate"])


def test_geometry_of_cells_in_the_released_code():
    golden = load("geometry_grid_rstnet")  # computed in float32
    # DLCT's for grids alone have x and y exchanged
    unit_cells = (7 * cell_boxes(7))[:, [1, 0, 3, 2]]
    for boxes, key in ((cell_boxes(7), "normalised"), (unit_cells, "unnormalised_dlct")):
        embedded = sinusoidal_embedding(released_geometry(boxes.float()))
        close(embedded[[0, 8, 24]].double(), golden[f"emb64_{key}_rows_0_8_24"], 2e-5)


def test_positions_of_cells():
    golden = load("ft_naive_absolute_and_grid")
    close(cell_positions(7, int(golden["d_model"]), form="index"), golden["GAPE_7x7"])
    released = load("geometry_grid_pos_dlct")
    # the code computes it in float32
    close(cell_positions(7, 16, form="angle"), released["pos_normalised"][0], 1e-6)
    counted = torch.arange(1, 8, dtype=torch.float64)
    close(grid_table(counted, 16), released["pos_raw_1based"][0], 1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_positions_of_boxes(bias):
    golden = load("ft_naive_absolute_and_grid")
    module = BoxPositions(d_model=16, bias=bias).double()
    parameters = {"embedding.weight": golden["W_emb"].T} | (
        {"embedding.bias": golden["b_emb"]} if bias else {}
    )
    module.load_state_dict(parameters)
    close(module(golden["boxes"]), golden["RAPE" if bias else "RAPE_no_bias"])


def test_attention_with_the_logarithm_of_a_gate_as_bias():
    golden = load("geometry_box_attention_dlct")
    module = MultiHeadAttention(d_model=8, heads=2).double()
    names = {"fc_q": "query", "fc_k": "key", "fc_v": "value", "fc_o": "output"}
    module.load_state_dict(
        {
            f"{ours}.{part}": golden[f"param/attention.{theirs}.{part}"]
            for theirs, ours in names.items()
            for part in ("weight", "bias")
        }
    )
    queries, values = (Rows(golden[name][:, None]) for name in ("queries", "values"))
    # its keys are the queries
    key_value = (module.key_value(queries)[0], module.key_value(values)[1])
    bias = golden["gate"].clamp(min=1e-6).log()[:, None]
    mask = ~golden["mask_true_is_pad"]  # [B, 1, 1, N]
    out = module(queries, key_value, attn_mask=mask, attn_bias=bias).values[:, 0]
    close(out, golden["out_attention_only"])
    norm = torch.nn.LayerNorm(8).double()
    norm.load_state_dict({part: golden[f"param/layer_norm.{part}"] for part in ("weight", "bias")})
    close(norm(golden["queries"] + out), golden["out"])
