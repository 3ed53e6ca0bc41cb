"""Captions without references are searched in pieces, and an interrupted search goes on where it was."""

import json

import pytest

from recap.evaluation import unscored


@pytest.fixture(autouse=True)
def two_a_piece(monkeypatch):
    monkeypatch.setattr(unscored, "PIECE", 2)


class Search:
    def __init__(self, fails_at=None):
        self.asked = []
        self.fails_at = fails_at

    def __call__(self, ids):
        if self.fails_at in ids:
            raise KeyboardInterrupt
        self.asked.append(ids)
        return {image: f"caption {image}" for image in ids}


WHOLE = {image: f"caption {image}" for image in (1, 2, 3, 4, 5)}


def test_an_interrupted_search_goes_on_after_its_last_finished_piece(tmp_path):
    out = tmp_path / "captions.test2014.json"
    with pytest.raises(KeyboardInterrupt):
        unscored._in_pieces(list(WHOLE), Search(fails_at=5), out, "same")
    again = Search()
    captions, files = unscored._in_pieces(list(WHOLE), again, out, "same")
    assert captions == WHOLE and list(captions) == list(WHOLE)
    assert again.asked == [[5]] and len(files) == 3


@pytest.mark.parametrize("spoil", [lambda file: file.write_text("{"), lambda file: file.write_text("[]")])
def test_a_damaged_piece_is_searched_again(tmp_path, spoil):
    out = tmp_path / "captions.test2014.json"
    _, files = unscored._in_pieces(list(WHOLE), Search(), out, "same")
    spoil(files[0])
    again = Search()
    assert unscored._in_pieces(list(WHOLE), again, out, "same")[0] == WHOLE
    assert again.asked == [[1, 2]]


def test_pieces_of_another_model_are_not_taken(tmp_path):
    out = tmp_path / "captions.test2014.json"
    unscored._in_pieces(list(WHOLE), Search(), out, "one")
    again = Search()
    unscored._in_pieces(list(WHOLE), again, out, "other")
    assert again.asked == [[1, 2], [3, 4], [5]]
    assert json.loads((tmp_path / ".captions.test2014.0.json").read_text())["captions"] == ["caption 1", "caption 2"]
