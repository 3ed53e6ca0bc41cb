"""Figures of VisualGPT's gates: scores of words, parts of speech, and pictures of the asked size."""

import csv
import json
import random

import pytest
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from recap.data.files.images import ImageSource
from recap.data.vocabulary import SPECIAL_PIECES, UNK, Vocabulary, load_byte_pairs
from recap.papers.visualgpt.figures import CaptionGates, pieces_of_words, write_gates, write_words

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
        return CaptionGates(image, words, visual, [[1 - value for value in layers] for layers in visual])

    return [caption(image) for image in range(8)]


HEADING = "Gates of VisualGPT $x$  |  Scale of this run: small"


def test_scores_are_normalized_over_all_captions(captions, tmp_path):
    out = {name: tmp_path / name for name in ("gates.png", "gates.csv")}
    write_gates(captions, heading=HEADING, out=out)
    rows = list(csv.DictReader(out["gates.csv"].open()))
    scores = {row["word"]: float(row["visual_score"]) for row in rows}
    assert scores == pytest.approx({(f"'{w}" if w[0] == "=" else w): n / 9 for n, w in enumerate(WORDS)})
    assert [row["word"] for row in rows][-1] == "a"
    assert {row["occurrences"] for row in rows} == {"8", "9", "10"}
    with Image.open(out["gates.png"]) as figure:
        assert figure.width == 1350


def test_the_sheet_has_a_row_for_each_caption(captions, tmp_path):
    Image.new("RGB", (40, 20), (0, 200, 0)).save(tmp_path / "a.png")
    files, sheets = {caption.image_id: "a.png" for caption in captions}, []
    for count in (3, 5):
        png = tmp_path / f"{count}.png"
        write_words(captions, range(count), images=ImageSource([tmp_path]), files=files, heading=HEADING, png=png)
        with Image.open(png) as sheet:
            sheets.append(sheet.size)
            assert (0, 200, 0) in {color for _, color in sheet.convert("RGB").getcolors(1 << 20)}
    assert sheets[1] == (sheets[0][0], sheets[0][1] + 2 * 200)


def test_a_word_has_one_gate_whether_it_is_one_token_or_several(tmp_path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(["a dog on"] * 3, trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet))
    tokenizer.model.save(str(tmp_path))
    numbers = json.loads((tmp_path / "vocab.json").read_text())
    numbers |= {piece: len(numbers) + index for index, piece in enumerate(dict.fromkeys(SPECIAL_PIECES))}
    (tmp_path / "vocab.json").write_text(json.dumps(numbers))
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
