"""Small score files in the layout that the evaluation writes."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from recap.plan.run import row_runs
from recap.settings import Table
from recap.statistics.compare import compare_table
from recap.tables.formats import write_table

SIGNATURE = (
    "pycocoevalcap:1.2|tok:ptb|refs:5|images:{images}|split:test@ab12|"
    "beam:3|len:20|lp:0|recap:0.2.0"
)
# Image scores of the first seed; each further seed adds 0.01 to every image.
BASE = {"CIDEr": [0.1, 0.4, 0.2, 0.5], "METEOR": [0.2, 0.2, 0.3, 0.1]}
BETTER = {"CIDEr": [0.2, 0.6, 0.5, 0.9], "METEOR": [0.2, 0.2, 0.3, 0.1]}


def make_table(*, as_printed=False, **changes):
    """A table of a baseline row and one other row;
    ``as_printed``: with the settings of the printed numbers."""
    row = {"dataset": "scenes", "features": "grid", "recipe": "short", "as_printed": as_printed}
    values = {
        "title": "Two models",
        "scale": "Demonstration: 4 tiny images instead of 5,000",
        "printed_on": "coco",
        "columns": ["METEOR", "CIDEr", "SPICE"],
        "baseline": "transformer",
        "rows": [
            {
                **row,
                "id": "transformer",
                "label": "Transformer",
                "model": "transformer",
                "printed": {"CIDEr": 127.8},
            },
            {**row, "id": "zodiac", "label": "ZoDIAC", "model": "zodiac"},
        ],
    }
    return Table(**{**values, **changes})


def write_run(folder, images, *, ids=(11, 12, 13, 14), signature=SIGNATURE, not_run=("SPICE",)):
    """Write metrics.json, scores.test.parquet and captions.test.json of one run.

    Corpus scores are image means.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scores = {metric: float(sum(values) / len(values)) for metric, values in images.items()}
    metrics = {
        "scores": scores | dict.fromkeys(not_run),
        "not_run": dict.fromkeys(not_run, "its models are not installed"),
        "signature": signature.format(images=len(ids)),
        "images": len(ids),
        "split": "test",
        "decoding": {},
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))
    table = pa.table({"image_id": list(ids), **images})
    pq.write_table(table, folder / "scores.test.parquet", write_page_checksum=True)
    captions = [{"image_id": i, "caption": f"{folder.parts[-3]} says {i}"} for i in ids]
    (folder / "captions.test.json").write_text(json.dumps(captions))


def write_scores(root, table, seeds, images=None):
    """Write the runs of all rows: row id -> image scores of the first seed."""
    images = images or {"transformer": BASE, "zodiac": BETTER}
    for row in table.rows:
        for number, run in enumerate(row_runs(row, seeds)):
            shifted = {
                m: [v + 0.01 * number for v in values] for m, values in images[row.id].items()
            }
            write_run(root / run.path, shifted)


def compared(folder, table, seeds):
    """Return the statistics of a table by the name `two`, whose scores are in `folder`."""
    files = {"scores_root": folder / "scores", "statistics_out": folder / "two.json"}
    return compare_table(table=table, name="two", seeds=list(seeds), **files)


def table_texts(folder, table, statistics):
    """Return the text of each file of a table by its ending."""
    paths = write_table(name="two", table=table, statistics=statistics, out=folder / "t")
    return {path.name.removeprefix("two."): path.read_text() for path in paths}
