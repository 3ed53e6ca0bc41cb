"""Provenance that travels with the results,
so that a clone with pulled results reruns nothing that is valid.

Snakemake's records of what made a file, and the times that it compares, are carried neither by Git
nor by DVC. So after each run the records are copied beside the results (`.provenance.json`, with
the sha256 of each file and of its inputs). Before each run they are copied back where they are
missing, if the files still are what they were, with fitting times.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from recap.core.errors import DataError
from recap.core.hashing import sha256_file
from recap.plan import records

Entry = dict[str, Any]
Entries = dict[str, Entry]

FORMAT = 6  # of the records that Snakemake 9.27 writes
TIMES = ("starttime", "endtime", "job_hash")  # what differs between two runs of the same job
# not carried: a command line names folders of one machine
LOCAL = ("shellcmd", "incomplete", "external_jobid", *TIMES)
# stands for the profile's folder of outside files, which each machine has elsewhere
INPUTS = "<inputs>/"


# Snakemake has no command that gives a file's record or takes one, and its classes are private.
def read_record(file: str) -> dict[str, Any]:
    """Return Snakemake's record of a file, by its path as in the rule.

    {} if there is none of the known format.
    """
    try:
        record = json.loads(_path("metadata", file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        record if isinstance(record, dict) and record.get("record_format_version") == FORMAT else {}
    )


def _is_incomplete(file: str) -> bool:
    """Return whether the job that makes a file has begun and not finished."""
    return _path("incomplete", file).exists()


def _path(kind: str, file: str) -> Path:
    """Return where Snakemake notes something of a file:
    its path in base 64, in pieces as long as a name may be."""
    name = base64.urlsafe_b64encode(file.encode()).decode()
    length = os.pathconf(".", "PC_NAME_MAX") - 1
    pieces = [name[start : start + length] for start in range(0, len(name), length)]
    return Path(".snakemake", kind, *(f"@{piece}" for piece in pieces[:-1]), pieces[-1])


# DVC makes the results that it links to its cache read-only, and Snakemake runs no job whose
# outputs are. A job replaces its files and writes into none, so the cache does not change.
def make_writable(folders: Iterable[str | Path]) -> None:
    """Give the owner's right to write back to the read-only files below folders."""
    for path in (path for folder in folders for path in Path(folder).rglob("*")):
        status = path.lstat()
        read_only = stat.S_ISREG(status.st_mode) and not status.st_mode & stat.S_IWUSR
        if read_only and status.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)


class ProvenanceStore:
    """Carries records between Snakemake's folder and those of results (last: ``single_files``)."""

    def __init__(self, *, folders: list[str], single_files: list[str], inputs: str) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._single_files = single_files
        self._inputs = f"{Path(inputs)}/"  # the profile's folder of outside files

    def restore(self) -> None:
        """Give Snakemake records of finished files that it lacks, if all match their provenance."""
        # Nothing is to be restored where Snakemake knows of this very file or of its job.
        unknown = {
            file: entry
            for file, entry in self._entries().items()
            if Path(file).exists()
            and read_record(file).get("endtime") != _time(file)
            and not _is_incomplete(file)
        }
        changed = [file for file, entry in unknown.items() if sha256_file(file) != entry["sha256"]]
        if changed:
            more = f" and {len(changed) - 1} more files" if len(changed) > 1 else ""
            raise DataError(
                f"{changed[0]}{more}: changed since made (the sha256 is not the one in "
                f"{records.PROVENANCE}); delete it, then restore it (recap artifacts pull) or let "
                "the workflow rebuild it"
            )
        times: dict[str, float] = {}
        for file, entry in unknown.items():
            self._set_time(file, unknown, times)
            times_of_job = {**entry["times"], "endtime": _time(file), "incomplete": False}
            # written as Snakemake does, which ignores half a record of a power cut
            path = _path("metadata", file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                json.dumps(self._renamed(entry["record"], self._local) | times_of_job),
                encoding="utf-8",
            )

    def save(self) -> None:
        """Copy the records of the profile's files beside them; equal records leave equal bytes."""
        old = self._entries()
        for folder in filter(Path.is_dir, self._folders):
            below = (file for file in sorted(folder.rglob("*")) if file.is_file())
            files = [str(file) for file in below if file.name != records.PROVENANCE]
            if folder == self._folders[-1]:
                files += [file for file in self._single_files if Path(file).exists()]
            entries = {
                file: entry for file in files if (entry := self._entry(file, old)) is not None
            }
            records.write_provenance(folder, entries)
            old |= entries  # the inputs of files in later folders

    def _entries(self) -> Entries:
        entries: Entries = {}
        for folder in self._folders:
            entries |= records.read_provenance(folder)
        return entries

    def _entry(self, file: str, entries: Entries) -> Entry | None:
        """Return the provenance of a file: that in the entries, unless the file was made anew."""
        record, old = read_record(file), entries.get(file)
        if record.get("endtime") != _time(file) or _is_incomplete(file):
            return old
        if old is not None and record["starttime"] == old["times"]["starttime"]:
            return old
        inputs = [path for path in record["input"] or [] if Path(path).exists()]
        entry = {
            "sha256": sha256_file(file),
            "inputs": {
                self._portable(path): self._input_hash(record, path, entries) for path in inputs
            },
            "record": self._renamed(
                {key: record[key] for key in record if key not in LOCAL}, self._portable
            ),
            "times": {key: record[key] for key in TIMES},
        }
        # A job that gave the same bytes from the same bytes changes nothing for others.
        return old if old is not None and {**entry, "times": old["times"]} == old else entry

    def _set_time(self, file: str, unknown: Entries, times: dict[str, float]) -> float:
        """Give a file the time of its making, not before its inputs'.

        If these have changed, a time before theirs.
        """
        if file not in unknown:
            return _time(file)
        if file in times:
            return times[file]
        equal, changed = [min(unknown[file]["times"]["endtime"], time.time())], []
        for path, digest in unknown[file]["inputs"].items():
            local = self._local(path)
            if Path(local).exists():
                now = unknown[local]["sha256"] if local in unknown else _hash(local, _time(local))
                moment = self._set_time(local, unknown, times)
                (equal if now == digest else changed).append(moment)
        moment = min(changed) - 1 if changed else max(equal)
        os.utime(file, (moment, moment))
        times[file] = _time(file)
        return times[file]

    def _input_hash(self, record: Entry, path: str, entries: Entries) -> str:
        """Return the hash of a file's input as it was.

        "" if that is not known since the input was rebuilt.
        """
        if _time(path) > record["endtime"]:
            return str((record["input_checksums"] or {}).get(path, "")).removeprefix("sha256:")
        current = path in entries and entries[path]["times"]["endtime"] == _time(path)
        return str(entries[path]["sha256"]) if current else _hash(path, _time(path))

    def _portable(self, path: str) -> str:
        return INPUTS + path.removeprefix(self._inputs) if path.startswith(self._inputs) else path

    def _local(self, path: str) -> str:
        return self._inputs + path.removeprefix(INPUTS) if path.startswith(INPUTS) else path

    def _renamed(self, record: Entry, name: Callable[[str], str]) -> Entry:
        """Return a record with other names of its inputs; Snakemake keeps them sorted."""
        checksums = {
            name(path): value for path, value in sorted((record["input_checksums"] or {}).items())
        }
        return {
            **record,
            "input": sorted(map(name, record["input"] or [])),
            "input_checksums": checksums,
        }


@cache
def _hash(path: str, written: float) -> str:
    """Return the sha256 of a file; of a folder, that of the names and hashes of all files in it."""
    if not Path(path).is_dir():
        return sha256_file(path)
    digest = hashlib.sha256()
    for file in sorted(each for each in Path(path).rglob("*") if each.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256_file(file)}\n".encode())
    return digest.hexdigest()


def _time(path: str) -> float:
    """Return when a file was written, as Snakemake compares it."""
    return Path(path).lstat().st_mtime
