"""What the rules share: where the files of a plan are, what they are made from, what is refused before a job."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from helpers.plans import edited
from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from recap.core.errors import ConfigError
from recap.core.process import VISIBLE
from recap.plan import jobs
from recap.plan.outside import requirements
from recap.plan.paths import Paths, data_files, feature_files, used_features
from recap.plan.profiles import load_plan, uses_gpus
from recap.plan.run import run_named
from recap.settings import Execution

SETTING = "tiny_scenes/full/tiny_grid/transformer@short"


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A copy of the tiny parameters, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(ROOT / "tests" / "workflow" / "params", tmp_path / "params"))


def plan_of(**config):
    return load_plan({**yaml.safe_load(Path("params/tiny.yaml").read_text()), **config})


def paths_of(**config):
    return Paths(plan_of(**config))


def changed_table(params, **changes):
    """Change the first row of the tiny table, and leave the other out."""
    table = yaml.safe_load((params / "tables/tiny.yaml").read_text())
    edited(params, "tables/tiny.yaml", rows=[{**table["rows"][0], **changes}])


def test_a_training_reads_its_data_and_the_weights_that_its_stage_begins_with(params):
    paths = paths_of()
    run = paths.plan.scored()[0]
    assert run.path == f"{SETTING}/seed-1/scst"
    common = {
        "corpus": "results/tiny/data/tiny_scenes/corpus.parquet",
        "vocabulary": "results/tiny/data/tiny_scenes/vocabulary.json",
        "subset": "results/tiny/data/tiny_scenes/subsets/full/seed-1.json",
        "features": ["results/tiny/features/tiny_scenes/tiny_grid.h5"],
        "extractors": ["results/tiny/features/tiny_scenes/tiny_grid.extractor.json"],
    }
    weights = f"results/tiny/runs/{SETTING}/seed-1/xe/model.safetensors"
    assert paths.training_inputs(run) == {**common, "init": weights}
    assert paths.training_inputs(paths.plan.first_stage(run)) == {**common, "weights": []}


def test_wildcards_stand_for_a_run(params):
    names = dict(zip(("dataset", "subset", "features"), SETTING.split("/"), strict=False))
    names |= {"model": "transformer", "recipe": "short"}
    run = run_named({**names, "seed": "1", "stage": "scst"})
    assert run == plan_of().scored()[0]
    assert run_named(names, seed=1, stage="scst") == run
    wildcards = SimpleNamespace(dataset="tiny_photos", features="tiny_grid")
    assert paths_of().features(wildcards) == ["results/tiny/features/tiny_photos/tiny_grid.h5"]


def fusion_paths(params, **grid):
    """Plan a row with two features, the second made from the cells of the first."""
    edited(params, "features/boxes.yaml", kind="pooled", cells="tiny_grid", areas="boxes")
    edited(params, "features/tiny_grid.yaml", **grid)
    edited(params, "models/fusion.yaml", kind="fusion", d_model=16, heads=2, encoder_layers=1, decoder_layers=1)
    changed_table(params, features=["tiny_grid", "boxes"], model="fusion")
    return paths_of()


def test_features_come_with_those_that_they_are_made_from_and_weights_that_are_trained_first(params):
    paths = fusion_paths(params, weights="boxes", pretraining={"epochs": 1})
    assert used_features(paths.plan) == ["boxes", "tiny_grid"]
    folder = "results/tiny/features/tiny_scenes"
    notes = [f"{name}.{note}" for name in ("boxes", "tiny_grid") for note in ("extractor.json", "images.txt")]
    names = sorted(["boxes.h5", "tiny_grid.backbone.safetensors", "tiny_grid.h5", *notes])
    assert feature_files(paths) == [f"{folder}/{name}" for name in names]
    made = {"card.md", "corpus.parquet", "images.zip", "seed-1.json", "vocabulary.json"}
    assert {Path(file).name for file in data_files(paths)} == made


@pytest.mark.parametrize("of_the_hub", [True, False])
def test_what_a_store_is_made_from_is_missing_while_the_store_is(params, of_the_hub):
    if of_the_hub:
        paths = fusion_paths(params, weights="pretrained")
        file, features = "hub:timm/test_resnet", "tiny_grid"
    else:
        changed_table(params, features="tiny_imported")
        paths, file, features = paths_of(inputs="in"), "in/regions.tsv", "tiny_imported"
    (needed,) = requirements(paths)
    assert (needed.path, needed.named_by) == (file, f"features/{features}.yaml")
    store = Path(paths.store("tiny_scenes", features))
    store.parent.mkdir(parents=True)
    store.touch()
    assert requirements(paths) == []


def test_boxes_are_cut_out_of_features_that_have_some(params):
    edited(params, "features/tiny_crops.yaml", boxes="tiny_grid")
    changed_table(params, features="tiny_crops")
    with refused(ConfigError, "features/tiny_crops.yaml", "'tiny_grid'"):
        plan_of()


def test_auto_means_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setenv(VISIBLE, "")
    assert [uses_gpus(Execution(device=device)) for device in ("auto", "cpu", "cuda")] == [False, False, True]
    monkeypatch.setenv(VISIBLE, "0")
    assert [uses_gpus(Execution(device=device)) for device in ("auto", "cpu", "cuda")] == [True, False, True]


def test_a_job_runs_again_for_what_it_reads_alone(params):
    def specs():
        plan = plan_of()
        return jobs.corpus_spec(plan, "tiny_scenes"), jobs.extractor_spec(plan, "tiny_grid")

    before = specs()
    edited(params, "datasets/tiny_scenes.yaml", vocabulary={"min_count": 2})
    edited(params, "features/tiny_grid.yaml", shard_size=3, batch_size=2)
    assert specs() == before
    edited(params, "features/tiny_grid.yaml", grid=3)
    assert specs() != before
    recipes = jobs.table_spec(plan_of(), "tiny")["recipes"]
    assert sorted(recipes) == ["other", "short"]
