"""The MLflow view: made from files, replaced by key, and never a danger to results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from recap.core.errors import RecapError, TrainingError
from recap.training.journal import flat, read_records

SETTING = "scenes/full/grid/transformer@demo"


def write_run(results: Path, *, setting=SETTING, seed=1, stage="xe", cider=None, loss=2.0):
    """Write the files that training (and, where ``cider`` is given, evaluation) leaves."""
    path = f"{setting}/seed-{seed}/{stage}"
    run, scores = results / "runs" / path, results / "scores" / path
    run.mkdir(parents=True, exist_ok=True)
    config = {"model": "transformer", "model_config": {"d_model": 16}, "stage_config": {"betas": [0.9, 0.98]}}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    lines = ["epoch,step,loss,learning_rate,val_cider_d,seconds", f"0,10,{loss},0.1,0.5,1", "1,20,1.0,0.1,,1"]
    (run / "history.csv").write_text("\n".join(lines) + "\n")
    facts = {"parameters": 100, "best_epoch": 0, "seconds": 2.0, "git_commit": "abc", "stage": stage, "seed": seed}
    (run / "training.json").write_text(json.dumps(facts))
    if cider is not None:
        scores.mkdir(parents=True, exist_ok=True)
        (scores / "captions.test.json").write_text("[]")
        metrics = {"scores": {"CIDEr": cider, "SPICE": None}, "not_run": {"SPICE": "no jar"}, "signature": "s"}
        (scores / "metrics.json").write_text(json.dumps(metrics))


@pytest.fixture
def results(tmp_path):
    """Two seeds of one setting, each with both stages; the last stage is scored."""
    folder = tmp_path / "results" / "demo"
    for seed, cider in ((1, 0.4), (2, 0.6)):
        write_run(folder, seed=seed)
        write_run(folder, seed=seed, stage="scst", cider=cider)
    return folder


@pytest.fixture
def publish(tmp_path, results):
    """Return a function that publishes and returns the active runs by name."""
    store = tmp_path / "mlflow" / "mlflow.db"

    def run(profile="demo", source=results):
        from mlflow.tracking import MlflowClient

        from recap.training.tracking import publish

        publish(profile=profile, results=source, store=store, out=tmp_path / f"{profile}.json")
        client = MlflowClient(tracking_uri=f"sqlite:///{store}")
        ids = [experiment.experiment_id for experiment in client.search_experiments()]
        return {(found.data.tags["recap_profile"], found.info.run_name): found for found in client.search_runs(ids)}

    return run


def by_name(runs, name):
    return runs["demo", name]


PARENT = "transformer@demo | scenes | full | grid"


def test_a_parent_holds_the_mean_and_a_child_each_seed_and_stage(publish):
    runs = publish()
    assert {name for _, name in runs} == {
        PARENT,
        *(f"transformer-scenes-full-s{seed}-{stage}" for seed in (1, 2) for stage in ("xe", "scst")),
    }
    parent, child = by_name(runs, PARENT), by_name(runs, "transformer-scenes-full-s2-scst")
    assert parent.data.metrics["CIDEr"] == pytest.approx(0.5)
    assert child.data.metrics["CIDEr"] == 0.6
    assert "SPICE" not in child.data.metrics
    assert child.data.tags["not_run.SPICE"] == "no jar"
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags["git_commit"] == "abc"
    assert child.data.params["model_config.d_model"] == "16"
    assert child.data.metrics["loss"] == 1.0
    assert child.data.metrics["val_cider_d"] == 0.5
    assert child.info.status == "FINISHED"


def test_publishing_again_changes_nothing(publish):
    first = {run.info.run_id for run in publish().values()}
    assert {run.info.run_id for run in publish().values()} == first


def test_a_parent_carries_the_card_of_its_data_set(publish, results):
    publish()
    card = results / "data" / "scenes" / "card.md"
    card.parent.mkdir(parents=True)
    card.write_text("# Corpus card: scenes\n")
    parent = by_name(publish(), PARENT)
    assert (Path(parent.info.artifact_uri.removeprefix("file://")) / "card.md").read_text() == card.read_text()


def test_a_changed_run_replaces_itself_and_its_parent_alone(publish, results):
    before = publish()
    write_run(results, seed=2, stage="scst", cider=0.8)
    after = publish()
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name].info.run_id != before[name].info.run_id}
    assert changed == {("demo", PARENT), ("demo", "transformer-scenes-full-s2-scst")}
    parent = by_name(after, PARENT)
    assert parent.data.metrics["CIDEr"] == pytest.approx(0.6)
    children = [run for run in after.values() if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}


def test_runs_whose_results_are_gone_leave_and_other_profiles_stay(publish, results, tmp_path):
    write_run(tmp_path / "results" / "other", cider=0.1)
    publish("other", tmp_path / "results" / "other")
    publish()
    (results / "runs" / SETTING / "seed-2" / "scst" / "training.json").unlink()
    runs = publish()
    assert ("demo", "transformer-scenes-full-s2-scst") not in runs
    assert ("other", PARENT) in runs
    assert len(runs) == 2 + 4


def test_a_half_written_run_is_written_again(publish, tmp_path):
    from mlflow.tracking import MlflowClient

    name = "transformer-scenes-full-s1-xe"
    run_id = by_name(publish(), name).info.run_id
    MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow/mlflow.db").delete_tag(run_id, "content_hash")
    assert by_name(publish(), name).info.run_id != run_id


def test_a_broken_store_is_one_sentence_and_the_results_stay(results, tmp_path):
    from recap.training.tracking import publish

    store = tmp_path / "mlflow.db"
    store.write_text("this is no database, and long enough to be recognised as none")
    with pytest.raises(
        TrainingError, match=r"mlflow\.db: MLflow cannot use this store .* all results are safe"
    ) as error:
        publish(profile="demo", results=results, store=store, out=tmp_path / "out.json")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out.json").exists()
    assert (results / "runs" / SETTING / "seed-1" / "xe" / "history.csv").exists()


def test_a_store_that_cannot_be_written_is_one_sentence(tmp_path):
    from recap.training.tracking import init_store

    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="cannot be written"):
        init_store(tmp_path / "file" / "mlflow.db")


def test_processes_may_meet_in_a_fresh_store(tmp_path):
    code = "import sys, pathlib, recap.training.tracking as t; t.init_store(pathlib.Path(sys.argv[1]))"
    store = tmp_path / "mlflow" / "mlflow.db"
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(store)]) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    assert [path.name for path in store.parent.iterdir() if path.suffix == ".part"] == []


@pytest.mark.parametrize("history", ["", "epoch,loss\nfirst,1\n", "loss\n1\n", "epoch,loss\n0,1,2,3\n"])
def test_a_broken_history_is_named(results, history):
    path = results / "runs" / SETTING / "seed-1" / "xe" / "history.csv"
    path.write_text(history)
    if not history:
        path.unlink()
    with pytest.raises(RecapError, match=r"seed-1/xe/history\.csv"):
        read_records(profile="demo", results=results)


def test_flat_params_keep_their_path():
    values = {"a": {"b": {"c": 1}}, "d": [1, 2], "e": "text", "f": None, "g": {}}
    assert dict(flat(values)) == {"a.b.c": "1", "d": "[1, 2]", "e": "text", "f": "null"}


def test_withdrawn_runs_are_gone_and_those_of_other_profiles_stay(tmp_path, publish):
    from recap.training.tracking import withdraw

    publish()
    publish("other")
    withdraw(profile="demo", store=tmp_path / "mlflow" / "mlflow.db")
    assert {profile for profile, _ in publish("other")} == {"other"}
