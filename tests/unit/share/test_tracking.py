"""The MLflow view: made from files, replaced by key, and never a danger to results."""

import json
from pathlib import Path

import pytest
import yaml

from helpers.refusals import refused
from recap.core.checksums import record
from recap.core.errors import ChangedFile, RecapError, UnknownName
from recap.share.tracking_records import read_records
from recap.share.tracking_store import publish as publish_now
from recap.share.tracking_store import remove_runs, run_list_urls

pytestmark = pytest.mark.seconds

SETTING = "scenes/full/grid/transformer@demo"


def write_run(results: Path, *, setting=SETTING, seed=1, stage="xe", cider=None, loss=2.0):
    """Write the files that training (and, where ``cider`` is given, evaluation) leaves."""
    path = f"{setting}/seed-{seed}/{stage}"
    run, scores = results / "runs" / path, results / "scores" / path
    run.mkdir(parents=True, exist_ok=True)
    settings = {"model": "transformer", "model_settings": {"d_model": 16}, "init": None, "empty": {}}
    settings["stage_settings"] = {"betas": [0.9, 0.98]}
    config = {"code": "c0de", "feature_hash": "feed", "init_sha256": None, "spec": settings, "stage": stage}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    lines = ["epoch,step,loss,learning_rate,val_cider_d,seconds", f"0,10,{loss},0.1,0.5,1", "1,20,1.0,0.1,,1"]
    (run / "history.csv").write_text("\n".join(lines) + "\n")
    facts = {"parameters": 100, "best_epoch": 0, "seconds": 2.0, "git_commit": "abc", "stage": stage, "seed": seed}
    (run / "training.json").write_text(json.dumps(facts))
    if cider is not None:
        scores.mkdir(parents=True, exist_ok=True)
        (scores / "captions.test.json").write_text("[]")
        metrics = {"scores": {"BLEU-1": 0.5, "CIDEr": cider, "SPICE": None}, "not_run": {"SPICE": "no jar"}}
        metrics |= {"signature": "s", "split": "test", "decoding": {}}
        (scores / "metrics.json").write_text(json.dumps(metrics))


def write_table(results: Path, reports: Path, *, name="two"):
    """Write the statistics of a table with one row, and what a reader sees of it."""
    row = dict(zip(("dataset", "subset", "features"), SETTING.split("/"), strict=False))
    row |= {"id": "t", "label": "Transformer <big>", "model": "transformer", "recipe": "demo", "stage": "scst"}
    row["cells"] = {"CIDEr": {"mean": 4.67981}, "SPICE": {"mean": None}}
    table = {"table": name, "title": "Two rows", "scale": "Scale of this run: small", "baseline": "t", "rows": [row]}
    table |= {"seeds": [1, 2], "columns": ["CIDEr", "SPICE"]}
    for folder in (results / "statistics", reports / "tables", reports / "figures"):
        folder.mkdir(parents=True, exist_ok=True)
    (results / "statistics" / f"{name}.json").write_text(json.dumps(table))
    (reports / "tables" / f"{name}.md").write_text("| the table |")
    (reports / "tables" / f"{name}.html").write_text("<table></table>")
    for figure in (f"{name}_captions.png", "curves.png", f"{name}_more_captions.png"):
        (reports / "figures" / figure).write_bytes(b"png")


@pytest.fixture
def results(tmp_path):
    """Two seeds of one setting, each with both stages; the last stage is scored."""
    folder = tmp_path / "results" / "demo"
    for seed, cider in ((1, 0.4), (2, 0.6)):
        write_run(folder, seed=seed)
        write_run(folder, seed=seed, stage="scst", cider=cider)
    return folder


@pytest.fixture
def store(mlflow_store):
    return mlflow_store


def client_of(store):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{store}")


def active(store):
    """Return the runs that are not deleted."""
    client = client_of(store)
    return client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])


@pytest.fixture
def publish(tmp_path, results, store):
    """Return a function that publishes and returns the active runs by profile and name."""

    def run(profile="demo", source=results):
        reports = tmp_path / "reports" / profile
        publish_now(profile=profile, results=source, reports=reports, store=store, out=tmp_path / f"{profile}.json")
        return {(result.data.tags["recap_profile"], result.info.run_name): result for result in active(store)}

    return run


def test_every_seed_and_stage_is_a_run_with_its_own_scores(publish):
    runs = publish()
    assert {name for _, name in runs} == {
        f"transformer seed {seed} {stage}" for seed in (1, 2) for stage in ("xe", "scst")
    }
    run = runs["demo", "transformer seed 2 scst"]
    assert run.data.metrics["CIDEr"] == 60.0  # percent, as in the tables
    assert "SPICE" not in run.data.metrics
    assert run.data.metrics["loss"] == 1.0
    assert run.data.metrics["val_cider_d"] == 50
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 2000
    tags = run.data.tags
    assert [tags[name] for name in ("model", "seed", "stage")] == ["transformer", "2", "scst"]
    assert tags["not_run.SPICE"] == "no jar"
    assert "mlflow.parentRunId" not in tags


def test_settings_are_params_and_no_tag_is_a_hash_but_the_last(publish):
    run = publish()["demo", "transformer seed 1 xe"]
    own = [name for name in run.data.tags if not name.startswith("mlflow.")]
    assert own[:3] == ["label", "stage", "seed"]
    assert own[-2:] == ["job_key", "content_hash"]
    assert not {"code", "feature_hash", "init_sha256"} & set(own)
    assert run.data.tags["git_commit"] == "abc"
    assert run.data.params == {
        "label": "transformer",
        "init": "null",
        "model": "transformer",
        "model_settings.d_model": "16",
        "stage_settings.betas": "[0.9, 0.98]",
    }


def test_runs_have_the_labels_of_the_tables_and_a_table_shows_what_it_compares(publish, results, tmp_path):
    write_table(results, tmp_path / "reports" / "demo")
    runs = publish()
    assert {name for _, name in runs} == {
        "table two",
        *(f"Transformer <big> seed {seed} {stage}" for seed in (1, 2) for stage in ("xe", "scst")),
    }
    assert runs["demo", "Transformer <big> seed 1 xe"].data.tags["label"] == "Transformer <big>"
    table = runs["demo", "table two"].data
    assert table.metrics == {"mean CIDEr: Transformer big": 467.981}
    assert table.params == {"baseline": "Transformer <big>", "seeds": "1, 2", "setting: Transformer big": SETTING}


@pytest.mark.parametrize("label", ["... with gates", "+", "..", "", "seeds", "baseline", "long " * 100, "日本 µ/ħ"])
def test_a_row_may_have_any_label(publish, results, tmp_path, label):
    write_table(results, tmp_path / "reports" / "demo")
    file = results / "statistics" / "two.json"
    table = json.loads(file.read_text())
    row = table["rows"][0] | {"label": label}
    file.write_text(json.dumps({**table, "baseline": "u", "rows": [row, row | {"id": "u"}]}))
    data = publish()["demo", "table two"].data
    assert list(data.metrics.values()) == [467.981] * 2
    assert data.params["seeds"] == "1, 2" and data.params["baseline"] == label
    assert list(data.params.values()).count(SETTING) == 2


def test_a_number_that_mlflow_cannot_show_is_left_out(results, tmp_path):
    write_run(results, loss=float("inf"))
    records = read_records(profile="demo", results=results, reports=tmp_path)
    record = next(record for record in records if record.name == "transformer seed 1 xe")
    assert [value for name, value, _ in record.points() if name == "loss"] == [1.0]


def test_a_name_that_mlflow_refuses_has_its_reason(publish, results):
    config = results / "runs" / SETTING / "seed-1" / "xe" / "config.yaml"
    config.write_text(yaml.safe_dump({"spec": {"key" * 100: 1}}))
    with refused(RecapError, "maximum length of 250", "parameters"):
        publish()


def test_a_score_of_no_metric_is_named(results, tmp_path):
    file = results / "scores" / SETTING / "seed-1" / "scst" / "metrics.json"
    file.write_text(file.read_text().replace("CIDEr", "CIDEx"))
    with refused(UnknownName, "seed-1/scst/metrics.json", "'CIDEx'"):
        read_records(profile="demo", results=results, reports=tmp_path)


def test_the_main_metric_is_written_first(results, tmp_path):
    records = read_records(profile="demo", results=results, reports=tmp_path)
    scored = next(result for result in records if result.scores)
    assert [name for name, _, _ in scored.points()][:2] == ["CIDEr", "BLEU-1"]


def test_a_table_is_a_run_of_its_own_and_describes_the_runs_behind_it(publish, results, tmp_path, store):
    write_table(results, tmp_path / "reports" / "demo")
    card = results / "data" / "scenes" / "card.md"
    card.parent.mkdir(parents=True)
    card.write_text("# Corpus card: scenes")
    runs = publish()
    table = runs["demo", "table two"]
    assert table.data.tags["mlflow.note.content"] == "| the table |"
    below = store.parent / "artifacts" / table.info.run_id / "artifacts"
    kept = {file.relative_to(below).as_posix() for file in below.rglob("*") if file.is_file()}
    figures = {"figures/two_captions.png", "figures/curves.png"}
    assert kept == {"tables/two.md", "tables/two.html", *figures, "data/scenes.md"}
    note = runs["demo", "Transformer <big> seed 1 scst"].data.tags["mlflow.note.content"]
    assert "Transformer <big>" in note and "Two rows" in note and "Scale of this run: small" in note


def test_run_lists_have_addresses_and_experiments_no_tags_of_mlflows_own(publish, store):
    publish()
    experiment = client_of(store).get_experiment_by_name("scenes")
    assert not [name for name in experiment.tags if name.startswith("mlflow.")]
    assert run_list_urls(store=store, port=5) == {
        "scenes": f"http://127.0.0.1:5/#/experiments/{experiment.experiment_id}"
    }


def test_no_path_of_this_machine_stands_in_the_store(publish, store, tmp_path):
    publish()
    assert str(tmp_path).encode() not in store.read_bytes()


def test_an_experiment_whose_files_are_elsewhere_is_left_alone(publish, store, tmp_path):
    client_of(store).create_experiment("scenes", artifact_location=f"file://{tmp_path}")
    with refused(RecapError, "'scenes'", f"file://{tmp_path}", "mlflow-artifacts:/"):
        publish()


def test_a_changed_run_replaces_itself_alone(publish, results):
    before = publish()
    write_run(results, seed=2, stage="scst", cider=0.8)
    after = publish()
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name].info.run_id != before[name].info.run_id}
    assert changed == {("demo", "transformer seed 2 scst")}


@pytest.mark.parametrize("missing", [True, False])
def test_results_without_a_run_are_an_error_that_removes_nothing(publish, tmp_path, store, missing):
    before = {run.info.run_id for run in publish().values()}
    elsewhere = tmp_path / "mistyped"
    if not missing:
        (elsewhere / "runs").mkdir(parents=True)
    with refused(RecapError, "mistyped"):
        publish("demo", elsewhere)
    assert {run.info.run_id for run in active(store)} == before


def test_runs_whose_results_are_gone_leave_and_other_profiles_stay(publish, results, tmp_path):
    write_run(tmp_path / "results" / "other", cider=0.1)
    publish("other", tmp_path / "results" / "other")
    publish()
    (results / "runs" / SETTING / "seed-2" / "scst" / "training.json").unlink()
    runs = publish()
    assert ("demo", "transformer seed 2 scst") not in runs
    assert ("other", "transformer seed 1 xe") in runs
    assert len(runs) == 1 + 3


def test_a_profile_is_withdrawn_and_others_stay(publish, tmp_path, store):
    write_run(tmp_path / "results" / "other", cider=0.1)
    publish("other", tmp_path / "results" / "other")
    publish()
    remove_runs(profile="demo", store=store)
    assert {run.data.tags["recap_profile"] for run in active(store)} == {"other"}


def test_a_half_written_run_is_written_again(publish, store):
    name = "transformer seed 1 xe"
    run_id = publish()["demo", name].info.run_id
    client_of(store).delete_tag(run_id, "content_hash")
    assert publish()["demo", name].info.run_id != run_id


@pytest.mark.parametrize("history", ["epoch,loss\nfirst,1\n", "loss\n1\n", "epoch,loss\n0,1,2,3\n"])
def test_a_broken_history_is_named(results, history):
    path = results / "runs" / SETTING / "seed-1" / "xe" / "history.csv"
    path.write_text(history)
    with refused(RecapError, "seed-1/xe/history.csv"):
        read_records(profile="demo", results=results, reports=results)


@pytest.mark.parametrize("name", ["config.yaml", "history.csv", "training.json"])
def test_a_run_that_changed_since_it_was_finished_is_not_published(results, name):
    run = results / "runs" / SETTING / "seed-1" / "xe"
    record(*(run / file for file in ("config.yaml", "history.csv", "training.json")))
    read_records(profile="demo", results=results, reports=results)
    (run / name).write_text((run / name).read_text().replace("1", "7", 1))
    with refused(ChangedFile, name):
        read_records(profile="demo", results=results, reports=results)
