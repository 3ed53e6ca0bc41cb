"""Ada-ClustFormer against loop-form evaluations
of the paper's equations, and the released code's 1-D path."""

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from helpers.golden import close, load
from recap.nn.rows import Rows
from recap.papers.acf.model import (
    ClusterAttention,
    GridClusters,
    LineClusters,
    TokenClusters,
    block_means,
    cell_of_region,
    chain,
    grid_matrix,
    log_complement,
    merged,
    region_cells,
    repeat_blocks,
)
from recap.papers.acf.settings import AcfModel

PAPER = {
    "cluster_norm": False,
    "context": "exclusive_mean",
    "self_factor": False,
    "stacking": "clusters",
}
RELEASED = {
    "layer_norm": "unbiased",
    "context": "inclusive_mean",
    "self_factor": True,
    "stacking": "steps",
}


THREE_ROWS = {"sampling_rate": 1, "layout": "regions", "region_rows": 3}


def sized(d_model, **changes):
    return AcfModel(kind="acf", d_model=d_model, heads=1, **changes)


def line(golden, prefix="", *, rate=1, **changes):
    """Return the clusters along a line with the FC of a file."""
    weights = [golden[f"{prefix}{name}"] for name in ("w_new", "w_mean", "bias")]
    module = LineClusters(sized(len(weights[0]), **(PAPER | changes)), rate=rate).double()
    with torch.no_grad():
        module.scores.weight.copy_(torch.cat(weights[:2]))
        module.scores.bias.copy_(weights[2])
    return module


def rows(x):
    return Rows(x[None, None])  # [N, D] -> [1, 1, N, D]


def stack(golden, layers, **changes):
    """Return C~ of each layer, [N, N]."""
    carried, found = (), []
    for layer in range(layers):
        log_c, carried = line(golden, f"layer{layer}/", **changes)(
            rows(golden[f"layer{layer}/s"]), carried
        )
        found.append(log_c[0, 0].exp())
    return found


@pytest.mark.parametrize("name", ["naive_1d_N7", "naive_1d_N8"])
@pytest.mark.parametrize(
    ("stacking", "key"), [("none", "C"), ("clusters", "C_tilde_eq6"), ("steps", "C_stack_on_steps")]
)
def test_a_line_in_each_layer(name, stacking, key):
    golden = load(f"acf_{name}")
    for layer, found in enumerate(stack(golden, 3, stacking=stacking)):
        close(found, golden[f"layer{layer}/{key}"])
        if stacking == "clusters":
            close(found.tril(), golden[f"layer{layer}/C_tilde_causal_lower"])


@pytest.mark.parametrize("name", ["naive_1d_N7", "naive_1d_N8"])
def test_probabilities_of_eq_4(name):
    golden = load(f"acf_{name}")
    for layer in range(3):
        module = line(golden, f"layer{layer}/")
        new, mean = module.projected(rows(golden[f"layer{layer}/s"])).unbind(-1)
        log_p = logsigmoid(module.steps(new, mean))[0, 0]
        expected = golden[f"layer{layer}/p_step"].triu(1)
        close(log_p.exp().triu(1), expected)


@pytest.mark.parametrize("stacking", ["none", "clusters", "steps"])
def test_token_by_token_gives_the_rows_of_the_matrix(stacking):
    golden = load("acf_naive_1d_N8")
    expected = stack(golden, 3, stacking=stacking)
    modules = [line(golden, f"layer{layer}/", stacking=stacking) for layer in range(3)]
    past = [TokenClusters.empty(torch.zeros(1, 1, 1, dtype=torch.float64)) for _ in modules]
    for token in range(8):
        carried = ()
        for layer, module in enumerate(modules):
            x = Rows(golden[f"layer{layer}/s"][None, None, token : token + 1])
            row, carried, past[layer] = module.step(x, past[layer], carried)
            close(row[0, 0].exp(), expected[layer][token, : token + 1])


@pytest.mark.parametrize(
    ("box", "key"), [("bounding_box", "C_bounding_box"), ("query_anchored", "C_query_anchored")]
)
def test_a_grid(box, key):
    golden = load("acf_naive_2d")
    settings = PAPER | THREE_ROWS | {"box": box, "share_directions": False}
    module = GridClusters(sized(5, **settings)).double()
    new, mean, bias = (
        torch.stack([golden[f"{name}_{way}"] for way in "hv"])
        for name in ("w_new", "w_mean", "bias")
    )
    with torch.no_grad():
        module.scores.weight.copy_(torch.cat([new, mean], 1))
        module.scores.bias.copy_(bias)
    found, _ = module(rows(golden["V"].flatten(0, 1)), ())
    close(found[0, 0].exp(), golden[key])
    close(
        grid_matrix(golden["C_h"][None].log(), golden["C_v"][None].log(), box=box)[0].exp(),
        golden[key],
    )


@pytest.mark.parametrize("case", ["n8_r2", "n7_r2", "n9_r4", "n5_r4", "n3_r4"])
def test_down_and_up_sampling(case):
    golden = load("acf_naive_updown_1d")
    s, rate = golden[f"{case}/s"], int(case[-1])
    close(block_means(s[None], None, rate, dims=(1,))[0], golden[f"{case}/s_bar"])
    found, _ = line(golden, rate=rate)(rows(s), ())
    close(found[0, 0].exp(), golden[f"{case}/C"])
    blocks = torch.arange(len(s)) // rate
    close(repeat_blocks(golden[f"{case}/C_bar"], blocks), golden[f"{case}/C"])


def test_attention_in_each_reading():
    golden = load("acf_naive_attention")
    q, k, v = (golden[name] for name in "qkv")
    found, _ = line(golden)(rows(golden["s"]), ())
    close(found[0, 0].exp(), golden["C"])
    causal = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    expected = {
        "multiply": {None: "out_multiply", causal: "out_multiply_causal"},
        "renormalize": {None: "out_renormalised", causal: "out_renormalised_causal"},
        "double_softmax": {None: "out_double_softmax"},
        "logit_scale": {None: "out_logit_scale"},
    }
    for reading, cases in expected.items():
        for mask, key in cases.items():
            close(attended(reading, q, k, v, found, mask)[0], golden[key])


def attended(reading, q, k, v, log_clusters, mask):
    """Attend with projections that change nothing: q, k, v [(B,) H, N, K] -> [B, H, N, K]."""
    q, k, v = (x if x.dim() == 4 else x[None] for x in (q, k, v))
    heads, width = q.shape[1], q.shape[1] * q.shape[3]
    module = ClusterAttention(d_model=width, heads=heads, reading=reading).double()
    for name in ("query", "output"):
        torch.nn.init.eye_(getattr(module, name).weight)
        torch.nn.init.zeros_(getattr(module, name).bias)
    query = Rows(q.transpose(1, 2).flatten(2)[:, None])
    out = module(query, (k[:, None], v[:, None]), attn_mask=mask, log_clusters=log_clusters)
    return out.values[:, 0].unflatten(-1, (heads, -1)).transpose(1, 2)


@pytest.mark.parametrize("case", ["n13", "n12", "n5", "n6"])
def test_regions_as_a_grid(case):
    golden = load("acf_naive_roi_layout")
    centers, expected = golden[f"{case}/centres"], golden[f"{case}/grid_index"]
    boxes = torch.cat([centers - 0.25, centers + 0.25], 1)[None]
    regions = len(centers)
    found = region_cells(boxes, torch.ones(1, regions, dtype=torch.bool), 6)
    is_real = found.view(6, -1) < regions
    assert torch.equal(is_real, golden[f"{case}/is_real"])
    assert torch.equal(found.view(6, -1).masked_fill(~is_real, -1), expected)
    assert torch.equal(found[0][cell_of_region(found, regions)[0]], torch.arange(regions))
    # The same image beside one with more regions: further columns are empty.
    more = torch.cat([boxes, boxes.new_zeros(1, 20, 4)], 1)
    wide = region_cells(more, torch.arange(regions + 20)[None] < regions, 6).view(6, -1)
    assert torch.equal(wide[:, : expected.shape[1]].masked_fill(~is_real, -1), expected)
    assert bool((wide[:, expected.shape[1] :] == regions + 20).all())


def test_the_released_stack_of_lines():
    golden = load("acf_official_1d_stack")
    carried = ()
    for layer in range(3):
        names = {"weight": "ln_a", "bias": "ln_b"}
        module = LineClusters(sized(6, **RELEASED), rate=1).double()
        state = {f"norm.{ours}": golden[f"layer{layer}/{theirs}"] for ours, theirs in names.items()}
        module.load_state_dict(
            state
            | {
                "scores.weight": golden[f"layer{layer}/fc_w"][None],
                "scores.bias": golden[f"layer{layer}/fc_b"],
            }
        )
        log_c, carried = module(Rows(golden[f"layer{layer}/x"][:, None]), carried)
        close(log_c[:, 0].exp(), golden[f"layer{layer}/C"])
        close(carried[0][:, 0].exp().triu(), golden[f"layer{layer}/step_prob"].triu())


def test_the_released_attention():
    golden = load("acf_official_attention")
    q, k, v = (golden[name] for name in "qkv")
    log_c = golden["C"][:, None].log()
    close(attended("multiply", q, k, v, log_c, None), golden["out_nomask"])
    close(attended("renormalize", q, k, v, log_c, None), golden["alt_renormalised_nomask"])
    close(
        attended("double_softmax", q, k, v, log_c, None),
        golden["alt_literal_double_softmax_nomask"],
    )
    close(attended("logit_scale", q, k, v, log_c, None), golden["alt_logit_scale_nomask"])
    # the release keeps the diagonal visible
    mask = golden["mask"].bool() | torch.eye(5, dtype=torch.bool)
    close(attended("multiply", q, k, v, log_c, mask), golden["out_masked"])


def loops_2d(new, mean, height, width):
    """Eq. 8 by loops over scalars a_k and b_k of cells [H, W]."""

    def along(a, b, first, last):
        product = 1.0
        for k in range(first + 1, last + 1):
            product *= 1 / (1 + np.exp(-(a[k] + b[first:k].mean())))
        return product

    matrix = np.ones((height * width,) * 2)
    for x, i in np.ndindex(height, width):
        for y, j in np.ndindex(height, width):
            top, left = min(x, y), min(i, j)
            row = along(new[top], mean[top], left, max(i, j))
            column = along(new[:, left], mean[:, left], top, max(x, y))
            matrix[x * width + i, y * width + j] = row * column
    return matrix


@pytest.mark.parametrize(("height", "width", "rate"), [(5, 4, 2), (4, 4, 4), (3, 6, 2), (2, 2, 3)])
def test_a_sampled_grid_equals_loops_over_blocks(height, width, rate):
    torch.manual_seed(0)
    settings = PAPER | {
        "sampling_rate": rate,
        "layout": "regions",
        "region_rows": height,
    }
    module = GridClusters(sized(4, **settings)).double()
    cells = torch.randn(height, width, 4, dtype=torch.float64)
    found, _ = module(rows(cells.flatten(0, 1)), ())
    blocks = np.array(
        [
            [
                cells[x : x + rate, i : i + rate].flatten(0, 1).mean(0).numpy()
                for i in range(0, width, rate)
            ]
            for x in range(0, height, rate)
        ]
    )
    weight = module.scores.weight.detach().numpy()[0]
    small = loops_2d(
        blocks @ weight[:4] + module.scores.bias.item(),
        blocks @ weight[4:],
        blocks.shape[0],
        blocks.shape[1],
    )
    block = [(x // rate) * blocks.shape[1] + i // rate for x, i in np.ndindex(height, width)]
    close(found[0, 0].exp().detach(), torch.from_numpy(small[np.ix_(block, block)]))


def test_eq_6_as_printed_and_as_logarithms():
    torch.manual_seed(0)
    one, two = (torch.rand(3, 4, dtype=torch.float64) for _ in range(2))
    close(merged(two.log(), log_complement(two.log()), one.log()).exp(), (1 - two) * one + two)


def test_a_chain_is_a_product():
    torch.manual_seed(0)
    p = torch.rand(6, 6, dtype=torch.float64)
    found = chain(p.log().triu(1), self_factor=False).exp()
    for i in range(6):
        for j in range(i, 6):
            close(found[i, j], p[i, i + 1 : j + 1].prod())
            close(found[j, i], found[i, j])
