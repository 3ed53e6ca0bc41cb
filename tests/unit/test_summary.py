"""The flat files behind `dvc metrics diff` and `dvc plots show`."""

import json

import pytest

from recap.core.errors import RecapError
from recap.reporting.summary import write_curves, write_summary


def metrics(folder, **scores):
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps({"scores": scores}))


def test_the_summary_is_the_mean_over_seeds_and_leaves_out_what_did_not_run(tmp_path):
    metrics(tmp_path / "seed-1", CIDEr=0.4, METEOR=None, SPICE=None)
    metrics(tmp_path / "seed-2", CIDEr=0.6, METEOR=0.2, SPICE=None)
    out = tmp_path / "summary.json"
    write_summary(spec={"rows": {"table.row": ["seed-1", "seed-2"]}}, scores=tmp_path, out=out)
    assert json.loads(out.read_text()) == {"table.row.CIDEr": pytest.approx(0.5)}


def test_curves_of_all_runs_stand_below_each_other(tmp_path):
    for seed in (1, 2):
        (tmp_path / f"seed-{seed}" / "xe").mkdir(parents=True)
        text = f"epoch,step,loss,learning_rate,val_cider_d,seconds\n0,5,3.0,0.1,0.{seed},9\n"
        (tmp_path / f"seed-{seed}" / "xe" / "history.csv").write_text(text)
    out = tmp_path / "curves.csv"
    write_curves(spec={"runs": {"one": "seed-1/xe", "two": "seed-2/xe"}}, runs=tmp_path, out=out)
    assert out.read_text() == "run,stage,epoch,loss,val_cider_d\none,xe,0,3.0,0.1\ntwo,xe,0,3.0,0.2\n"


@pytest.mark.parametrize("text, message", [(None, "no such file"), ("epoch,loss\n0,1\n", "'val_cider_d' is missing")])
def test_a_missing_history_or_column_is_named(tmp_path, text, message):
    (tmp_path / "run").mkdir()
    if text:
        (tmp_path / "run" / "history.csv").write_text(text)
    with pytest.raises(RecapError, match=rf"history\.csv.*{message}"):
        write_curves(spec={"runs": {"one": "run"}}, runs=tmp_path, out=tmp_path / "curves.csv")
    assert not (tmp_path / "curves.csv").exists()
