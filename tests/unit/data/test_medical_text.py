import pytest
from hypothesis import given
from hypothesis import strategies as st

from recap.data.tokenizer import STOP, tokenize, tokenize_report

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("Heart size normal. No effusion.", "heart size normal . no effusion ."),
        ("1. Lungs clear. 2. No XXXX pneumothorax.", "lungs clear . no xxxx pneumothorax ."),
        ("1) Lungs clear.  2) Stable", "lungs clear . stable ."),
        ("A 2.5 cm nodule; T8 to 12. Stable", "a 2.5 cm nodule t8 to 12 . stable ."),
        ("There are 2. Ribs intact", "there are 2 . ribs intact ."),
        ("No x-XXXX... Why? Patient's left-sided (old) scar!", "no x xxxx . why . patients left sided old scar ."),
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
