"""Reports of the Indiana University collection: XML, of which hostile kinds are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import ParseError

from recap.core.errors import DamagedData, DataError
from recap.data.files.archives import contents

_REPORT_BYTES = 2**20  # real reports have 4 to 12 KB
_SAFE = re.compile(r'[^/\\|\0"]+')  # name of a picture


@dataclass(frozen=True)
class Study:
    """A report (uid CXR1) with its text and its pictures' names without suffix, in XML order.

    In use, its split.
    """

    uid: str
    findings: str
    pictures: tuple[str, ...]
    split: str = ""

    @property
    def number(self) -> int:
        """The number in the uid, which names the study everywhere after: CXR2384 -> 2384."""
        return int(self.uid.removeprefix("CXR"))


def read_reports(path: Path) -> dict[str, Study]:
    """Read all reports of a tgz, zip or folder of XML files, by uid, in order of their numbers."""
    reports: dict[str, Study] = {}
    for name, content in contents(
        path, wanted=lambda name: name.endswith(".xml"), max_bytes=_REPORT_BYTES
    ):
        report = parse_report(content, f"{path}: {name}")
        if report.uid in reports:
            raise DataError(
                f"{path}: {name}: the report {report.uid} is duplicated; remove one of them"
            )
        reports[report.uid] = report
    if not reports:
        raise DataError(f"{path}: no XML reports in it; is this NLMCXR_reports.tgz?")
    return dict(sorted(reports.items(), key=lambda item: item[1].number))


def parse_report(content: bytes, where: str) -> Study:
    """Parse one report."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root = fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise DataError(
            f"{where}: declares a document type or entities, which reports never do; remove it"
        ) from error
    except (ParseError, ValueError, LookupError) as error:
        raise DamagedData(f"{where}: not valid XML ({error}); fetch it again") from error
    uid = next((marker.get("id", "") for marker in root.findall("uId")), "")
    sections = {section.get("Label"): section.text or "" for section in root.iter("AbstractText")}
    pictures = tuple(picture.get("id", "") for picture in root.iter("parentImage"))
    wrong = ""
    if not re.fullmatch(r"CXR[0-9]{1,9}", uid):
        wrong = f"its uId is {uid!r}, not like 'CXR1'"
    elif not all(map(_SAFE.fullmatch, pictures)) or len(set(pictures)) < len(pictures):
        wrong = f"its pictures {', '.join(map(repr, pictures))} are not distinct names"
    if wrong:
        raise DataError(f"{where}: no report of the collection ({wrong}); remove it")
    return Study(uid, " ".join(sections.get("FINDINGS", "").split()), pictures)
