"""Captions for a server are searched in pieces,
and an interrupted search continues after its last piece."""

import json

import pyarrow.parquet as pq
import pytest

from recap.data.corpus import Caption, write_corpus
from recap.evaluation import decode
from recap.settings.params import validate
from recap.settings.recipes import EvaluationSpec, Execution

pytestmark = pytest.mark.seconds
NAME = "captions.test2014.json"


@pytest.fixture
def caption(results, tmp_path, monkeypatch):
    """Return a function that captions the six test pictures,
    two a piece, and returns what was searched and written."""
    monkeypatch.setattr(decode, "PIECE", 2)
    rows = [
        row
        for row in pq.read_table(results.data / "corpus.parquet").to_pylist()
        if row["split"] == "test"
    ]
    shown = [Caption(**{**row, "file": f"test2014/{row['file']}"}) for row in rows]
    write_corpus(shown, tmp_path / "c.parquet", dataset="tiny", kind="scenes", source_sha256="0")

    def run(out=tmp_path / NAME, *, fails_at=None, empty=()):
        searched = []

        def search(model, features, image_ids, *settings, **options):
            if fails_at == len(searched):
                raise KeyboardInterrupt
            searched.append(list(image_ids))
            candidates = decode_candidates(model, features, image_ids, *settings, **options)
            for image, rank in empty:
                if image in candidates:
                    candidates[image][rank] = candidates[image][rank]._replace(tokens=[])
            return candidates

        spec = validate(EvaluationSpec, {"evaluation": {"beam": 2, "max_length": 9}}, "spec")
        asked = {
            "spec": spec,
            "execution": Execution(device="cpu", threads=1),
            "part": "test2014",
            "partial": True,
        }
        files = {"corpus": tmp_path / "c.parquet", "vocabulary": results.data / "vocabulary.json"}
        with monkeypatch.context() as patch:
            patch.setattr(decode, "decode_candidates", search)
            decode.caption_part(
                **asked, **files, features=[results.store], model=[results.run], out=out
            )
        return searched, json.loads(out.read_text())

    decode_candidates = decode.decode_candidates
    return run


def test_an_interrupted_search_continues_after_its_last_finished_piece(caption, tmp_path):
    pieces, whole = caption(tmp_path / "whole.json")
    assert [row["image_id"] for row in whole] == sum(pieces, []) and len(pieces) == 3
    with pytest.raises(KeyboardInterrupt):
        caption(fails_at=2)
    assert not (tmp_path / NAME).exists()
    assert caption() == (pieces[2:], whole)
    assert not list(tmp_path.glob(".captions*"))


def test_the_best_caption_that_is_not_empty_is_written_and_its_image_is_named(
    caption, tmp_path, capsys
):
    pieces, whole = caption(tmp_path / "whole.json")
    first, second, *others = sum(pieces, [])
    _, found = caption(empty=[(first, 0), (second, 0), (second, 1)])
    texts = {row["image_id"]: row["caption"] for row in found}
    before = {row["image_id"]: row["caption"] for row in whole}
    assert texts[second] == "." and texts[first].strip(" .") and texts[first] != before[first]
    assert [texts[image] for image in others] == [before[image] for image in others]
    assert f"2 of 6 captions are empty, of images {first}, {second};" in capsys.readouterr().err
