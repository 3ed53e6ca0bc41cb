"""What rules share: where the files of a plan are,
what they are made from, and which outside files are missing."""

import logging
import shutil
from pathlib import Path

import pytest
import yaml

from helpers.plans import edited, missing
from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from recap.core.errors import ConfigError
from recap.core.process import VISIBLE, uses_gpus
from recap.plan.job import spec_values
from recap.plan.jobs import data_files, feature_files, plan_jobs
from recap.plan.outside import line, refuse_missing
from recap.plan.profiles import load_plan
from recap.plan.stores import used_stores

SETTING = "tiny_scenes/full/tiny_grid/transformer@short"


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A copy of the tiny parameters, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(ROOT / "tests" / "workflow" / "params", tmp_path / "params"))


def plan_of(**config):
    return load_plan({**yaml.safe_load(Path("params/tiny.yaml").read_text()), **config})


def changed_table(params, **changes):
    """Change the first row of the tiny table, and leave the other out."""
    table = yaml.safe_load((params / "tables/tiny.yaml").read_text())
    edited(params, "tables/tiny.yaml", rows=[{**table["rows"][0], **changes}])


def test_a_training_reads_its_data_and_the_weights_that_its_stage_begins_with(params):
    plan = plan_of()
    run = plan.scored[0]
    assert run.path == f"{SETTING}/seed-1/scst"
    common = {
        "corpus": ["results/tiny/data/tiny_scenes/corpus.parquet"],
        "vocabulary": ["results/tiny/data/tiny_scenes/vocabulary.json"],
        "subset": ["results/tiny/data/tiny_scenes/subsets/full/seed-1.json"],
        "features": ["results/tiny/features/tiny_scenes/tiny_grid.h5"],
        "extractors": ["results/tiny/features/tiny_scenes/tiny_grid.extractor.json"],
    }
    weights = f"results/tiny/runs/{SETTING}/seed-1/xe/model.safetensors"
    jobs = plan_jobs(plan)
    assert jobs.job("train_scst", run.wildcards).inputs == {**common, "init": [weights]}
    assert jobs.job("train_xe", run.wildcards).inputs == {**common, "weights": []}


def fusion_plan(params, **grid):
    """Plan a row with two features, the second made from the cells of the first."""
    edited(params, "features/boxes.yaml", kind="pooled", cells="tiny_grid", areas="boxes")
    edited(params, "features/tiny_grid.yaml", **grid)
    edited(
        params,
        "models/fusion.yaml",
        kind="fusion",
        d_model=16,
        heads=2,
        encoder_layers=1,
        decoder_layers=1,
    )
    changed_table(params, features=["tiny_grid", "boxes"], model="fusion")
    return plan_of()


def test_features_come_with_those_that_they_are_made_from_and_weights_that_are_trained_first(
    params,
):
    plan = fusion_plan(params, weights="boxes", pretraining={"epochs": 1})
    assert sorted(store.features for store in used_stores(plan)) == ["boxes", "tiny_grid"]
    folder = "results/tiny/features/tiny_scenes"
    notes = [
        f"{name}.{note}"
        for name in ("boxes", "tiny_grid")
        for note in ("extractor.json", "images.txt")
    ]
    names = sorted(["boxes.h5", "tiny_grid.backbone.safetensors", "tiny_grid.h5", *notes])
    assert feature_files(plan_jobs(plan)) == [f"{folder}/{name}" for name in names]
    made = {"boxes.json", "card.md", "corpus.parquet"}
    made |= {"images.zip", "seed-1.json", "vocabulary.json"}
    assert {Path(file).name for file in data_files(plan_jobs(plan))} == made


@pytest.mark.parametrize("of_the_hub", [True, False])
def test_what_a_store_is_made_from_is_missing_while_the_store_is(params, of_the_hub):
    if of_the_hub:
        plan = fusion_plan(params, weights="pretrained")
        file = "hub:timm/test_resnet"
        features = "tiny_grid"
    else:
        changed_table(params, features="tiny_imported")
        plan = plan_of(inputs="in")
        file = "in/regions.tsv"
        features = "tiny_imported"
    (needed,) = missing(plan)
    assert (needed.path, needed.named_by) == (file, f"features/{features}.yaml")
    store = Path(plan.files.store("tiny_scenes", features))
    store.parent.mkdir(parents=True)
    store.touch()
    assert missing(plan) == []


def test_auto_means_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setenv(VISIBLE, "")
    assert [uses_gpus(device) for device in ("auto", "cpu", "cuda")] == [
        False,
        False,
        True,
    ]
    monkeypatch.setenv(VISIBLE, "0")
    assert [uses_gpus(device) for device in ("auto", "cpu", "cuda")] == [
        True,
        False,
        True,
    ]


def test_a_job_runs_again_for_what_it_reads_alone(params):
    def specs():
        jobs = plan_jobs(plan_of())
        return [
            spec_values(job.spec) for job in [*jobs.with_prefix("corpus"), *jobs.of("features")]
        ]

    before = specs()
    edited(params, "datasets/tiny_scenes.yaml", vocabulary={"min_count": 2})
    edited(params, "features/tiny_grid.yaml", shard_size=3, batch_size=2)
    assert specs() == before
    edited(params, "features/tiny_grid.yaml", grid=3)
    assert specs() != before


HEAD = "name,version,role,url,algorithm,hash,bytes,licence,checked_on,note,archive,members\n"
LIST = """web/a.zip,1,primary,http://h/a.zip,,,2147483648,CC BY 4.0,,,,
web/a.zip,1,mirror,http://i/a.zip,,,2147483648,CC BY 4.0,,,,
own/pack.zip,1,own,,,,,none,,1. ask; 2. put it there,,
web/a,1,unpacked,,,,,CC BY 4.0,,,web/a.zip,a/*.tsv
own/b,1,unpacked,,,,,none,,,own/pack.zip,*
hub/openai-community/gpt2,607a,hub,,,,548105171,MIT,,,,
"""


@pytest.fixture
def listed(params):
    """The tiny parameters with a list of outside files."""
    (params / "data_versions.csv").write_text(HEAD + LIST)
    return params


def needing(params, *sources, fetch=True):
    """Return a plan whose features are imported from these files."""
    edited(params, "features/tiny_imported.yaml", sources=list(sources))
    changed_table(params, features="tiny_imported")
    return plan_of(inputs="in", fetch=fetch)


def test_what_is_unpacked_brings_its_archive_unless_that_is_there(listed):
    plan = needing(listed, "web/a/x.tsv", "web/a/y.tsv")
    result = missing(plan)
    assert [(each.path, each.how, each.entry.name) for each in result] == [
        ("in/web/a/x.tsv", "unpack", "web/a"),
        ("in/web/a.zip", "fetch", "web/a.zip"),
        ("in/web/a/y.tsv", "unpack", "web/a"),
    ]
    assert result[0].archive == result[1].entry
    refuse_missing(result, plan.profile)
    Path("in/web").mkdir(parents=True)
    Path("in/web/a.zip").touch()
    assert [each.path for each in missing(plan)] == ["in/web/a/x.tsv", "in/web/a/y.tsv"]


def test_an_archive_of_the_users_own_is_by_hand_and_what_it_holds_is_not(listed):
    plan = needing(listed, "own/b/x.tsv")
    assert [(each.path, each.how) for each in missing(plan)] == [
        ("in/own/b/x.tsv", "unpack"),
        ("in/own/pack.zip", "hand"),
    ]
    with refused(ConfigError, "in/own/pack.zip"):
        refuse_missing(missing(plan), plan.profile)


def test_all_missing_files_are_said_at_once_with_address_or_steps_bytes_and_licence(listed, caplog):
    plan = needing(listed, "web/a.zip", "own/pack.zip", "nobody/knows.tsv", fetch=False)
    with caplog.at_level(logging.INFO), pytest.raises(ConfigError) as refusal:
        refuse_missing(missing(plan), plan.profile)
    named = "(features/tiny_imported.yaml)"
    assert [record.getMessage() for record in caplog.records] == [
        f"recap: missing: in/web/a.zip {named}; http://h/a.zip or http://i/a.zip; 2 GiB; CC BY 4.0",
        f"recap: missing: in/own/pack.zip {named}; by hand: 1. ask; 2. put it there; size not "
        "known; none",
        f"recap: missing: in/nobody/knows.tsv {named}; not in the list of outside files: put it "
        "there",
    ]
    assert "--config fetch=true inputs=in" in str(refusal.value)


def test_weights_and_tokenizers_of_the_hub_are_said_with_their_revision(listed):
    edited(listed, "features/tiny_grid.yaml", weights="pretrained", revision="a" * 40)
    pairs = {"kind": "bpe", "tokenizer": "hub:openai-community/gpt2", "max_length": 9}
    edited(listed, "datasets/tiny_scenes.yaml", vocabulary=pairs)
    plan = plan_of()
    needed = {each.path: each for each in missing(plan)}
    assert {each.how for each in needed.values()} == {"hub"}
    assert needed[f"hub:timm/test_resnet@{'a' * 40}"].entry is None
    assert line(needed["hub:openai-community/gpt2"]).endswith(
        "(datasets/tiny_scenes.yaml); from the hub; 0.51 GiB; MIT"
    )
    refuse_missing(list(needed.values()), plan.profile)
