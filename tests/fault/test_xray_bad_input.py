"""Broken reports, pictures and annotations of IU X-ray:
one sentence with the file or study, nothing half-written."""

import gzip
import io
import tarfile

import pytest

from helpers.xray_files import SPEC, names, png, report, tgz, write_iu_xray
from recap.core.errors import DataError
from recap.data.corpus import build_corpus
from recap.data.datasets import iu_xray

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "ha">{}]><eCitation><uId '
    'id="CXR1"/>&j;</eCitation>'
).format(
    "".join(
        f'<!ENTITY {name} "{f"&{below};" * 10}">'
        for below, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
)
FILE = (
    '<!DOCTYPE b [<!ENTITY a SYSTEM "file:///etc/passwd">]><eCitation><uId '
    'id="CXR1"/>&a;</eCitation>'
)


def build(inputs, **changes):
    build_corpus(name="iu_xray", spec={**SPEC, **changes}, inputs=inputs, out=inputs / "out")


def refused(inputs, sentence, **changes):
    with pytest.raises(DataError) as caught:
        build(inputs, **changes)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    left = (
        {path.name for path in (inputs / "out").glob("*")} if (inputs / "out").exists() else set()
    )
    assert not [name for name in left if name == "corpus.parquet" or name.endswith(".part")]


REPORTS = {
    "an entity bomb": (BOMB, "3.xml: declares a document type or entities"),
    "an entity that reads a file": (FILE, "3.xml: declares a document type or entities"),
    "nothing": ("", "3.xml: not valid XML"),
    "another XML": ("<html/>", "3.xml: no report of the collection (its uId is ''"),
    "a uid with a path": (
        report(3).replace("CXR3", "CXR../3", 1),
        "no report of the collection (its uId is 'CXR../3'",
    ),
    "a uid twice": (report(4), "the report CXR4 is duplicated"),
    "a picture with a path": (report(3, pictures=["../../etc/x", "b"]), "are not distinct names"),
}


@pytest.mark.parametrize("case", REPORTS)
def test_reports(tmp_path, case):
    content, sentence = REPORTS[case]
    inputs = write_iu_xray(
        tmp_path, reports=lambda xml: xml.update({"ecgen-radiology/3.xml": content.encode()})
    )
    refused(inputs, sentence)


def test_a_report_of_another_size_is_refused_before_it_is_parsed(tmp_path):
    bloated = report(3, findings="normal " * 200_000).encode()
    inputs = write_iu_xray(
        tmp_path, reports=lambda xml: xml.update({"ecgen-radiology/3.xml": bloated})
    )
    refused(inputs, "3.xml unpacks to")


def first(content):
    return content["train"][0]


ANNOTATIONS = {
    "an absent study": (
        lambda c: first(c).update(id="CXR999_IM-1"),
        "the study CXR999_IM-1 of 'train' has no report",
    ),
    "a study twice": (
        lambda c: c["test"].append(c["train"][0]),
        "CXR3_IM-0003 of 'test' is duplicated",
    ),
    "a view that the report lacks": (
        lambda c: first(c).update(image_path=["CXR3_IM-0003/0.png", "CXR3_IM-0003/2.png"]),
        "asks for view 2, but its report refers to 2 pictures, counted from 0",
    ),
    "a view of many digits": (
        lambda c: first(c).update(image_path=[f"a/{'9' * 5000}.png"]),
        "train.0.image_path.0",
    ),
    "text without a word": (
        lambda c: first(c).update(report="?!"),
        "caption id 3: there is no word in '?!'",
    ),
}


@pytest.mark.parametrize("case", ANNOTATIONS)
def test_annotations(tmp_path, case):
    change, sentence = ANNOTATIONS[case]
    refused(write_iu_xray(tmp_path, annotated=change), sentence)


@pytest.mark.parametrize("name", ["NLMCXR_png.tgz", "NLMCXR_reports.tgz"])
@pytest.mark.parametrize("share", [0.02, 0.999])
def test_truncated_archives(tmp_path, name, share):
    inputs = write_iu_xray(tmp_path)
    content = (inputs / name).read_bytes()
    (inputs / name).write_bytes(content[: int(share * len(content))])
    refused(inputs, f"{name}: truncated or damaged")


def test_an_archive_cut_between_two_files_is_noticed(tmp_path):
    """Such a tar reads as a shorter one; only gzip's own end tells that something is missing."""
    inputs = write_iu_xray(tmp_path)
    plain = gzip.decompress((inputs / "NLMCXR_png.tgz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        end = archive.getmembers()[20].offset
    packed = gzip.compress(plain[:end])
    (inputs / "NLMCXR_png.tgz").write_bytes(packed[:-8])
    refused(inputs, "NLMCXR_png.tgz: truncated or damaged")


def test_missing_and_wrong_archives(tmp_path, monkeypatch):
    inputs = write_iu_xray(tmp_path)
    refused(inputs, "none.tgz: no such folder or archive", reports="none.tgz")
    refused(inputs, "annotation.json: truncated or damaged", images=["annotation.json"])
    refused(inputs, "NLMCXR_png.tgz: no XML reports in it", reports="NLMCXR_png.tgz")
    refused(inputs, "annotation.json: ", projections="annotation.json")
    (inputs / "other.csv").write_text("uid,file\n1,a\n")
    refused(inputs, "other.csv: ", projections="other.csv")
    monkeypatch.setattr(iu_xray, "MOST_MISSING", 9)
    refused(inputs, "10 studies lack a picture", images=["NLMCXR_reports.tgz"])
    refused(
        inputs,
        "there are two pictures CXR1_IM-0001-1001",
        images=["NLMCXR_png.tgz", "NLMCXR_png.tgz"],
    )


def test_links_and_paths_in_an_archive_lead_nowhere(tmp_path):
    inputs = write_iu_xray(tmp_path)
    with tarfile.open(inputs / "more.tgz", "w:gz") as archive:
        link = tarfile.TarInfo(f"{names(10)[0]}.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        outside = tarfile.TarInfo(f"../../{names(10)[1]}.png")
        outside.size = 3
        archive.addfile(outside, io.BytesIO(b"abc"))
    pngs = {f"{name}.png": png(1) for uid in range(1, 10) for name in names(uid)}
    tgz(inputs / "few.tgz", pngs)
    build(inputs, annotations=None, images=["more.tgz", "few.tgz"])
    rows = (inputs / "out" / "studies.csv").read_text()
    assert "CXR10,,a picture is missing from the images: CXR10_IM-0010-1001," in rows
    assert not (inputs.parent.parent / f"{names(10)[1]}.png").exists()
    assert sorted(path.name for path in (inputs / "out").iterdir()) == [
        "SHA256SUMS",
        "corpus.parquet",
        "counts.md",
        "images.zip",
        "studies.csv",
    ]
