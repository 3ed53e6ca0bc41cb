"""Damaged inputs for each reader of captions, lists,
settings and pictures: read, or refused in a sentence.

Nothing half-written may stay: a reader that writes leaves a whole file, or none.
"""

import gzip
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.generators import jpeg, karpathy
from helpers.mutate import COUNT, as_file, check
from recap.data.corpus import Corpus, build_corpus, write_corpus
from recap.data.datasets.base import read_karpathy
from recap.data.datasets.coco import read_list, read_plain
from recap.data.datasets.conceptual import read_tsv
from recap.data.datasets.csv_captions import SplitRow
from recap.data.datasets.iu_xray import annotated
from recap.data.datasets.iu_xray_reports import parse_report
from recap.data.files.archives import contents
from recap.data.files.entries import csv_entries
from recap.data.files.images import ImageSource
from recap.data.subsets import draw_subset, read_subset
from recap.data.vocabulary import build_vocabulary, load_byte_pairs, load_vocabulary
from recap.settings import SECTIONS
from recap.settings.datasets import ScenesDataset
from recap.settings.params import files, names, read_mapping, resolve, validate
from recap.settings.versions import read_versions
from rehearsal.hub import write_byte_pairs

# Pillow says on the side what it finds wrong with a TIFF.
pytestmark = [
    *(pytest.mark.slow, pytest.mark.timeout(1200)),
    pytest.mark.filterwarnings("ignore::UserWarning:PIL"),
]

PARAMS = Path(__file__).resolve().parents[2] / "params"


def zipped(**members_of):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members_of.items():
            archive.writestr(name.replace("_json", ".json"), member)
    return content.getvalue()


def test_karpathys_json_and_what_is_written_of_it(tmp_path):
    def write(path):
        captions = read_karpathy(path, merge_restval=True)
        write_corpus(
            captions,
            tmp_path / "out" / "c.parquet",
            dataset="t",
            kind="karpathy",
            source_sha256="0",
        )

    content = json.dumps(karpathy(sentences=("A dog runs .", "It 's a dog !"))).encode()
    originals = [content, zipped(dataset_json=content)]
    check(
        as_file(tmp_path / "d.json", lambda path: read_karpathy(path, merge_restval=True)),
        originals,
    )
    check(as_file(tmp_path / "d.json", write), originals, COUNT // 20)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["c.parquet"]


def test_plain_annotations_of_coco(tmp_path):
    lists = {"val": {42: "000000000042.jpg"}, "test": {73: "000000000073.jpg"}}
    images = [{"id": number, "file_name": f"{number:012d}.jpg"} for number in (42, 73, 74)]
    texts = [
        {"id": 100 + n, "image_id": image["id"], "caption": "A dog."}
        for n, image in enumerate(images)
    ]
    content = json.dumps({"images": images, "annotations": texts}).encode()

    def write(path):
        captions = read_plain([path], lists, True)
        write_corpus(captions, tmp_path / "c.parquet", dataset="t", kind="coco", source_sha256="0")

    originals = [content, zipped(captions_a_json=content)]
    check(as_file(tmp_path / "c.json", lambda path: read_plain([path], lists, True)), originals)
    check(as_file(tmp_path / "c.json", write), originals, COUNT // 20)


def test_lists_of_coco(tmp_path):
    lines = "".join(f"val2014/COCO_val2014_{number:012d}.jpg {number}\n" for number in (42, 73, 74))
    check(as_file(tmp_path / "l.txt", read_list), [lines.encode()])


def test_tsvs_of_conceptual_captions(tmp_path):
    content = "".join(f"a dög number {n}\thttp://x/{n}.jpg\n" for n in range(20)).encode()
    check(as_file(tmp_path / "t.tsv", lambda path: list(read_tsv(path))), [content], COUNT // 2)
    check(
        as_file(tmp_path / "t.gz", lambda path: list(read_tsv(path))),
        [gzip.compress(content)],
        COUNT // 2,
    )


def test_csv_captions(tmp_path):
    lines = [
        f'{n}.jpg,{split},"a ""dög"", number {n}"'
        for n, split in enumerate(("train", "val", "test") * 5)
    ]
    content = "\r\n".join(["file,split,caption", *lines]).encode()
    originals = [content, content.replace(b",", b";"), b"\xef\xbb\xbf" + content]
    check(as_file(tmp_path / "c.csv", lambda path: list(csv_entries(path, SplitRow))), originals)


REPORT = b"""<?xml version="1.0"?><eCitation><uId id="CXR1"/><Abstract>\
<AbstractText Label="FINDINGS">Heart is
normal.</AbstractText></Abstract>
<parentImage id="CXR1_IM-0001-1001"/><parentImage id="CXR1_IM-0001-2001"/></eCitation>"""


def test_reports():
    check(lambda content: parse_report(content, "x.xml"), [REPORT])


def test_annotations_of_reports(tmp_path):
    reports = {"CXR1": parse_report(REPORT, "x.xml")}
    entry = {
        "id": "CXR1_IM-0001",
        "report": "Heart is normal.",
        "image_path": ["CXR1_IM-0001/0.png", "a/1.png"],
    }
    content = json.dumps({"train": [entry], "val": [], "test": []}).encode()
    check(as_file(tmp_path / "a.json", lambda path: annotated(path, reports)), [content])


def test_settings(tmp_path):
    for section in sorted(SECTIONS):
        paths = {path for name in names(PARAMS, section) for path in files(PARAMS, section, name)}
        contents = sorted(path.read_bytes() for path in paths)
        originals = [content for content in contents if not re.search(rb"^base:", content, re.M)][
            ::4
        ]
        folder = tmp_path / section
        folder.mkdir()

        def load(path, section=section):
            read_mapping(path)
            first = names(tmp_path, section)[0]  # of a table with parts the first part
            return validate(SECTIONS[section], resolve(tmp_path, section, first), "x.yaml")

        check(as_file(folder / "x.yaml", load), originals, COUNT // len(SECTIONS))


def test_the_list_of_outside_files(tmp_path):
    lines = (PARAMS / "data_versions.csv").read_bytes().splitlines(keepends=True)
    content = b"".join([lines[0], *lines[1:4], *lines[-3:]])
    check(as_file(tmp_path / "list.csv", read_versions), [content])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    spec = ScenesDataset(kind="scenes", train=4, val=1, test=1, size=32)
    build_corpus(name="t", spec=spec, inputs=folder, out=folder)
    corpus = folder / "corpus.parquet"
    build_vocabulary(
        corpus=corpus, rule={"min_count": 1}, inputs=folder, out=folder / "vocabulary.json"
    )
    draw_subset(
        corpus=corpus, name="half", fraction=0.5, unit="pair", seed=0, out=folder / "subset.json"
    )
    return folder


READERS = {
    "corpus.parquet": Corpus.read,
    "vocabulary.json": load_vocabulary,
    "subset.json": read_subset,
}


@pytest.mark.parametrize("name", READERS)
def test_what_the_data_jobs_made(made, tmp_path, name):
    # In a folder without SHA256SUMS, so that the reader itself must notice.
    check(as_file(tmp_path / name, READERS[name]), [(made / name).read_bytes()])


@pytest.mark.parametrize("mutated", ["vocab.json", "merges.txt"])
def test_byte_pairs(tmp_path, mutated):
    write_byte_pairs(tmp_path, ["do dog dog"])

    def load(_):
        return load_byte_pairs(tmp_path.name, inputs=tmp_path.parent, max_length=20).encode(["dog"])

    check(as_file(tmp_path / mutated, load), [(tmp_path / mutated).read_bytes()], COUNT // 2)


def pictures():
    values = np.random.default_rng(0).integers(0, 256, (24, 20, 3), np.uint8)
    picture = Image.fromarray(values)
    deep = Image.fromarray(values[..., 0].astype(np.uint16) * 257)
    kinds = [(picture, form, {}) for form in ("JPEG", "PNG", "TIFF", "WEBP", "GIF", "BMP")]
    kinds += [(picture, "JPEG", {"progressive": True}), (picture.convert("CMYK"), "JPEG", {})]
    kinds += [
        (picture.convert("P"), "PNG", {"transparency": 0}),
        (deep, "PNG", {}),
        (deep, "TIFF", {}),
    ]
    kinds += [
        (picture, "TIFF", {"compression": way}) for way in ("tiff_lzw", "tiff_deflate", "jpeg")
    ]
    for one, form, options in kinds:
        content = io.BytesIO()
        one.save(content, format=form, **options)
        yield content.getvalue()


def test_pictures(tmp_path):
    source = ImageSource([tmp_path])
    check(as_file(tmp_path / "x.jpg", lambda path: source.open_rgb("x.jpg")), list(pictures()))


def test_archives_of_pictures_and_reports(tmp_path):
    content = zipped(a_json=b"x" * 300, b_json=jpeg(1))

    def read(path):
        source = ImageSource([path])
        list(contents(path, wanted=lambda name: True, max_bytes=2**20))
        return [source.read(name) for name in ("a.json", "b.json")]

    check(as_file(tmp_path / "a.zip", read), [content])
