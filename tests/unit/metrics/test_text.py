"""Sanitizing, signatures and the simple tokenizer."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recap.metrics.base import sanitize
from recap.metrics.coco import simple_tokenize

ANY_TEXT = st.text(alphabet=st.characters(), max_size=40)


@given(ANY_TEXT)
@example("a\rb\nc\vd\fe\x85f\u2028g\u2029h\x00i\x1cj")
@example("a ||||| b")
@example("\ud83d half an emoji")
def test_a_sanitized_caption_is_one_writable_line(caption):
    clean = sanitize(caption)
    assert len(clean.splitlines()) <= 1
    assert "|||" not in clean and "\x00" not in clean
    assert clean.encode("utf-8").decode("utf-8") == clean
    assert sanitize(clean) == clean


@pytest.mark.parametrize("caption", ["A dog's ball.", "un café 😀 | |", "", "two  spaces stay"])
def test_ordinary_captions_stay(caption):
    assert sanitize(caption) == caption


def test_words_on_both_sides_of_a_line_break_stay_apart():
    assert sanitize("a dog\r\nruns|||fast\u2028now").split() == ["a", "dog", "runs", "fast", "now"]


@given(st.lists(ANY_TEXT, max_size=8))
def test_the_simple_tokenizer_keeps_the_number_of_captions(captions):
    tokenized = simple_tokenize(captions)
    assert len(tokenized) == len(captions)
    assert all(len(line.splitlines()) <= 1 for line in tokenized)


def test_the_simple_tokenizer_drops_punctuation_and_case_and_keeps_marks_with_their_letters():
    assert simple_tokenize(["A Dog's ball, well-worn!", "..."]) == ["a dog's ball well-worn", ""]
    assert simple_tokenize(["कुत्ता दौड़ रहा है।", "Cafe\u0301"]) == ["कुत्ता दौड़ रहा है", "café"]
