"""`SHA256SUMS`: the hashes of a folder's finished files, in the form that ``sha256sum --check`` reads.

A job records its files when they are whole; what reads them checks them first, so that a flipped bit is refused
before it costs a training or moves a score. Files that are not listed come from elsewhere and pass. Feature stores,
weights of models and training states are not listed: they contain checksums. Trained backbones do not, and are listed.
"""

from __future__ import annotations

from pathlib import Path

from recap.core.errors import ChangedFile, DamagedFile
from recap.core.files.atomic import write_text
from recap.core.files.lock import exclusive
from recap.core.hashing import sha256_file

NAME = "SHA256SUMS"
_LONGEST_NAME = 255  # bytes, on Linux
_WAIT_SECONDS = 60.0  # for another job that lists its files in the same folder, which takes an instant


def record(*files: Path) -> None:
    """List finished files of one folder in its `SHA256SUMS`, in place of what it said of them.

    Other files stay listed as long as they exist: one that a changed setting no longer asks for is not missing.
    """
    folder = files[0].parent
    with exclusive(folder, wait_seconds=_WAIT_SECONDS, what=f"{folder / NAME}"):
        before = {name: digest for name, digest in recorded(folder).items() if (folder / name).exists()}
        sums = before | {file.name: sha256_file(file) for file in files}
        write_text(folder / NAME, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def recorded(folder: Path) -> dict[str, str]:
    """Return the hashes by file name that a folder's `SHA256SUMS` lists; none where there is no such file.

    Raises:
        RecapError: the list is damaged.
    """
    path = folder / NAME
    if not path.exists():
        return {}
    sums = {}
    for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
        digest, gap, name = line[:64], line[64:66], line[66:]
        if gap != "  " or set(digest) - set("0123456789abcdef") or not _is_file_name(name):
            raise DamagedFile(f"{path}: line {number} is no sha256 with a file name; make the folder's files again")
        sums[name] = digest
    return sums


def _is_file_name(text: str) -> bool:
    return 0 < len(text.encode()) <= _LONGEST_NAME and text not in (".", "..") and not set(text) & {"/", "\0"}


def check(file: Path) -> None:
    """Compare a file with what its folder's `SHA256SUMS` says of it; a file that is not listed passes.

    Raises:
        RecapError: the file has changed since it was finished.
    """
    expected = recorded(file.parent).get(file.name)
    if expected is not None and file.exists() and sha256_file(file) != expected:
        raise ChangedFile(
            f"{file}: has changed since it was finished (its sha256 is not the one in {NAME}); "
            "delete it and repeat the command that makes it, or restore it"
        )
