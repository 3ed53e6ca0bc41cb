"""COCO in miniature with test pictures that have no references,
and a table whose rows go to COCO's server."""

from textwrap import dedent

import numpy as np

from helpers.feature_files import write_lines
from helpers.generators import jpeg
from rehearsal.archives import write_zip
from rehearsal.coco import karpathy_image, listing
from rehearsal.regions import bottom_up_line

TRAIN, VAL, TEST = range(1, 13), range(101, 109), range(201, 207)
NOUNS = ("dog", "cat", "bird")


def part(image_id):
    return "train2014" if image_id in TRAIN else "val2014" if image_id in VAL else "test2014"


def name(image_id):
    return f"COCO_{part(image_id)}_{image_id:012d}.jpg"


def karpathy_of(image_id, split):
    said = [f"a {NOUNS[image_id % 3]} on the grass"]
    return karpathy_image(
        image_id, name(image_id), split, said, filepath=part(image_id), cocoid=image_id
    )


def regions(image_id):
    """Return a line of the published TSV: two regions whose vectors tell the noun."""
    vectors = np.full((2, 8), 0.1, np.float32)
    vectors[:, image_id % 3] = 2.0
    return bottom_up_line(image_id, (64, 48), np.float32([[0, 0, 40, 30], [5, 5, 20, 25]]), vectors)


def write_inputs(folder):
    """Write the outside files below ``folder`` in the published layout."""
    (folder / "coco").mkdir(parents=True)
    splits = {101: "val", 102: "val", 103: "test", 104: "test", 105: "test"}
    images = [
        karpathy_of(i, splits.get(i, "restval" if i in VAL else "train")) for i in (*TRAIN, *VAL)
    ]
    content = {"dataset_coco.json": {"images": images, "dataset": "coco"}}
    write_zip(folder / "coco" / "caption_datasets.zip", content)
    listed = {
        "annotations/image_info_test2014.json": listing({number: name(number) for number in TEST})
    }
    write_zip(folder / "coco" / "image_info_test2014.zip", listed)
    for ids in (TRAIN, VAL, TEST):
        place = part(ids[0])
        write_zip(
            folder / "coco" / f"{place}.zip",
            {f"{place}/{name(number)}": jpeg(number) for number in ids},
        )
    write_lines(folder / "regions.tsv", [regions(i) for i in (*TRAIN, *VAL)])
    write_lines(folder / "test.tsv.0", [regions(i) for i in TEST[:3]])
    write_lines(folder / "test.tsv.1", [regions(i) for i in TEST[3:]])


FILES = {
    "datasets/mini.yaml": """
        kind: coco
        annotations: [coco/caption_datasets.zip]
        images: [coco/train2014.zip, coco/val2014.zip]
        partial: true
        vocabulary: {min_count: 1, splits: all, max_length: 8}
    """,
    "datasets/mini_test.yaml": """
        kind: coco_pictures
        listing: coco/image_info_test2014.zip
        images: [coco/test2014.zip]
        partial: true
    """,
    "features/mini.yaml": "{kind: imported, format: bottom_up_tsv, sources: [regions.tsv]}",
    "features/mini_test.yaml": "{base: mini, sources: [test.tsv.0, test.tsv.1]}",
    "recipes/longer.yaml": "{base: short, xe: {epochs: 30, schedule: {learning_rate: 1.0e-2}}}",
    "tables/server.yaml": """
        title: A table of COCO's server
        columns: [c5.CIDEr, c40.CIDEr]
        baseline: single
        seeds: 2
        defaults: {dataset: mini, features: mini, model: transformer, recipe: longer, stage: xe}
        server:
          test: mini_test
          features: {mini: mini_test}
          not_sent: {other: its features of the test pictures are nowhere}
        quoted: [{id: theirs, label: Theirs, printed: {c5.CIDEr: 100.0, c40.CIDEr: 101.0}}]
        not_run:
          - id: lost
            label: Lost
            reason: its features were not released
            printed: {c5.CIDEr: 110.0}
        rows:
          - {id: single, label: Single}
          - id: together
            label: Together
            ensemble: true
            printed: {c5.CIDEr: 120.0, c40.CIDEr: 121.0}
          - {id: other, label: Other, recipe: {base: longer, xe: {epochs: 1}}}
    """,
}


def make_server_workspace(workspace):
    """Write settings and outside files into a workspace whose profile then makes the table
    alone."""
    for file, content in FILES.items():
        (workspace.folder / "params" / file).write_text(dedent(content))
    workspace.change("tiny.yaml", "[tiny]", "[server]")
    workspace.change("tiny.yaml", "seeds: [1]", "seeds: [1, 2]")
    write_inputs(workspace.folder / "inputs")
    return workspace


def answer(**changes):
    """Return an answer of the server."""
    metrics = {f"Bleu_{n}": 0.9 - n / 10 for n in range(1, 5)} | {
        "METEOR": 0.28,
        "ROUGE_L": 0.57,
        "CIDEr": 1.28,
    }
    lines = [f"c5_{name}: {value}\n" for name, value in (metrics | changes).items()]
    lines += [f"c40_{name}: {value + 0.01}\n" for name, value in metrics.items()]
    return "".join(lines)
