"""VisualGPT's figures of parts of speech: their shares in captions and in WikiText, and their visual scores."""

import csv
from dataclasses import replace

import pytest
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import ConfigError, DamagedData, DataError, MissingData
from recap.data.corpus import Caption, write_corpus
from recap.evaluation.figures import DrawnModels, write_figure
from recap.papers.visualgpt import figures
from recap.papers.visualgpt.figures import CaptionGates, write_part_scores
from recap.papers.visualgpt.settings import PartsOfSpeechFigure

pytestmark = pytest.mark.seconds

ARTICLE = " \n = Valkyria Chronicles = \n \n Bob saw a well @-@ known <unk> . It was Bob 's dog . \n"
FIGURE = {"kind": "parts_of_speech", "text": "wiki.tokens", "title": "Wiki $x$ <b>"}


def by_lexicon(lists):
    tags = {"a": "DT", "dog": "NN", "saw": "VBD", "was": "VBZ", "well-known": "JJ", "it": "PRP", "bob's": "NNP"}
    return [[tags.get(word.lower(), "NNP" if word.istitle() else "NN") for word in words] for words in lists]


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "tag", by_lexicon)
    rows = [
        Caption(1, "1.jpg", "train", 1, "A dog saw a dog.", ["a", "dog", "saw", "a", "dog"]),
        Caption(2, "2.jpg", "test", 2, "It was it", ["it", "was", "it"]),
    ]
    write_corpus(rows, tmp_path / "corpus.parquet", dataset="mine", kind="csv", source_sha256="0")
    (tmp_path / "wiki.tokens").write_text(ARTICLE)
    return DrawnModels(
        {},
        corpus=tmp_path / "corpus.parquet",
        vocabulary=tmp_path / "v.json",
        features=[],
        image_roots=[],
        heading="Table $y$  |  Scale <i>",
        texts=[tmp_path / "wiki.tokens"],
    )


def table(path):
    return {row["part_of_speech"]: row for row in csv.DictReader(path.open())}


def test_shares_are_of_the_training_captions_and_of_the_sentences_of_the_text(models, tmp_path):
    write_figure(PartsOfSpeechFigure(**FIGURE, printed={"nouns": 75, "verbs": -14}), models, tmp_path / "t")
    rows = table(tmp_path / "t_parts_of_speech.csv")
    shares = {part: (float(row["captions_percent"]), float(row["text_percent"])) for part, row in rows.items()}
    assert shares == {  # of the text: Bob saw a well-known | It was Bob's dog
        "determiners": (40, 12.5),
        "nouns": (40, 12.5),
        "verbs": (20, 25),
        "adjectives": (0, 12.5),
        "pronouns": (0, 12.5),
        "proper nouns": (0, 25),
    }
    assert float(rows["nouns"]["captions_above_text_percent"]) == pytest.approx(220)
    assert (rows["verbs"]["printed_percent"], rows["pronouns"]["printed_percent"]) == ("-14.0", "")
    with Image.open(tmp_path / "t_parts_of_speech.png") as picture:
        assert picture.width == 1360


def test_a_text_that_is_missing_damaged_or_empty_is_refused(models, tmp_path):
    figure, (text,) = PartsOfSpeechFigure(**FIGURE), models.texts
    with refused(ConfigError, "parts_of_speech", "1 texts", "--texts"):
        write_figure(figure, replace(models, texts=[]), tmp_path / "t")
    for content, error in ((b"\xff\xfe", DamagedData), (b" = Title = \n", DataError), (None, MissingData)):
        text.unlink() if content is None else text.write_bytes(content)
        with refused(error, text):
            write_figure(figure, models, tmp_path / "t")
    assert not list(tmp_path.glob("t_*"))


@pytest.fixture
def captions():
    """Two words with the visual gates 0.2 and 0.7 in the last of two layers."""
    return [CaptionGates(image, ["a", "dog"], [[0.9, 0.2], [0.1, 0.7]], [[0.1, 0.8], [0.9, 0.3]]) for image in (1, 2)]


def test_visual_scores_of_a_part_of_speech_stand_beside_the_printed_ones(captions, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "tag", by_lexicon)
    out = {name: tmp_path / name for name in ("parts.png", "parts.csv")}
    write_part_scores(captions, printed={"nouns": 0.71, "verbs": 0.72}, heading="$x$ <b>", out=out)
    rows = table(out["parts.csv"])
    assert list(rows) == ["nouns", "determiners", "verbs"]
    assert rows["nouns"] == {"part_of_speech": "nouns", "words": "2", "visual_score": "1.0", "printed": "0.71"}
    assert (rows["determiners"]["words"], rows["determiners"]["visual_score"]) == ("2", "0.0")
    assert (rows["verbs"]["words"], rows["verbs"]["visual_score"], rows["determiners"]["printed"]) == ("0", "", "")
    with Image.open(out["parts.png"]) as picture:
        assert picture.width == 1360
