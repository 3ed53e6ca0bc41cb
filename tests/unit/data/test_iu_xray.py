import csv
import tarfile
import zipfile

from helpers.refusals import refused
from helpers.xray_files import FINDINGS, SPEC, names, png, write_iu_xray
from recap.core.errors import DataError
from recap.data.corpus import Corpus, build_corpus
from recap.data.datasets import iu_xray
from recap.data.datasets.iu_xray import drawn
from recap.data.datasets.iu_xray_reports import Study
from recap.data.files.images import ImageSource
from recap.settings.datasets import IuXrayDataset


def build(inputs, out, **changes):
    build_corpus(name="iu_xray", spec={**SPEC, **changes}, inputs=inputs, out=out)
    return Corpus.read(out / "corpus.parquet")


def test_a_study_is_one_image_of_two_views_with_the_annotations_split(tmp_path):
    corpus = build(write_iu_xray(tmp_path / "in"), tmp_path / "out")
    assert {split: corpus.image_ids(split) for split in ("train", "val", "test")} == {
        "train": [1, 2, 3, 4, 5, 12],
        "val": [6, 7],
        "test": [8, 9],
    }
    assert corpus.views()[12] == [f"{name}.png" for name in names(12)[:2]]
    assert corpus.caption_id.tolist() == corpus.image_ids()
    assert corpus.captions("test")[8] == [f"{FINDINGS} Study 8."]


def test_captions_are_read_alone_without_pictures_and_views(tmp_path):
    inputs = write_iu_xray(tmp_path / "in")
    whole = build(inputs, tmp_path / "whole")
    settings = IuXrayDataset(**SPEC).captions_alone()
    for file in inputs.iterdir():
        if file.name not in settings.outside_files():
            file.unlink()
    build_corpus(name="iu_xray", spec=settings, inputs=inputs, out=tmp_path / "alone")
    alone = Corpus.read(tmp_path / "alone/corpus.parquet")
    assert len(list(inputs.iterdir())) == 2 and alone.captions("test") == whole.captions("test")


def test_image_paths_count_views_in_the_order_of_the_xml(tmp_path):
    def turned(content):
        content["train"][0]["image_path"].reverse()

    corpus = build(write_iu_xray(tmp_path / "in", annotated=turned), tmp_path / "out")
    assert corpus.views()[3] == [f"{name}.png" for name in reversed(names(3))]
    assert corpus.views()[1] == [f"{name}.png" for name in names(1)]


def test_pictures_are_packed_byte_by_byte_and_only_those_in_use(tmp_path):
    build(write_iu_xray(tmp_path / "in"), tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "out" / "images.zip") as archive:
        assert len(archive.namelist()) == 20
        assert archive.read(f"{names(1)[0]}.png") == png(0)
    assert ImageSource([tmp_path / "out" / "images.zip"]).open_rgb(f"{names(1)[1]}.png").size == (
        32,
        24,
    )


def test_folders_and_zips_give_the_same_corpus_as_archives(tmp_path):
    inputs = write_iu_xray(tmp_path / "in")
    with tarfile.open(inputs / "NLMCXR_reports.tgz") as archive:
        for member in archive:  # Python has `filter` of extractall from 3.11.4 on
            file = inputs / "NLMCXR_reports" / member.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.extractfile(member).read())
    with (
        tarfile.open(inputs / "NLMCXR_png.tgz") as archive,
        zipfile.ZipFile(inputs / "pictures.zip", "w") as copy,
    ):
        for member in archive:
            copy.writestr(f"pictures/{member.name}", archive.extractfile(member).read())
    build(inputs, tmp_path / "tgz")
    build(inputs, tmp_path / "other", reports="NLMCXR_reports", images=["pictures.zip"])
    assert (tmp_path / "tgz/corpus.parquet").read_bytes() == (
        tmp_path / "other/corpus.parquet"
    ).read_bytes()
    assert (tmp_path / "tgz/images.zip").read_bytes() == (
        tmp_path / "other/images.zip"
    ).read_bytes()


def test_every_report_and_picture_is_accounted_for(tmp_path, capsys):
    build(write_iu_xray(tmp_path / "in"), tmp_path / "out")
    lines = (tmp_path / "out" / "counts.md").read_text().splitlines()
    assert lines[0] == "- 14 reports refer to 26 pictures"
    assert lines[-2] == "- 10 studies in use (6 train, 2 val, 2 test), with 20 of the 26 pictures"
    assert sum(int(line.split()[1]) for line in lines if "left out" in line) + 10 == 14
    printed = capsys.readouterr().err
    assert all(line.removeprefix("- ") in printed for line in lines)
    with (tmp_path / "out" / "studies.csv").open(newline="") as file:
        rows = {row["report"]: row for row in csv.DictReader(file)}
    assert len(rows) == 14
    assert rows["CXR8"]["split"] == "test"
    assert rows["CXR21"]["left_out"] == "no findings"
    assert rows["CXR10"]["left_out"] == "not in the annotation"
    assert rows["CXR12"]["views"] == "frontal|lateral"


def test_studies_without_a_picture_are_named_and_left_out(tmp_path, capsys, monkeypatch):
    def lost(pngs):
        del pngs[f"{names(4)[1]}.png"], pngs[f"{names(6)[0]}.png"]

    inputs = write_iu_xray(tmp_path / "in", images=lost)
    corpus = build(inputs, tmp_path / "out")
    assert corpus.image_ids("train") == [1, 2, 3, 5, 12]
    printed = capsys.readouterr().err
    for line in (
        "CXR4 left out, no picture CXR4_IM-0004-2001",
        "CXR6 left out, no picture CXR6_IM-0006-1001",
    ):
        assert line in printed
    monkeypatch.setattr(iu_xray, "MOST_MISSING", 1)
    with refused(DataError, "NLMCXR_png.tgz", "CXR4"):
        build(inputs, tmp_path / "strict")
    assert not (tmp_path / "strict" / "corpus.parquet").exists()


def test_without_an_annotation_the_split_is_drawn(tmp_path):
    inputs = write_iu_xray(tmp_path / "in")
    corpora = [build(inputs, tmp_path / name, annotations=None) for name in ("one", "two")]
    # 11 studies have findings and two pictures: 8 to train (7.7 rounded up), 2 to validate, the
    # rest to test.
    assert [len(corpora[0].image_ids(split)) for split in ("train", "val", "test")] == [8, 2, 1]
    assert corpora[0].split_hash == corpora[1].split_hash
    assert corpora[0].views()[12] == [f"{name}.png" for name in names(12)[:2]]


def test_a_drawn_split_has_the_published_sizes_and_no_order_of_its_own():
    studies = [Study(f"CXR{number}", "text", ()) for number in range(2955)]
    split = {study.uid: study.split for study in drawn(studies)}
    counts = [list(split.values()).count(name) for name in ("train", "val", "test")]
    assert counts == [2069, 296, 590]
    assert {study.uid: study.split for study in drawn(studies[::-1])} == split
    # The same on every machine and Python.
    assert [split[f"CXR{number}"] for number in range(6)] == [
        "train",
        "train",
        "train",
        "test",
        "train",
        "test",
    ]
