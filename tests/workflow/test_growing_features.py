"""Features of the images that some run reads, and no others:
a store grows when a table asks for more."""

import re

import pytest

from recap.features.store import FeatureStore

STORE = "results/tiny/features/tiny_scenes/tiny_grid.h5"
ROW = (
    "  - {id: half, label: Half, dataset: tiny_scenes, subset: half, features: tiny_grid, model: "
    "zodiac, recipe: other, stage: xe}\n"
)


@pytest.fixture
def halved(workspace):
    """A workspace with one row, trained on half of the captions."""
    (workspace.folder / "params/subsets/half.yaml").write_text("fraction: 0.5\nunit: image\n")
    table = workspace.folder / "params/tables/tiny.yaml"
    text = table.read_text()
    table.write_text(
        re.sub("figures: .*\n", "", text[: text.index("  - {id")]).replace("transformer", "half")
        + ROW
    )
    return workspace


def made(workspace, *config):
    done = workspace.snakemake("train_all", config=config)
    assert done.returncode == 0, done.stderr[-6000:]
    return FeatureStore(workspace.folder / STORE)


@pytest.mark.timeout(1800)
def test_a_store_holds_what_is_read_and_grows_without_training_anything_again(halved):
    config = ("execution={device: cpu, extraction_parts: 2}",)
    first = made(halved, *config)
    (run,) = halved.folder.glob("results/tiny/runs/**/half/**/model.safetensors")
    before = run.stat().st_mtime_ns
    halved.change(
        "tables/tiny.yaml", ROW, ROW + ROW.replace("half", "full").replace("Half", "Full")
    )
    planned = halved.planned("train_all", config=config)
    assert planned["train_xe"] == planned["used_images"] == 1
    assert planned["features"] == 2
    # A rate that changed at the same time is not overlooked.
    halved.change("recipes/other.yaml", "2.0e-3", "3.0e-3")
    assert halved.planned("train_all", config=config)["train_xe"] == 2
    halved.change("recipes/other.yaml", "3.0e-3", "2.0e-3")
    second = made(halved, *config)
    assert 0 < len(second) - len(first) < len(second)
    assert set(first.ids) < set(second.ids)
    assert run.stat().st_mtime_ns == before
    logs = "".join(
        path.read_text() for path in halved.folder.glob("logs/tiny/features/tiny_scenes/*.log")
    )
    assert f"tiny_grid.h5: {len(first)} images are there from an earlier run" in logs
    assert (halved.folder / STORE).samefile(
        halved.folder / "work/tiny/stores/tiny_scenes/tiny_grid.h5"
    )
    assert not list(halved.folder.glob("work/tiny/shards/**/*.h5"))
    # A row alone reads fewer images: nothing is made again, and nothing is lost.
    halved.change("tables/tiny.yaml", ROW, "")
    halved.change("tables/tiny.yaml", "baseline: half", "baseline: full")
    assert (
        not {"features", "used_images", "train_xe"}
        & halved.planned("train_all", config=config).keys()
    )
    # Another extractor makes everything again.
    halved.change("features/tiny_grid.yaml", "grid: 2", "grid: 3")
    planned = halved.planned("train_all", config=config)
    assert (planned["extractor"], planned["train_xe"]) == (1, 1)
