"""Every file of a model is built, and has the parameters that it says."""

from decimal import Decimal
from pathlib import Path

import pytest
import torch
import yaml

from helpers.model_cases import build_model
from recap.core.errors import DataError
from recap.models.images import Images, InputSpec
from recap.nn.layers import grid_table, sinusoid_table
from recap.settings.params import files, load_named, names

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (ROOT / "params", ROOT / "tests" / "workflow" / "params")
NAMES = [(params, name) for params in FOLDERS for name in names(params, "models")]
# The counted models have one id for <bos>, <eos> and <pad>, 9,487 words with <unk>.
FEATURES, IDS = 2048, 9488


@pytest.mark.parametrize(("params", "name"), NAMES, ids=[name for _, name in NAMES])
def test_a_named_model_is_built_and_counted(params, name):
    config = load_named(params, "models", name)
    with torch.device("meta"):
        model = build_model(config, InputSpec(dict.fromkeys(config.example_streams, FEATURES), IDS))
    (path,) = files(params, "models", name)
    # not what a base says of itself
    printed = yaml.safe_load(path.read_text()).get("expected_parameters")
    if printed is not None:
        digits = -Decimal(str(printed)).as_tuple().exponent
        assert round(sum(p.numel() for p in model.parameters()) / 1e6, digits) == printed


def test_what_a_file_expects_is_no_part_of_what_is_trained():
    config = load_named(ROOT / "params", "models", "xlan")
    assert config.expected_parameters == 75.2
    assert "expected_parameters" not in config.model_dump()


def test_grid_positions_tell_cells_apart():
    codes = grid_table(torch.arange(7.0), 16)
    assert torch.cdist(codes, codes).add(10 * torch.eye(49)).min() > 0.1
    torch.testing.assert_close(
        codes[3 * 7 + 5], torch.cat([sinusoid_table(7, 8)[3], sinusoid_table(7, 8)[5]])
    )
    config = {"kind": "transformer", "d_model": 16, "heads": 2, "visual_positions": "grid"}
    model = build_model(config, InputSpec({"main": 7}, 11))
    with pytest.raises(DataError, match="an image has 8 vectors"):
        model.encode(Images.of(torch.zeros(1, 8, 7), torch.ones(1, 8, dtype=torch.bool)))
