"""The page of `recap caption --explain`:
a picture for each word, in one file, whatever texts it holds."""

import base64
import io
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from recap.cli import main
from recap.models.explained import Note
from recap.share.explain import Explanation, explain, write_explanations
from recap.tables.contact_sheet import grid_boxes

pytestmark = pytest.mark.seconds


def pictures(page):
    result = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(each)))) for each in result]


def test_each_word_of_the_caption_has_a_picture(captioner, photo):
    result = explain(captioner, photo)
    assert result.caption == captioner(photo) and " ".join(result.words) == result.caption
    assert len(result.boxes) == 4 and len(result.weights) == len(result.words)
    assert [sum(row) for row in result.weights] == pytest.approx([1] * len(result.words), abs=1e-5)


def test_the_command_writes_the_page_and_the_captions(results, photo, captioner, tmp_path, capsys):
    shutil.copy(photo, tmp_path / "<img src=x onerror=alert(1)>.png")
    (tmp_path / "broken.png").write_text("no picture")
    page = tmp_path / "page.html"
    with pytest.raises(SystemExit) as stopped:
        main(["caption", str(tmp_path), "--run", str(results.folder), "--explain", str(page)])
    assert stopped.value.code == 1
    written, caption = page.read_text(), captioner(photo)
    assert caption in capsys.readouterr().out and f"<h2>{caption}</h2>" in written
    assert len(pictures(written)) == 1 + len(caption.split())
    assert "<img src=x" not in written and "&lt;img src=x" in written
    assert not re.findall(r'(?:src|href)="(?!data:)', written)


def test_the_place_that_was_looked_at_is_bright(tmp_path):
    white = Image.new("RGB", (64, 64), (255, 255, 255))
    notes = [Note("gate <b>", values=[0.25]), Note("clusters", lines=["(a </li> b)"])]
    each = Explanation(
        "photo", white, "a </h2>", ["<a>"], grid_boxes(2), [[0.0, 0.0, 0.0, 1.0]], notes
    )
    write_explanations([each], "run <x>", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    _, shown = pictures(page)
    assert shown.shape == (180, 180, 3)
    assert shown[120:165, 120:165].mean() > 200 > 100 > shown[12:48, 12:48].mean()
    assert "width:25%" in page and "gate &lt;b&gt;: 0.25" in page and "(a &lt;/li&gt; b)" in page
    assert (
        "&lt;a&gt;" in page and "a &lt;/h2&gt;" in page and "<title>run &lt;x&gt;</title>" in page
    )
