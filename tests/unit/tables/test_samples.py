"""Sample captions as text, Markdown and contact sheet."""

import json

import pytest
from PIL import Image

from helpers.refusals import refused
from helpers.score_files import BASE, BETTER, make_table, write_scores
from recap.core.errors import DataError, MetricError
from recap.data.corpus import Caption, write_corpus
from recap.data.files.images import ImageSource, read_photo
from recap.plan.run import row_runs
from recap.tables.samples import RowCaption, Sample, draw_samples, write_samples

IDS = (11, 12, 13, 14)


@pytest.fixture
def world(tmp_path):
    """Scores of a table, a corpus and photos."""
    table = make_table()
    write_scores(tmp_path / "scores", table, [1, 2])
    captions = [
        Caption(i, f"{i}.png", "test", 2 * i + k, f"reference {k} of {i}", ["x"])
        for i in IDS
        for k in (0, 1)
    ]
    captions += [Caption(1, "1.png", "train", 1, "never shown", ["x"])]
    write_corpus(
        captions, tmp_path / "corpus.parquet", dataset="d", kind="scenes", source_sha256="0"
    )
    (tmp_path / "photos").mkdir()
    for image_id in IDS:
        Image.new("RGB", (40, 30), (image_id, 200, 90)).save(
            tmp_path / "photos" / f"{image_id}.png"
        )
    return tmp_path, table


def sheet(world, **changes):
    folder, table = world
    files = {
        "corpus_path": folder / "corpus.parquet",
        "image_roots": [folder / "photos"],
        "out": folder / "figures",
    }
    usual = {
        "name": "two",
        "table": table,
        "seeds": [1, 2],
        "scores_root": folder / "scores",
        "count": 3,
    }
    return write_samples(**files, **usual | changes)


def test_the_sheet_and_its_text_show_every_row_and_the_references(world):
    samples = sheet(world)
    folder = world[0] / "figures"
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS",
        "two_captions.md",
        "two_captions.png",
    ]
    text = (folder / "two_captions.md").read_text()
    assert len(samples) == 3 and len({sample.image_id for sample in samples}) == 3
    for sample in samples:
        # write_run lets a caption say its model folder: transformer@short or zodiac@short.
        assert [caption.text.split("@")[0] for caption in sample.captions] == [
            "transformer",
            "zodiac",
        ]
        assert all(caption.text.endswith(f"says {sample.image_id}") for caption in sample.captions)
        place = IDS.index(sample.image_id)
        expected = [100 * images["CIDEr"][place] for images in (BASE, BETTER)]
        assert [caption.cider for caption in sample.captions] == expected
        assert sample.references == [f"reference {k} of {sample.image_id}" for k in (0, 1)]
        assert f"image {sample.image_id}: {sample.file}" in text
    assert "4 tiny images instead of 5,000" in text and "(two_captions.png)" in text
    with Image.open(folder / "two_captions.png") as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1_000_000)}
    assert {(sample.image_id, 200, 90) for sample in samples} <= colours


def test_images_that_a_table_names_come_first_and_once(world):
    table = world[1].model_copy(update={"image_ids": [13, 11]})
    shown = [sample.image_id for sample in sheet(world, table=table, count=4)]
    assert shown[:2] == [13, 11] and sorted(shown) == list(IDS)
    with refused(MetricError, "two", "image_ids", "99"):
        sheet(world, table=table.model_copy(update={"image_ids": [99]}))


def test_images_may_be_named_by_a_reference_whatever_its_capitals(world, caplog):
    asked = ["Reference 1 of 13.", "no such caption", "reference 0 of 13"]
    table = world[1].model_copy(update={"image_captions": asked})
    shown = [sample.image_id for sample in sheet(world, table=table, count=4)]
    assert shown[0] == 13 and sorted(shown) == list(IDS)
    (line,) = [
        record.getMessage() for record in caplog.records if "image_captions" in record.getMessage()
    ]
    assert "'two'" in line and "'no such caption'" in line


def test_the_views_of_a_study_stand_side_by_side(tmp_path):
    for name, colour in (("a.png", (255, 0, 0)), ("b.png", (0, 0, 255))):
        Image.new("RGB", (40, 20), colour).save(tmp_path / name)
    photo = read_photo(ImageSource([tmp_path]), "a.png|b.png")
    assert photo.size == (80, 20)
    assert (photo.getpixel((39, 9)), photo.getpixel((40, 9))) == ((255, 0, 0), (0, 0, 255))


def test_the_draw_is_the_same_on_every_run_and_differs_between_tables(world):
    first = [sample.image_id for sample in sheet(world)]
    before = (world[0] / "figures" / "two_captions.png").read_bytes()
    assert [sample.image_id for sample in sheet(world)] == first
    assert (world[0] / "figures" / "two_captions.png").read_bytes() == before
    assert (
        len({tuple(s.image_id for s in sheet(world, name=f"t{n}", count=4)) for n in range(3)}) > 1
    )


def test_captions_of_other_images_are_refused(world):
    folder, table = world
    path = folder / "scores" / row_runs(table.rows[1], [1])[0].path / "captions.test.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:-1]))
    with refused(MetricError, "row 'zodiac'", "split 'test'"):
        sheet(world)
    assert not (folder / "figures").exists()


def test_a_missing_photo_is_named_and_nothing_is_written(world):
    (world[0] / "photos" / "12.png").unlink()
    with refused(DataError, "12.png"):
        sheet(world, count=4)
    assert not (world[0] / "figures").exists()


def test_control_characters_are_hidden_and_an_empty_caption_says_so(world):
    folder, table = world
    path = folder / "scores" / row_runs(table.rows[1], [1])[0].path / "captions.test.json"
    items = json.loads(path.read_text())
    items[0]["caption"], items[1]["caption"] = "red \x1b[31m dog", ""
    path.write_text(json.dumps(items))
    sheet(world, count=4)
    text = (folder / "figures" / "two_captions.md").read_text()
    assert "\x1b" not in text and "(empty caption)" in text
    assert text.count("- reference:") == 8
    assert "- **Transformer, CIDEr 10**: transformer@short says 11" in text


def test_a_caption_is_shown_for_each_phrase_that_a_row_says(world):
    folder, _ = world
    examples = {"row": "zodiac", "phrases": ["says 12", "in front of", "says 1", "ays 13"]}
    table = make_table(examples=examples)
    samples = sheet((folder, table), count=1)
    assert [(sample.image_id, sample.phrase) for sample in samples[1:]] == [(12, "says 12")]
    text = (folder / "figures" / "two_captions.md").read_text()
    assert (
        "a caption of ZoDIAC says, drawn among these. No caption of it says in front of, says 1, "
        "ays 13."
    ) in text
    assert "image 12, an example of \u201csays 12\u201d: 12.png" in text
    assert sheet((folder, table), count=1) == samples


def test_long_captions_stay_on_the_sheet(tmp_path):
    long = Sample(7, "7.png", [RowCaption("A row", "word " * 120)], ["reference " * 60, "W" * 300])
    short = Sample(8, "8.png", [RowCaption("A row", "")], ["short"])
    photos = [Image.new("RGB", (500, 20)), Image.new("RGB", (20, 500))]
    draw_samples([long, short], photos, tmp_path / "tall.png", title="A title", scale="scale " * 60)
    draw_samples([short, short], photos, tmp_path / "low.png", title="A title", scale="scale")
    tall, low = (Image.open(tmp_path / name) for name in ("tall.png", "low.png"))
    assert tall.height > low.height
    # A white margin all round: no text runs over the right or the lower edge.
    right = tall.crop((tall.width - 10, 0, tall.width, tall.height))
    below = tall.crop((0, tall.height - 5, tall.width, tall.height))
    assert right.getcolors() == [(10 * tall.height, (255, 255, 255))]
    assert below.getcolors() == [(5 * tall.width, (255, 255, 255))]
