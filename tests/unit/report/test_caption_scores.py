"""Files of captions as the rows of one table,
also beside a published run: intervals, paired p, four formats."""

import gzip
import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from helpers.refusals import refused
from recap.cli import main
from recap.core.errors import MetricError, MissingFile
from recap.data.corpus import Caption, write_corpus
from recap.metrics.base import Gap
from recap.report.published import Image, captions_hash, references_hash, scores_hash
from recap.statistics.scores import read_image_scores, read_metrics

pytestmark = [pytest.mark.seconds, pytest.mark.usefixtures("no_java")]

COLORS = ["red", "blue", "green", "black", "white", "brown"]
REFERENCES = {
    image: [f"a {color} ball lies on the grass", f"{color} ball number {image}"]
    for image, color in enumerate(COLORS * 20)
}
FILES = {
    "ours": {image: f"a {COLORS[image % 5]} ball lies on grass" for image in REFERENCES},
    "shuffled": {image: f"a {COLORS[image % 7 % 6]} dog on the grass" for image in REFERENCES},
    "half_empty": {image: "" if image % 2 else texts[0] for image, texts in REFERENCES.items()},
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Stand in a folder with a corpus and three files of captions, outside of any clone."""
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path / "corpus.parquet")
    for name, captions in FILES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(captions))
    return tmp_path


def corpus(path, change=""):
    rows = [(image, text) for image, texts in REFERENCES.items() for text in texts]
    captions = [
        Caption(
            image,
            f"{image}.png",
            "test" if image < 110 else "val",
            number,
            text + change,
            text.split(),
        )
        for number, (image, text) in enumerate(rows)
    ]
    write_corpus(captions, path, dataset="balls", kind="test", source_sha256="0" * 64)


def scored(capsys, *words, form="json"):
    main(
        [
            "score",
            *words,
            "--dataset",
            "balls",
            "--metrics",
            "BLEU",
            "ROUGE-L",
            "CIDEr",
            "--format",
            form,
        ]
    )
    text = capsys.readouterr().out
    return json.loads(text) if form == "json" else text


def publish(capsys, folder, name):
    """Write a file of captions as a published run."""
    scored(capsys, f"{name}.json", "--corpus", "corpus.parquet", "--out", "once")
    images = read_image_scores(folder / "once", "test")
    ids = images.pop("image_id").tolist()
    metrics = json.loads((folder / "once" / "metrics.json").read_text())
    values = {
        each: {metric: values[at] for metric, values in images.items()}
        for at, each in enumerate(ids)
    }
    rows = [Image(each, FILES[name][each], values[each]) for each in ids]
    header = {
        "metrics": metrics,
        "seed": 1,
        "captions_sha256": captions_hash(rows),
        "scores_sha256": scores_hash(metrics, rows),
        "references_sha256": references_hash({each: REFERENCES[each] for each in ids}),
        "trainings": [],
        "versions": {},
    }
    file = folder / "published" / "p" / "run" / "xe.jsonl.gz"
    file.parent.mkdir(parents=True)
    lines = [json.dumps(each) for each in (header, *map(asdict, rows))]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    return file


def floored(metric, values):
    return np.where(values < 1e-3, 0.0, values) if metric.startswith("BLEU") else values


def test_every_p_is_scipys_over_the_images_and_holms_over_all(capsys, folder):
    published = publish(capsys, folder, "ours")
    names = [f"{name}.json" for name in FILES]
    result = scored(
        capsys, *names, "--corpus", "corpus.parquet", "--against", str(published), "--out", "out"
    )
    assert [row["label"] for row in result["rows"]] == ["p/run/xe", *FILES]
    assert result["images"] == 110
    first = read_image_scores(folder / "out" / "ours", "test")  # the same captions
    family = []
    for row in result["rows"][1:]:
        own = read_image_scores(folder / "out" / row["label"], "test")
        assert row["signature"] == read_metrics(folder / "out" / row["label"]).signature
        for metric, cell in row["scores"].items():
            assert cell["score"] == read_metrics(folder / "out" / row["label"]).scores[metric]
            assert cell["low"] <= cell["image_mean"] <= cell["high"]
            assert np.isclose(cell["image_mean"], own[metric].mean())
            paired = cell["paired"]
            pair = (floored(metric, own[metric]), floored(metric, first[metric]))
            if row["label"] == "ours":
                assert paired["p"] is None
                assert cell["difference"] == 0
                continue
            assert np.isclose(paired["p"], stats.ttest_rel(*pair).pvalue)
            family.append((paired["p"], paired["p_holm"]))
    assert result["comparisons"] == len(family) == 12
    ranked, largest = sorted(family), 0.0
    for rank, (p, adjusted) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        assert np.isclose(adjusted, largest)


def test_the_table_is_the_same_in_all_formats(capsys):
    words = ("ours.json", "shuffled.json", "--corpus", "corpus.parquet")
    result = scored(capsys, *words)
    cell = result["rows"][1]["scores"]["CIDEr"]
    shown = [f"{100 * cell['score']:.1f}", f"{100 * cell['difference']:+.2f}"]
    for form in ("markdown", "latex"):
        text = scored(capsys, *words, form=form)
        for number in shown:
            assert number in text.replace("$-$", "-"), (form, number)
        for row in result["rows"]:
            assert row["label"] in text
            assert row["signature"].partition("|captions:outside@")[2][:8] in text


def test_one_file_has_intervals_and_no_comparison(capsys):
    result = scored(capsys, "ours.json", "--corpus", "corpus.parquet", "--out", "out")
    assert not any("paired" in cell for cell in result["rows"][0]["scores"].values())
    assert result["comparisons"] == 0
    assert "Holm" not in scored(capsys, "ours.json", "--corpus", "corpus.parquet", form="markdown")


def test_a_table_without_any_score_says_why(capsys, monkeypatch):
    def gap():
        return Gap("not for now")

    monkeypatch.setattr("recap.metrics.spice.spice_models_missing", gap)
    words = [
        "score",
        "ours.json",
        "--dataset",
        "balls",
        "--corpus",
        "corpus.parquet",
        "--metrics",
        "SPICE",
    ]
    for form in ("json", "markdown", "latex"):
        main([*words, "--format", form])
        assert "not for now" in capsys.readouterr().out


def test_the_folder_of_a_run_or_of_an_earlier_call_is_the_first_row(capsys, folder):
    scored(capsys, "ours.json", "--corpus", "corpus.parquet", "--out", "results/p/scores/run/xe")
    for against in ("results/p/scores/run/xe", "results/p/runs/run/xe"):
        result = scored(capsys, "shuffled.json", "--corpus", "corpus.parquet", "--against", against)
        assert [row["label"] for row in result["rows"]] == [against.partition("p/")[2], "shuffled"]
        assert result["comparisons"] == 6


def test_a_first_row_of_other_references_images_or_tokens_is_refused(capsys, folder, monkeypatch):
    published = publish(capsys, folder, "ours")
    corpus(folder / "other" / "corpus.parquet", change="s")
    words = [
        "score",
        "shuffled.json",
        "--dataset",
        "balls",
        "--metrics",
        "CIDEr",
        "--against",
        str(published),
    ]
    with refused(MetricError, published, "reference captions", "other/corpus.parquet"):
        run(*words, "--corpus", "other/corpus.parquet")
    with refused(MetricError, "p/run/xe", "shuffled", "images is"):
        run(*words, "--corpus", "corpus.parquet", "--split", "val")
    # no hash holds the signature
    text = gzip.decompress(published.read_bytes()).replace(b"tok:simple", b"tok:ptb")
    published.write_bytes(gzip.compress(text))
    with refused(
        MetricError, "p/run/xe", "shuffled", "tok is 'ptb' in one and 'simple' in the other"
    ):
        run(*words, "--corpus", "corpus.parquet")
    with refused(MissingFile, "published/p", "metrics.json"):
        run(*words[:-1], "published/p", "--corpus", "corpus.parquet")


def test_two_files_of_one_name_are_told_apart_by_their_folders(capsys, folder):
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "ours.json").write_text(json.dumps(FILES["ours"]))
    words = ("a/ours.json", "b/ours.json", "--corpus", "corpus.parquet", "--out", "out")
    assert [row["label"] for row in scored(capsys, *words)["rows"]] == [
        "a/ours.json",
        "b/ours.json",
    ]
    assert (
        read_metrics(folder / "out" / "b_ours.json").scores
        == read_metrics(folder / "out" / "a_ours.json").scores
    )


def run(*words):
    """Run a command, and let what it refuses pass."""
    from recap.cli import build_parser

    arguments = build_parser().parse_args(words)
    arguments.function(arguments)
