"""A few studies in the layout of IU X-ray:
a tgz of PNG, a tgz of XML, the annotation, the projections."""

import json

from rehearsal import xrays
from rehearsal.archives import write_tgz as tgz
from rehearsal.world import picture

FINDINGS = (
    "The heart is normal in size. No pleural effusion. XXXX 2.5 cm nodule; the lungs are clear."
)
SPEC = {
    "kind": "iu_xray",
    "reports": "NLMCXR_reports.tgz",
    "images": ["NLMCXR_png.tgz"],
    "annotations": "annotation.json",
    "projections": "indiana_projections.csv",
    "vocabulary": {"min_count": 1, "splits": "train", "max_length": 60},
}
# uid -> number of pictures; 21 has no findings, 20 too few pictures, 22 none.
STUDIES = {**dict.fromkeys(range(1, 11), 2), 12: 3, 20: 1, 21: 2, 22: 0}
SPLITS = {"train": [3, 1, 2, 4, 5, 12], "val": [6, 7], "test": [8, 9]}  # CXR10 is in none


def png(number):
    return picture(number, (32, 24), kind="PNG", gray=True)


def names(uid):
    """Return the names of a study's pictures without suffix, in the order of its XML."""
    return xrays.names(uid, STUDIES[uid])


def report(uid, *, findings=None, pictures=None):
    """Return the XML of one report."""
    text = ("" if uid == 21 else f"{FINDINGS} Study {uid}.") if findings is None else findings
    return xrays.xml(uid, text, names(uid) if pictures is None else pictures)


def write_iu_xray(folder, *, reports=None, images=None, annotated=None):
    """Write the four files into ``folder`` and return it.

    Functions may spoil each part before it is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    xml = {f"ecgen-radiology/{uid}.xml": report(uid).encode() for uid in STUDIES}
    pictures = [name for uid in STUDIES for name in names(uid)]
    pngs = {f"{name}.png": png(number) for number, name in enumerate(pictures)}
    texts = {
        split: {uid: f"{FINDINGS} Study {uid}." for uid in uids} for split, uids in SPLITS.items()
    }
    content = xrays.annotation(texts)
    for change, values in ((reports, xml), (images, pngs), (annotated, content)):
        if change is not None:
            change(values)
    tgz(folder / SPEC["reports"], xml)
    tgz(folder / SPEC["images"][0], pngs)
    (folder / SPEC["annotations"]).write_text(json.dumps(content))
    xrays.projections(pictures, folder / SPEC["projections"])
    return folder
