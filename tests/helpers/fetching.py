"""What the tests of fetching share: bytes, lists of files, and what is left in the folder."""

import gzip
import hashlib
import io
import tarfile
import zipfile

import numpy as np

from recap.data.files.download import Transfer
from recap.data.files.fetch import fetch_files
from recap.settings.versions import read_versions

QUICK = Transfer(timeout=2.0, pause=0.01)
HEAD = "name,version,role,url,algorithm,hash,bytes,licence,checked_on,note\n"


def noise(size, seed=0):
    return np.random.default_rng(seed).bytes(size)


def zipped(size=2000):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.bin", noise(size))
    return content.getvalue()


def with_evil_member(content):
    """Return a zip or tgz with one member more, whose name leaves the folder."""
    if content[:2] == b"PK":
        packed = io.BytesIO(content)
        with zipfile.ZipFile(packed, "a") as archive:
            archive.writestr("../../evil", "evil")
        return packed.getvalue()
    plain = io.BytesIO(gzip.decompress(content))
    with tarfile.open(fileobj=plain, mode="a") as archive:
        archive.addfile(tarfile.TarInfo("../../evil"))
    return gzip.compress(plain.getvalue())


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


def sha(content):
    return hashlib.sha256(content).hexdigest()


def line(name, url, content=None, *, role="primary", algorithm="sha256", size=""):
    digest = "" if content is None else hashlib.new(algorithm, content).hexdigest()
    return f"{name},1,{role},{url},{algorithm if digest else ''},{digest},{size},none,,\n"


def listed(tmp_path, *lines):
    (tmp_path / "list.csv").write_text(HEAD + "".join(lines))
    return list(read_versions(tmp_path / "list.csv").values())


def fetch(files, tmp_path, **options):
    return fetch_files(files, into=tmp_path / "in", **{"transfer": QUICK, **options})


def left(tmp_path):
    return sorted(path.name for path in (tmp_path / "in").rglob("*") if path.is_file())
