"""Reads the XML reports of the Indiana University chest X-ray collection; hostile XML is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recap.core.errors import DamagedData, DataError
from recap.data.files.archives import contents

MAX_BYTES = 2**20  # real reports have 4 to 12 KB


@dataclass(frozen=True)
class Report:
    """One report: ``uid`` (CXR1), the text of its findings, and its pictures' names without suffix, in XML order."""

    uid: str
    findings: str
    pictures: tuple[str, ...]

    @property
    def number(self) -> int:
        """The number in the uid, which names the study everywhere after: CXR2384 -> 2384."""
        return int(self.uid.removeprefix("CXR"))


def read_reports(path: Path) -> dict[str, Report]:
    """Read all reports of a tgz, zip or folder of XML files, by uid and in the order of their numbers."""
    reports: dict[str, Report] = {}
    for name, content in contents(path, wanted=lambda name: name.endswith(".xml"), max_bytes=MAX_BYTES):
        report = parse_report(content, f"{path}: {name}")
        if report.uid in reports:
            raise DataError(f"{path}: {name}: the report {report.uid} is duplicated; remove one of them")
        reports[report.uid] = report
    if not reports:
        raise DataError(f"{path}: no XML reports in it; is this NLMCXR_reports.tgz?")
    return dict(sorted(reports.items(), key=lambda item: item[1].number))


def parse_report(content: bytes, where: str) -> Report:
    """Parse one report."""
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root = fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise DataError(f"{where}: declares a document type or entities, which reports never do; remove it") from error
    except (ParseError, ValueError, LookupError) as error:
        raise DamagedData(f"{where}: not valid XML ({error}); fetch it again") from error
    marker = root.find("uId")
    uid = "" if marker is None else marker.get("id", "")
    digits = uid.removeprefix("CXR")
    if not (uid.startswith("CXR") and digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise DataError(f"{where}: no report of the collection (its uId is {uid!r}, not like 'CXR1'); remove it")
    sections = {section.get("Label"): section.text or "" for section in root.iter("AbstractText")}
    pictures = tuple(picture.get("id", "") for picture in root.iter("parentImage"))
    unsafe = [picture for picture in pictures if not picture or set(picture) & set('/\\|\0"')]
    if unsafe or len(set(pictures)) < len(pictures):
        raise DataError(f"{where}: the pictures {', '.join(map(repr, pictures))} are not distinct names; correct them")
    return Report(uid, " ".join(sections.get("FINDINGS", "").split()), pictures)
