"""Features that are pooled from another store's grid, and the Fusion Transformer on them, through the real workflow."""

import pytest

from helpers.tiny_workspace import counts

FILES = {
    "features/boxes.yaml": "{kind: pooled, cells: tiny_grid, areas: boxes}\n",
    "features/occupancy.yaml": "{kind: pooled, cells: tiny_grid, areas: occupancy}\n",
    "models/fusion.yaml": "{kind: fusion, d_model: 16, heads: 2, encoder_layers: 1, decoder_layers: 1}\n",
    "models/cells.yaml": "{base: fusion, second_geometry: cells}\n",
    "tables/fusion.yaml": """
title: The Fusion Transformer on twenty scenes
columns: [CIDEr]
baseline: fusion
defaults: {dataset: tiny_scenes, recipe: short}
rows:
  - {id: fusion, label: Regions and grid, features: [tiny_grid, boxes], model: fusion}
  - {id: segments, label: Segmentation and grid, features: [tiny_grid, occupancy], model: cells, stage: xe}
""",
}


@pytest.fixture
def fusion(workspace):
    for name, text in FILES.items():
        (workspace.folder / "params" / name).write_text(text)
    workspace.change("tiny.yaml", "tables: [tiny]", "tables: [fusion]")
    return workspace


def test_cells_and_the_file_of_boxes_are_inputs_of_pooled_features(fusion):
    said = fusion.dry_run("features_all", "--printshellcmds", "--quiet", "host")
    commands = [" ".join(line.split()) for line in said.splitlines() if " features extract " in line]
    pooled = [line for line in commands if "--cells" in line]
    assert len(commands) == 3 and len(pooled) == 2
    for line in pooled:
        assert "--cells=results/tiny/features/tiny_scenes/tiny_grid.h5 " in line
        assert " --products results/tiny/data/tiny_scenes/boxes.json " in line


def test_pooled_features_alone_still_need_their_cells(fusion):
    fusion.change(
        "tables/fusion.yaml", "features: [tiny_grid, boxes], model: fusion", "features: boxes, model: transformer"
    )
    fusion.change("tables/fusion.yaml", "  - {id: segments", "  # {id: segments")
    assert counts(fusion.dry_run())["features"] == 2
