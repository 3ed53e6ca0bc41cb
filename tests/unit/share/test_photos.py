"""Photos as people name them, odd files among them, and captions as they are written."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.commands import printed
from helpers.refusals import refused
from recap.cli import main
from recap.core.errors import DataError
from recap.share.captioner import (
    Caption,
    FailedPhoto,
    PhotoCaptions,
    comma_separated,
    json_lines,
    pretty,
)
from recap.share.photos import find_photos, read_photo

pytestmark = pytest.mark.seconds

RAMP = np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (48, 1))


def odd_files(folder):
    """Return files that must be captioned, and those that cannot be."""
    photo = Image.fromarray((RAMP // 257).astype(np.uint8)).convert("RGB")
    photo.convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray(RAMP).save(folder / "deep.png")
    frames = [photo.transpose(Image.Transpose.ROTATE_180), photo]
    for ending in ("gif", "webp"):
        photo.save(folder / f"moving.{ending}", save_all=True, append_images=frames, duration=50)
    photo.convert("RGBA").save(folder / "glass.png")
    good = ["cmyk.jpg", "deep.png", "moving.gif", "moving.webp", "glass.png"]
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("no picture")
    (folder / "cut.png").write_bytes((folder / "deep.png").read_bytes()[:90])
    Image.new("1", (20_000, 20_000)).save(folder / "huge.png")
    (folder / "folder.jpg").mkdir()
    bad = ["empty.jpg", "text.jpg", "cut.png", "huge.png", "folder.jpg", "missing.jpg"]
    return good, bad


def test_odd_files_are_captioned_or_named(captioner, tmp_path):
    good, bad = odd_files(tmp_path)
    names = [name for pair in zip(bad, [*good, good[0]], strict=True) for name in pair]
    outcome = list(captioner.stream([tmp_path / name for name in names], batch_size=4))
    for name, result in zip(names, outcome, strict=True):
        assert result.photo == str(tmp_path / name)
        if name in bad:
            assert isinstance(result, FailedPhoto)
            assert result.reason.startswith(result.photo) and "BytesIO" not in result.reason
        else:
            assert isinstance(result, PhotoCaptions) and result.caption
    with refused(DataError, "empty.jpg"):
        captioner(tmp_path / "empty.jpg")


def test_a_file_of_the_kernel_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("read"))
    with refused(DataError, "x.png", "is empty"):
        read_photo("/proc/self/environ", "x.png")


def test_arrays_whose_meaning_is_not_certain_are_refused(captioner):
    shapes = ((4, 4, 2), (0, 4, 3), (4,))
    for values in (
        np.zeros((4, 4, 3)),
        np.zeros((4, 4), bool),
        *(np.zeros(shape, np.uint8) for shape in shapes),
    ):
        with refused(DataError, "array 1", "uint8 [height, width, 3]"):
            captioner(values)
    with refused(DataError, "picture 1", "dict"):
        captioner({})


def test_a_photo_that_lies_on_its_side_is_turned(tmp_path):
    upright = Image.fromarray((RAMP // 257).astype(np.uint8)).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it a quarter to the right
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "phone.png", exif=exif)
    assert read_photo(tmp_path / "phone.png", "phone").tobytes() == upright.tobytes()
    assert read_photo(Image.open(tmp_path / "phone.png"), "phone").tobytes() == upright.tobytes()


def test_folders_and_patterns_stand_for_their_pictures(tmp_path):
    (tmp_path / "below").mkdir()
    for name in ("b.jpg", "a.PNG", ".hidden.jpg", "notes.txt", "below/c.webp", "odd[1].jpg"):
        (tmp_path / name).write_bytes(b"x")
    files, left_out = find_photos([tmp_path])
    assert [path.name for path in files] == ["a.PNG", "b.jpg", "odd[1].jpg"]
    assert left_out == 3
    deep, _ = find_photos([f"{tmp_path}/**/*.[jw]*", tmp_path / "b.jpg", tmp_path / "odd[1].jpg"])
    assert sorted(path.name for path in deep) == ["b.jpg", "c.webp", "odd[1].jpg"]
    assert find_photos(["no/such*.jpg", "gone.jpg"])[0] != []


EVIL = PhotoCaptions(
    "=cmd()\x1b[2J.jpg", (Caption("@sum a, b", -1.5, -1.5), Caption("b", -2.0, -2.0))
)


def test_output_runs_no_formula_and_moves_no_cursor():
    rows = list(csv.reader("".join(comma_separated([EVIL])).splitlines()))
    assert rows[0] == ["file", "rank", "caption", "log_probability"]
    assert rows[1] == ["'=cmd() [2J.jpg", "1", "'@sum a, b", "-1.5"] and len(rows) == 3
    assert "\x1b" not in "".join(pretty([EVIL]))
    (line,) = json_lines([EVIL])
    assert json.loads(line)["file"] == EVIL.photo and "\x1b" not in line
    assert [row["caption"] for row in json.loads(line)["n_best"]] == ["@sum a, b", "b"]


def test_the_command_captions_what_it_can_names_the_rest_and_ends_with_1(
    results, photos, tmp_path, capsys, recwarn
):
    # between Pillow's warning and its error
    Image.new("1", (12_000, 9_000)).save(tmp_path / "bad.png")
    files = [str(path) for path in photos.values()]
    out = tmp_path / "captions.csv"
    words = [
        "caption",
        *files,
        str(tmp_path / "bad.png"),
        "--run",
        str(results.folder),
        "--device",
        "cpu",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--format", "csv", "--n-best", "2", "--out", str(out)])
    assert ended.value.code == 1
    streams = capsys.readouterr()
    assert streams.out == "" and f"{tmp_path}/bad.png: has 12000 x 9000 pixels" in streams.err
    assert "1 of 7 photos" in streams.err and not recwarn.list
    rows = list(csv.DictReader(out.open()))
    assert [row["file"] for row in rows] == [name for name in files for _ in range(2)]
    text = printed(capsys, "caption", files[0], "--run", results.run, "--device", "cpu")
    assert text == f"{files[0]}: {rows[0]['caption']}\n"


def test_the_command_draws_captions_and_writes_all_with_their_log_probabilities(
    results, photos, capsys
):
    path = str(next(iter(photos.values())))
    words = [
        "caption",
        path,
        "--run",
        results.run,
        "--device",
        "cpu",
        "--sample",
        "3",
        "--seed",
        "2",
    ]
    drawn = json.loads(printed(capsys, *words, "--temperature", "2", "--format", "jsonl"))
    assert (
        len(drawn["samples"]) == 3
        and drawn["caption"] == drawn["samples"][0]["caption"]
        and "n_best" not in drawn
    )
    lines = printed(capsys, *words, "--temperature", "2").splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines[1:]] == [
        each["caption"] for each in drawn["samples"]
    ]
    with pytest.raises(SystemExit):
        main([*map(str, words), "--beam", "2"])
    assert "sample: draws 1 or more captions, without a search" in capsys.readouterr().err


def test_views_together_are_one_line_and_the_count_that_was_trained_with_is_named(
    results, photos, capsys
):
    files = [str(path) for path in photos.values()][:2]
    main(
        [
            "caption",
            "--together",
            *files,
            "--run",
            str(results.run),
            "--format",
            "jsonl",
            "--device",
            "cpu",
        ]
    )
    streams = capsys.readouterr()
    assert json.loads(streams.out)["file"] == " + ".join(files)
    assert "trained with 1 pictures an example, and is given 2" in streams.err
