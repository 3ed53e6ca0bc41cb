"""sha256 of files and folders, each read once: a note keeps what was read while size and time stay the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.files.json_files import read_json, write_json
from recap.core.hashing import sha256_file


class Hashes:
    """The hashes of a working copy. The note is a shortcut: deleting it costs reading the files again."""

    def __init__(self, note: Path) -> None:
        self._note = note
        self._known: dict[str, list] = {}
        if note.exists():
            try:
                self._known = read_json(note)
            except RecapError:
                # Half a note of a power cut; what it said is read again from the files.
                note.unlink()
        self._new = False

    def of(self, path: str) -> str:
        """Return the sha256 of a file; of a folder, that of the names and hashes of all files in it."""
        if not Path(path).is_dir():
            return self._file(path)
        digest = hashlib.sha256()
        for file in sorted(each for each in Path(path).rglob("*") if each.is_file()):
            digest.update(f"{file.relative_to(path).as_posix()}\0{self._file(str(file))}\n".encode())
        return digest.hexdigest()

    def touched(self, path: str) -> None:
        """Keep a file's hash although it has got another time; its bytes are the same."""
        self._note_down(path, self._known[path][2])

    def save(self) -> None:
        """Write the note, if there is something new in it."""
        if self._new:
            write_json(self._note, self._known)

    def _file(self, path: str) -> str:
        state = Path(path).stat()
        known = self._known.get(path)
        if known is not None and known[:2] == [state.st_size, state.st_mtime_ns]:
            return str(known[2])
        digest = sha256_file(path)
        self._note_down(path, digest)
        return digest

    def _note_down(self, path: str, digest: str) -> None:
        state = Path(path).stat()
        self._known[path] = [state.st_size, state.st_mtime_ns, digest]
        self._new = True
