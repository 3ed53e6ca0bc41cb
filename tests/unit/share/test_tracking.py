"""The MLflow view: made from files, replaced by key, and never a danger to results."""

import json
from pathlib import Path

import pytest
import yaml

from helpers.refusals import refused
from recap.core.checksums import record
from recap.core.documents import write_json
from recap.core.errors import ChangedFile, DamagedFile, RecapError
from recap.share.tracking_records import read_runs
from recap.share.tracking_store import print_run_lists, remove_runs
from recap.share.tracking_store import publish as publish_now

pytestmark = pytest.mark.seconds

SETTING = "scenes/full/grid/transformer@demo"


def write_run(results: Path, *, setting=SETTING, seed=1, stage="xe", cider=None, loss=2.0):
    """Write the files that training (and, where ``cider`` is given, evaluation) leaves."""
    path = f"{setting}/seed-{seed}/{stage}"
    run, scores = results / "runs" / path, results / "scores" / path
    run.mkdir(parents=True, exist_ok=True)
    settings = {
        "model": "transformer",
        "model_settings": {"d_model": 16},
        "init": None,
        "empty": {},
    }
    settings["stage_settings"] = {"betas": [0.9, 0.98]}
    config = {
        "code": "c0de",
        "feature_hash": "feed",
        "init_sha256": None,
        "spec": settings,
        "stage": stage,
    }
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    lines = [
        "epoch,step,loss,learning_rate,val_cider_d,seconds",
        f"0,10,{loss},0.1,0.5,1",
        "1,20,1.0,0.1,,1",
    ]
    (run / "history.csv").write_text("\n".join(lines) + "\n")
    facts = {
        "parameters": 100,
        "best_epoch": 0,
        "seconds": 2.0,
        "git_commit": "abc",
        "stage": stage,
        "seed": seed,
    }
    (run / "training.json").write_text(json.dumps(facts))
    if cider is not None:
        scores.mkdir(parents=True, exist_ok=True)
        (scores / "captions.test.json").write_text("[]")
        metrics = {
            "scores": {"BLEU-1": 0.5, "CIDEr": cider, "SPICE": None},
            "not_run": {"SPICE": "no jar"},
        }
        metrics |= {"signature": "s", "split": "test", "decoding": {}}
        (scores / "metrics.json").write_text(json.dumps(metrics))


@pytest.fixture
def results(tmp_path):
    """Two seeds of one setting, each with both stages; the last stage is scored."""
    folder = tmp_path / "results" / "demo"
    for seed, cider in ((1, 0.4), (2, 0.6)):
        write_run(folder, seed=seed)
        write_run(folder, seed=seed, stage="scst", cider=cider)
    return folder


def client_of(store):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{store}")


def active(store):
    """Return the runs that are not deleted."""
    client = client_of(store)
    return client.search_runs(
        [experiment.experiment_id for experiment in client.search_experiments()]
    )


@pytest.fixture
def publish(tmp_path, results, mlflow_store):
    """Return a function that publishes and returns the active runs by profile and name."""

    def run(profile="demo", source=results):
        publish_now(
            profile=profile, results=source, store=mlflow_store, out=tmp_path / f"{profile}.json"
        )
        return {
            (result.data.tags["recap_profile"], result.info.run_name): result
            for result in active(mlflow_store)
        }

    return run


def test_every_seed_and_stage_is_a_run_with_its_own_scores_and_settings(publish):
    runs = publish()
    assert {name for _, name in runs} == {
        f"transformer seed {seed} {stage}" for seed in (1, 2) for stage in ("xe", "scst")
    }
    run = runs["demo", "transformer seed 2 scst"]
    metrics, tags = run.data.metrics, run.data.tags
    assert metrics["CIDEr"] == 60.0 and "SPICE" not in metrics  # percent, as in the tables
    assert (metrics["loss"], metrics["val_cider_d"]) == (1.0, 50)
    assert run.info.status == "FINISHED" and run.info.end_time - run.info.start_time == 2000
    assert [tags[name] for name in ("model", "seed", "stage")] == ["transformer", "2", "scst"]
    assert tags["not_run.SPICE"] == "no jar"
    data = runs["demo", "transformer seed 1 xe"].data
    own = [name for name in data.tags if not name.startswith("mlflow.")]
    assert own[:3] == ["label", "stage", "seed"] and own[-2:] == ["job_key", "content_hash"]
    assert (
        not {"code", "feature_hash", "init_sha256"} & set(own) and data.tags["git_commit"] == "abc"
    )
    settings = {
        "model_settings.d_model": "16",
        "stage_settings.betas": "[0.9, 0.98]",
        "init": "null",
    }
    assert data.params == {"label": "transformer", "model": "transformer", **settings}


def test_runs_have_the_labels_of_the_tables_and_their_descriptions(
    publish, results, mlflow_store, capsys
):
    row = dict(zip(("dataset", "subset", "features"), SETTING.split("/"), strict=False))
    row |= {
        "id": "t",
        "label": "Transformer <big>",
        "model": "transformer",
        "recipe": "demo",
        "stage": "scst",
    }
    table = {
        "table": "two",
        "title": "Two rows",
        "scale": "Demonstration: small",
        "baseline": "t",
    }
    table |= {"seeds": [1, 2], "columns": ["CIDEr"], "rows": [row | {"cells": {}}]}
    write_json(results / "statistics" / "two.json", table)
    runs = publish()
    names = {
        f"Transformer <big> seed {seed} {stage}" for seed in (1, 2) for stage in ("xe", "scst")
    }
    assert {name for _, name in runs} == names
    tags = runs["demo", "Transformer <big> seed 1 scst"].data.tags
    assert tags["label"] == "Transformer <big>"
    assert (
        "Two rows" in tags["mlflow.note.content"]
        and "Demonstration: small" in tags["mlflow.note.content"]
    )
    experiment = client_of(mlflow_store).get_experiment_by_name("scenes").experiment_id
    print_run_lists(store=mlflow_store, port=5)
    assert (
        capsys.readouterr().out
        == f"runs on scenes: http://127.0.0.1:5/#/experiments/{experiment}/runs\n"
    )


def test_the_main_metric_is_written_first_and_no_infinite_number(results):
    write_run(results, loss=float("inf"))
    records = {record.name: record.points() for record in read_runs("demo", results)}
    assert [name for name, _, _ in records["transformer seed 1 scst"]][:2] == ["CIDEr", "BLEU-1"]
    assert [value for name, value, _ in records["transformer seed 1 xe"] if name == "loss"] == [1.0]


def test_a_changed_run_and_a_half_written_one_replace_themselves_alone(
    publish, results, tmp_path, mlflow_store
):
    before = publish()
    with refused(RecapError, "mistyped"):  # results without a run remove nothing
        publish("demo", tmp_path / "mistyped")
    write_run(results, seed=2, stage="scst", cider=0.8)
    client_of(mlflow_store).delete_tag(
        before["demo", "transformer seed 1 xe"].info.run_id, "content_hash"
    )
    after = publish()
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name].info.run_id != before[name].info.run_id}
    assert changed == {("demo", "transformer seed 2 scst"), ("demo", "transformer seed 1 xe")}


def test_runs_whose_results_are_gone_leave_and_other_profiles_stay(
    publish, results, tmp_path, mlflow_store
):
    write_run(tmp_path / "results" / "other", cider=0.1)
    publish("other", tmp_path / "results" / "other")
    publish()
    (results / "runs" / SETTING / "seed-2" / "scst" / "training.json").unlink()
    runs = publish()
    assert ("demo", "transformer seed 2 scst") not in runs
    assert ("other", "transformer seed 1 xe") in runs and len(runs) == 1 + 3
    assert str(tmp_path).encode() not in mlflow_store.read_bytes()
    remove_runs(profile="demo", store=mlflow_store)
    assert {run.data.tags["recap_profile"] for run in active(mlflow_store)} == {"other"}


@pytest.mark.parametrize("name", ["config.yaml", "history.csv", "training.json"])
def test_a_run_that_changed_since_it_was_finished_is_not_published(results, name):
    run = results / "runs" / SETTING / "seed-1" / "xe"
    record(*(run / file for file in ("config.yaml", "history.csv", "training.json")))
    read_runs("demo", results)
    (run / name).write_text((run / name).read_text().replace("1", "7", 1))
    with refused(ChangedFile, name):
        read_runs("demo", results)


def test_seconds_beyond_all_time_are_refused(results):
    run = results / "runs" / SETTING / "seed-1" / "xe" / "training.json"
    run.write_text(run.read_text().replace('"seconds": 2.0', '"seconds": 1e306'))
    with refused(DamagedFile, "training.json", "OverflowError"):
        read_runs("demo", results)
