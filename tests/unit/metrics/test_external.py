"""Metrics beyond COCO's: ratings of people from a file,
and metrics of a user's own that need pictures."""

import json
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import MetricError
from recap.core.hashing import parse_signature
from recap.metrics.base import Metric, Result
from recap.metrics.scores import evaluate_captions
from recap.settings import DecodingSettings
from recap.settings.metrics import METRICS, column_names, score_info

pytestmark = pytest.mark.usefixtures("no_java")

REFERENCES = {3: ["a dog runs"], 7: ["two bikes", "a red bike"]}
HYPOTHESES = {7: "two red bikes", 3: "a dog"}
SETTINGS = {"split": "test", "split_hash": "ab12", "decoding": DecodingSettings()}


class Hallucinated(Metric):
    """The share of captions that name a bike where the picture is not red; lower is better."""

    names: ClassVar = ("CHAIR-toy",)
    higher_is_better: ClassVar = False
    needs: ClassVar = frozenset({"pictures"})

    def version(self):
        return {"chair": "0.1"}

    def score(self, captions):
        values = {
            i: float("bike" in text and captions.picture(i).getpixel((0, 0))[0] < 128)
            for i, text in captions.hypotheses.items()
        }
        return Result({"CHAIR-toy": sum(values.values()) / len(values)}, {"CHAIR-toy": values})


@pytest.fixture
def chair(monkeypatch):
    monkeypatch.setattr(
        METRICS, "_entries", {**METRICS._entries, "CHAIR": f"{__name__}:Hallucinated"}
    )


def evaluated(out, *metrics, **more):
    return evaluate_captions(
        references=REFERENCES, hypotheses=HYPOTHESES, metrics=metrics, **SETTINGS, out=out, **more
    )


def test_ratings_of_several_people_are_averaged_per_image(tmp_path):
    (tmp_path / "ratings.test.csv").write_text("image_id,rater,Rating\n7,a,4\n7,b,5\n3,a,2\n")
    scores = evaluated(tmp_path, "ROUGE-L", "Rating")
    assert scores.per_image["Rating"] == {3: 2.0, 7: 4.5}
    assert scores.corpus["Rating"] == 3.25
    written = json.loads((tmp_path / "metrics.json").read_text())
    signature = parse_signature(written["signature"])
    assert (len(signature["ratings"]), signature["refs"]) == (8, "1-2")
    assert pq.read_table(tmp_path / "scores.test.parquet").to_pydict()["Rating"] == [2.0, 4.5]
    pq.write_table(
        pa.table({"image_id": [3, 7], "Rating": [1.0, 2.0]}), tmp_path / "ratings.test.parquet"
    )
    assert evaluated(tmp_path, "Rating").corpus["Rating"] == 1.5


def test_without_ratings_the_captions_are_written_and_the_reason_stands_beside_them(tmp_path):
    scores = evaluated(tmp_path, "Rating")
    assert scores.corpus["Rating"] is None
    assert "ratings.test.csv" in scores.not_run["Rating"]
    assert (tmp_path / "captions.test.json").exists()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("image_id,Rating\n3,2\n", ["Rating", "image 7", "1 such images of 2"]),
        ("image_id,stars\n3,2\n7,1\n", ["columns image_id, Rating"]),
        ("image_id,Rating,Gr\u00f6\u00dfe\n3,2,1\n7,1,1\n".encode("latin-1"), ["can be read"]),
        ("image_id,Rating\n3,2\n7,\u00bd\n".encode("latin-1"), ["Rating b'2'"]),
    ],
)
def test_ratings_that_do_not_fit_are_refused(tmp_path, text, named):
    (tmp_path / "ratings.test.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(MetricError, "ratings.test.csv", *named):
        evaluated(tmp_path, "Rating")
    assert not (tmp_path / "metrics.json").exists()


def test_a_metric_may_need_pictures_and_be_better_when_lower(tmp_path, chair):
    colours = {3: "red", 7: "blue"}
    scores = evaluated(
        tmp_path, "CHAIR", pictures=lambda image_id: Image.new("RGB", (2, 2), colours[image_id])
    )
    assert scores.per_image["CHAIR-toy"] == {3: 0.0, 7: 1.0}
    line = json.loads((tmp_path / "metrics.json").read_text())["signature"]
    assert parse_signature(line)["chair"] == "0.1"
    assert not score_info("CHAIR-toy").higher_is_better
    assert "CHAIR-toy" in column_names()


def test_a_metric_that_needs_pictures_says_so_where_there_are_none(tmp_path, chair):
    with refused(MetricError, "`pictures`", "evaluate_captions"):
        evaluated(tmp_path, "CHAIR")
