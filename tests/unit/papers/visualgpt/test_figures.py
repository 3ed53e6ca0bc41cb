"""VisualGPT's figures: gates by the equations, scores of words,
and parts of speech of captions and WikiText."""

import csv
import math
import random
from dataclasses import replace

import pytest
import torch
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import ConfigError, DamagedData, DataError, MissingData
from recap.data.corpus import Caption, write_corpus
from recap.data.vocabulary import UNK, Vocabulary, load_byte_pairs
from recap.evaluation.figures import DrawnModels, write_figure
from recap.papers.visualgpt import figures
from recap.papers.visualgpt.figures import CaptionGates, pieces_of_words, write_gates
from recap.papers.visualgpt.model import gates_above
from recap.papers.visualgpt.settings import PartsOfSpeechFigure
from recap.settings.figures import AttentionFigure
from rehearsal.hub import write_byte_pairs

pytestmark = pytest.mark.seconds

WORDS = ["a", "dog", "and", "two", "<b>cats</b>", "run", "on", "$5", "grass", "=1+1"]


@pytest.fixture
def captions():
    """Captions whose word number n has the visual gate 0.05 n in the last of three layers."""
    numbers = random.Random(0)

    def caption(image):
        words = [*WORDS, WORDS[image % 5]]
        last = [0.05 * WORDS.index(word) for word in words]
        visual = [[numbers.random(), numbers.random(), gate] for gate in last]
        return CaptionGates(
            image, words, visual, [[1 - value for value in layers] for layers in visual]
        )

    return [caption(image) for image in range(8)]


HEADING = "Gates of VisualGPT $x$  |  Demonstration: small"


def test_scores_are_normalized_over_all_captions(captions, tmp_path):
    out = {name: tmp_path / name for name in ("gates.png", "gates.csv")}
    write_gates(captions, heading=HEADING, out=out)
    rows = list(csv.DictReader(out["gates.csv"].open()))
    scores = {row["word"]: float(row["visual_score"]) for row in rows}
    assert scores == pytest.approx(
        {(f"'{w}" if w[0] == "=" else w): n / 9 for n, w in enumerate(WORDS)}
    )
    assert [row["word"] for row in rows][-1] == "a"
    assert {row["occurrences"] for row in rows} == {"8", "9", "10"}
    with Image.open(out["gates.png"]) as figure:
        assert figure.width == 1350


def test_a_word_has_one_gate_whether_it_is_one_token_or_several(tmp_path):
    write_byte_pairs(tmp_path, ["a dog on"] * 3, pieces=270)
    pairs = load_byte_pairs(tmp_path.name, inputs=tmp_path.parent, max_length=40)
    tokens = [*pairs.encode(["a", "surfer", "on"]), UNK]
    words = pieces_of_words(pairs, tokens)
    assert [pairs.decode(tokens[word]) for word in words] == ["a", "surfer", "on", "<unk>"]
    assert words[1].stop - words[1].start > 2
    assert pieces_of_words(Vocabulary(["a", "dog"], {"max_length": 9}), [4, 5, 4]) == [
        slice(0, 1),
        slice(1, 2),
        slice(2, 3),
    ]


def test_the_gates_are_those_of_equations_5_and_6():
    states = torch.tensor([-3.0, -1.0, 0.0, 1.0, 3.0])
    visual, language = gates_above(states.sigmoid(), tau=0.2, normalized=False)
    low, high = (1 / (1 + math.exp(-x)) for x in (1.0, 3.0))
    assert visual.tolist() == pytest.approx([0, 1 - low, 0.5, low, high])
    assert language.tolist() == pytest.approx([high, low, 0.5, 1 - low, 0])
    visual, language = gates_above(states[[0, 1, 4]].sigmoid(), tau=0.2, normalized=True)
    assert visual.tolist() == pytest.approx([0, 1 - low, 1]) and (
        visual + language
    ).tolist() == pytest.approx([1, 1, 1])


def test_a_figure_of_models_without_models_is_refused(tmp_path):
    models = DrawnModels(
        {}, corpus=tmp_path, vocabulary=tmp_path, features=[], image_roots=[tmp_path], heading=""
    )
    with refused(ConfigError, "attention", "--runs"):
        write_figure(AttentionFigure(kind="attention"), models, tmp_path / "mine")


ARTICLE = (
    " \n = Valkyria Chronicles = \n \n Bob saw a well @-@ known <unk> . It was Bob 's dog . \n"
)
FIGURE = {"kind": "parts_of_speech", "text": "wiki.tokens", "title": "Wiki $x$ <b>"}


def by_lexicon(lists):
    tags = {
        "a": "DT",
        "dog": "NN",
        "saw": "VBD",
        "was": "VBZ",
        "well-known": "JJ",
        "it": "PRP",
        "bob's": "NNP",
    }
    return [
        [tags.get(word.lower(), "NNP" if word.istitle() else "NN") for word in words]
        for words in lists
    ]


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


def test_shares_are_of_the_training_captions_and_of_the_sentences_of_the_text(models, tmp_path):
    write_figure(
        PartsOfSpeechFigure(**FIGURE, printed={"nouns": 75, "verbs": -14}), models, tmp_path / "t"
    )
    rows = {
        row["part_of_speech"]: row
        for row in csv.DictReader((tmp_path / "t_parts_of_speech.csv").open())
    }
    shares = {
        part: (float(row["captions_percent"]), float(row["text_percent"]))
        for part, row in rows.items()
    }
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
    for content, error in (
        (b"\xff\xfe", DamagedData),
        (b" = Title = \n", DataError),
        (None, MissingData),
    ):
        text.unlink() if content is None else text.write_bytes(content)
        with refused(error, text):
            write_figure(figure, models, tmp_path / "t")
    assert not list(tmp_path.glob("t_*"))
