"""Provenance that travels with the results, so that a clone with pulled results makes nothing again that is right.

Snakemake knows by file name which rule, parameters, code and inputs made a file, and it compares times of files. Git
and DVC carry neither: in a clone everything has the time of its checkout and nothing a history. So after each run what
Snakemake knows is written beside the results (`.provenance.json`, with the sha256 of each file and of its inputs), and
before each run it is given back to Snakemake where it is missing: only for files that still are what they were, and
with times that say "older than what was made from it" where that is so. What changed in a clone is then redone, and
nothing else.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from snakemake.persistence import MetadataRecord
from snakemake.persistence.file import FilePersistence
from workflow.hashes import Hashes

from recap.core.errors import DataError
from recap.plan import provenance

Entry = dict[str, Any]
Entries = dict[str, Entry]

# What Snakemake compares with the rule of today. The command line is left out: it names folders of one machine.
COMPARED = (
    "rule",
    "code",
    "params",
    "input",
    "log",
    "conda_env",
    "container_img_url",
    "software_stack_hash",
    "record_format_version",
    "input_checksums",
)
# What differs between two runs of the same job.
TIMES = ("starttime", "endtime", "job_hash")
# Stands for the profile's folder of outside files, which each machine has elsewhere.
INPUTS = "<inputs>/"


class Keeper:
    """Carries provenance between Snakemake's folder and the folders of one profile's results.

    Args:
        homes: folders of results; each keeps the provenance of the files below it, the last one that of ``loose``.
        loose: single files outside of all homes.
        inputs: the profile's folder of outside files.
        note: where the hashes of files are kept.
    """

    def __init__(self, *, homes: list[str], loose: list[str], inputs: str, note: Path) -> None:
        self._homes = [Path(home) for home in homes]
        self._loose = loose
        self._inputs = f"{Path(inputs)}/"
        self._note = note

    def restore(self) -> list[str]:
        """Give Snakemake what it does not know of finished files; return these files.

        Raises:
            DataError: files are not what their provenance says; nothing is given back then.
        """
        entries: Entries = {}
        for home in self._homes:
            entries |= provenance.read(home)
        store = FilePersistence(path=Path(".snakemake").resolve())
        unknown = {file: entry for file, entry in entries.items() if not _is_known(store, file)}
        hashes = Hashes(self._note)
        changed = [file for file, entry in unknown.items() if hashes.of(file) != entry["sha256"]]
        hashes.save()
        if changed:
            more = f" and {len(changed) - 1} more files" if len(changed) > 1 else ""
            raise DataError(
                f"{changed[0]}{more}: changed since made (the sha256 is not the one in {provenance.NAME}); "
                "delete it, then restore it (recap artifacts pull) or have it made again"
            )
        born: dict[str, float] = {}
        for file, entry in unknown.items():
            self._set_time(file, unknown, hashes, born)
            self._give_back(store, file, entry)
        hashes.save()
        return list(unknown)

    def save(self) -> None:
        """Write what Snakemake knows of the profile's files beside them; equal knowledge leaves equal bytes."""
        store = FilePersistence(path=Path(".snakemake").resolve())
        hashes = Hashes(self._note)
        for home in filter(Path.is_dir, self._homes):
            old = provenance.read(home)
            files = [str(file) for file in sorted(home.rglob("*")) if file.is_file() and file.name != provenance.NAME]
            if home == self._homes[-1]:
                files += [file for file in self._loose if Path(file).exists()]
            new = {file: self._entry(store, hashes, file, old.get(file)) for file in files}
            provenance.write(home, {file: entry for file, entry in new.items() if entry is not None})
        hashes.save()

    def _entry(self, store: FilePersistence, hashes: Hashes, file: str, old: Entry | None) -> Entry | None:
        """Return what is known of a file: as before, unless it was made anew."""
        record = store._read_record(file)
        if record is None or record.endtime != _time(file) or store._filter_incomplete_keys([file]):
            return old
        if old is not None and record.starttime == old["times"]["starttime"]:
            return old
        inputs = {path: _input_hash(hashes, record, path) for path in record.input or [] if Path(path).exists()}
        entry = {
            "sha256": hashes.of(file),
            "inputs": {self._portable(path): digest for path, digest in inputs.items()},
            "record": self._translated({key: record[key] for key in COMPARED}, self._portable),
            "times": {key: record[key] for key in TIMES},
        }
        # A job that gave the same bytes from the same bytes changes nothing for others.
        return old if old is not None and {**entry, "times": old["times"]} == old else entry

    def _give_back(self, store: FilePersistence, file: str, entry: Entry) -> None:
        """Write Snakemake's record of a file, which ends at the time that the file has now."""
        values = {**self._translated(entry["record"], self._local), **entry["times"], "endtime": _time(file)}
        store._write_record(file, MetadataRecord.model_validate({**values, "incomplete": False}))

    def _set_time(self, file: str, unknown: Entries, hashes: Hashes, born: dict[str, float]) -> float:
        """Give a file the time of its making, not before its inputs'; if these have changed, a time before theirs."""
        if file not in unknown:
            return _time(file)
        if file in born:
            return born[file]
        times, changed = [min(unknown[file]["times"]["endtime"], time.time())], []
        for path, digest in unknown[file]["inputs"].items():
            local = self._local(path)
            if Path(local).exists():
                known = unknown[local]["sha256"] if local in unknown else hashes.of(local)
                then = self._set_time(local, unknown, hashes, born)
                (times if known == digest else changed).append(then)
        moment = min(changed) - 1 if changed else max(times)
        os.utime(file, (moment, moment))
        hashes.touched(file)
        born[file] = _time(file)
        return born[file]

    def _portable(self, path: str) -> str:
        return INPUTS + path.removeprefix(self._inputs) if path.startswith(self._inputs) else path

    def _local(self, path: str) -> str:
        return self._inputs + path.removeprefix(INPUTS) if path.startswith(INPUTS) else path

    def _translated(self, record: dict, name: Any) -> dict:
        """Return a record with the names of its inputs translated; Snakemake keeps them sorted."""
        inputs = sorted(map(name, record["input"] or []))
        checksums = {name(path): value for path, value in sorted((record["input_checksums"] or {}).items())}
        return {**record, "input": inputs, "input_checksums": checksums}


def _is_known(store: FilePersistence, file: str) -> bool:
    """Return whether there is nothing to give back: no such file, or Snakemake knows of this very one or of its job."""
    if not Path(file).exists():
        return True
    record = store._read_record(file)
    if record is not None and record.endtime == _time(file):
        return True
    return bool(store._filter_incomplete_keys([file]))


def _input_hash(hashes: Hashes, record: MetadataRecord, path: str) -> str:
    """Return the hash of a file's input as it was; "" if that is not known since the input has been made again."""
    if _time(path) <= record.endtime:
        return hashes.of(path)
    return str((record.input_checksums or {}).get(path, "")).removeprefix("sha256:")


def _time(path: str) -> float:
    """Return when a file was written, as Snakemake compares it."""
    return Path(path).lstat().st_mtime
