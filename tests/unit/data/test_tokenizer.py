import pytest
from hypothesis import given
from hypothesis import strategies as st

from recap.data.tokenizer import STOP, clean_tokens, one_line, tokenize, tokenize_report

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A black dog , running .", ["a", "black", "dog", "running"]),
        (
            "A man in a red t-shirt ca n't see .",
            ["a", "man", "in", "a", "red", "t", "shirt", "ca", "nt", "see"],
        ),
        ("five o'clock, FIVE o\u2019clock", ["five", "oclock", "five", "oclock"]),
        (
            "a dog\U0001f436\u200d\U0001f436runs\x00away\u2028now",
            ["a", "dog", "runs", "away", "now"],
        ),
        ("Cafe\u0301 Ünter_den Linden", ["café", "ünter", "den", "linden"]),
        ("कुत्ता दौड़ रहा है।", ["कुत्ता", "दौड़", "रहा", "है"]),
        ("நாய் ஓடுகிறது.", ["நாய்", "ஓடுகிறது"]),
        ("สุนัข วิ่ง", ["สุนัข", "วิ่ง"]),
        ("كِتَابٌ كَبِير", ["كِتَابٌ", "كَبِير"]),
        # a joiner in a word
        (
            "\u0dc1\u0dca\u200d\u0dbb\u0dd3 \u0dbd\u0d82\u0d9a\u0dcf",
            ["\u0dc1\u0dca\u0dbb\u0dd3", "\u0dbd\u0d82\u0d9a\u0dcf"],
        ),
        ("\u0130stanbul", ["i\u0307stanbul"]),
        ("two \u2764\ufe0f 1\ufe0f\u20e3 \u0301 dogs", ["two", "1", "dogs"]),
        (" .!? \U0001f525", []),
    ],
)
def test_words_are_lower_case_without_punctuation(caption, words):
    assert tokenize(caption) == words


@given(st.text(max_size=60))
def test_tokens_are_words_that_survive_a_second_pass(caption):
    words = tokenize(caption)
    assert all(
        word and word.isprintable() and not any(letter.isspace() for letter in word)
        for word in words
    )
    assert len(one_line(caption).splitlines()) <= 1


def test_one_line_turns_breaks_into_one_space_and_keeps_all_else():
    assert one_line("a\r\nb\u2028c\x85d\x0be\x0cf\x1cg") == "a b c d e f g"
    assert one_line("a \U0001f436\x00\tb") == "a \U0001f436\x00\tb"


def test_tokens_of_a_file_are_made_sane():
    assert clean_tokens(["A", "hot dog", "", "x\ny", "z\x00q"]) == [
        "a",
        "hot",
        "dog",
        "x",
        "y",
        "z",
        "q",
    ]
    assert clean_tokens(["n't", "&"]) == ["n't", "&"]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("Heart size normal. No effusion.", "heart size normal . no effusion ."),
        ("1. Lungs clear. 2. No XXXX pneumothorax.", "lungs clear . no xxxx pneumothorax ."),
        ("1) Lungs clear.  2) Stable", "lungs clear . stable ."),
        ("A 2.5 cm nodule; T8 to 12. Stable", "a 2.5 cm nodule t8 to 12 . stable ."),
        ("There are 2. Ribs intact", "there are 2 . ribs intact ."),
        (
            "No x-XXXX... Why? Patient's left-sided (old) scar!",
            "no x xxxx . why . patients left sided old scar .",
        ),
        ("PA/lateral\n\n views", "pa lateral views ."),
        (" . ?! ", ""),
        ("", ""),
    ],
)
def test_words_and_stops(report, words):
    assert tokenize_report(report) == words.split()


@given(st.text(max_size=80))
def test_stops_apart_the_words_are_those_of_captions_or_fewer(report):
    words = tokenize_report(report)
    assert all(word == word.strip() and word for word in words)
    assert words[:1] != [STOP]
    assert all((a, b) != (STOP, STOP) for a, b in zip(words, words[1:], strict=False))
    assert not words or words[-1] == STOP
    plain = [part for word in words if word != STOP for part in word.split(".")]
    assert len(plain) <= len(tokenize(report))


@given(st.lists(st.sampled_from(["heart", "normal", "no", "2.5", "xxxx", "."]), max_size=12))
def test_its_own_words_come_back(words):
    once = tokenize_report(" ".join(words))
    assert tokenize_report(" ".join(once).replace(" .", ".")) == once
