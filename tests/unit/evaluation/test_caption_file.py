"""A file of captions is scored as the captions of a run are,
and `recap score` prints what comes out."""

import json

import pytest

from recap.cli import main
from recap.core.hashing import parse_signature
from recap.data.corpus import Caption, write_corpus
from recap.evaluation.caption_file import score_file
from recap.metrics.scores import evaluate_captions
from recap.settings.recipes import DecodingSettings, OutsideCaptions
from recap.statistics.scores import read_captions, read_image_scores, read_metrics

pytestmark = [pytest.mark.seconds, pytest.mark.usefixtures("no_java")]

METRICS = ["BLEU", "ROUGE-L", "CIDEr"]
REFERENCES = {
    i: [f"a {color} ball lies on the grass", f"{color} ball"]
    for i, color in enumerate(("red", "blue", "green"))
}
SAID = {0: "a red ball", 1: "a blue dog on the grass", 2: "a green ball lies on the grass"}


@pytest.fixture
def corpus(tmp_path):
    rows = [(i, text) for i, texts in REFERENCES.items() for text in texts]
    captions = (
        Caption(i, f"{i}.png", "test", number, text, text.split())
        for number, (i, text) in enumerate(rows)
    )
    path = tmp_path / "results" / "p" / "data" / "scenes" / "corpus.parquet"
    path.parent.mkdir(parents=True)
    write_corpus(captions, path, dataset="scenes", kind="test", source_sha256="0" * 64)
    return path


@pytest.fixture
def captions(tmp_path):
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps([{"image_id": i, "caption": text} for i, text in SAID.items()]))
    return path


def test_captions_from_a_file_get_the_scores_that_they_get_as_those_of_a_run(
    corpus, captions, tmp_path
):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    score_file(captions=captions, corpus=corpus, split="test", metrics=METRICS, out=theirs)
    evaluate_captions(
        references=REFERENCES,
        hypotheses=SAID,
        metrics=METRICS,
        split="test",
        split_hash=parse_signature(read_metrics(theirs).signature)["split"].partition("@")[2],
        decoding=DecodingSettings(),
        out=ours,
    )
    assert read_metrics(theirs).scores == read_metrics(ours).scores
    assert read_captions(theirs, "test") == read_captions(ours, "test") == SAID
    for name, values in read_image_scores(ours, "test").items():
        assert values.tolist() == read_image_scores(theirs, "test")[name].tolist()
    assert isinstance(read_metrics(theirs).decoding, OutsideCaptions)
    fields = [parse_signature(read_metrics(folder).signature) for folder in (ours, theirs)]
    assert fields[1].pop("captions").startswith("outside@")
    assert fields[1] == {
        key: value for key, value in fields[0].items() if key not in ("beam", "len", "lp")
    }


def test_equal_captions_have_one_signature_in_whatever_form_they_come(corpus, tmp_path):
    files = {
        "list.json": json.dumps([{"image_id": i, "caption": text} for i, text in SAID.items()]),
        "reversed.json": json.dumps(
            [{"caption": SAID[i], "image_id": i} for i in reversed(SAID)], indent=2
        ),
        "rows.csv": "image_id,caption\n" + "".join(f"{i},{text}\n" for i, text in SAID.items()),
        "other.json": json.dumps({**SAID, 2: "a ball"}),
    }
    signatures = []
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        score_file(
            captions=tmp_path / name,
            corpus=corpus,
            split="test",
            metrics=["BLEU"],
            out=tmp_path / "out",
        )
        signatures.append(read_metrics(tmp_path / "out").signature)
    assert signatures[0] == signatures[1] == signatures[2] != signatures[3]


def test_the_command_finds_the_corpus_prints_intervals_and_warns_of_few_images(
    corpus, captions, tmp_path, monkeypatch, capsys
):
    (tmp_path / "params" / "datasets").mkdir(parents=True)
    (tmp_path / "params" / "datasets" / "scenes.yaml").write_text(
        "kind: csv\ncaptions: c.csv\nimages: [photos]\n"
    )
    monkeypatch.chdir(tmp_path)
    main(["score", "theirs.json", "--dataset", "scenes", "--metrics", *METRICS])
    said = capsys.readouterr()
    assert "of 3 images, fewer than 100" in said.err
    assert "Signature: " in said.out and "METEOR" not in said.out
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in said.out.splitlines()
        if line.startswith("|")
    ]
    numbers = {row[1]: row[rows[0].index("ROUGE-L")] for row in rows}
    low, _, high = numbers["95 % interval"].partition(" to ")
    assert float(low) < float(numbers["score"]) == float(numbers["image mean"]) < float(high)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["params", "results", "theirs.json"]
    main(["score", "theirs.json", "--dataset", "scenes", "--metrics", "CIDEr", "--out", "out"])
    assert read_metrics(tmp_path / "out").scores["CIDEr"] is not None
