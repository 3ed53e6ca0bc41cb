"""The flat file behind `dvc metrics diff`."""

import json

from recap.report.figures import write_summary


def metrics(folder, **scores):
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(
        json.dumps({"scores": scores, "signature": "tok:ptb", "split": "test", "decoding": {}})
    )


def test_the_summary_is_the_mean_over_seeds_and_leaves_out_what_did_not_run(tmp_path):
    metrics(tmp_path / "seed-1", CIDEr=0.4, METEOR=None, SPICE=None)
    metrics(tmp_path / "seed-2", CIDEr=0.6, METEOR=0.2, SPICE=None)
    out = tmp_path / "summary.json"
    write_summary(spec={"rows": {"table.row": ["seed-1", "seed-2"]}}, scores=tmp_path, out=out)
    assert json.loads(out.read_text()) == {"table.row.CIDEr": 50.0}
