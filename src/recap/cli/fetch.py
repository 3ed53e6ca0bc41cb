"""``recap data fetch`` and its neighbours: outside files, archives, and what COCO alone needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, chosen, paths


def add_fetch(commands: Any) -> None:
    """Add the commands of this group."""
    parser = commands.add_parser("fetch", help="outside files, verified; without names: what the list has")
    parser.add_argument("names", nargs="*", metavar="NAME", help="as in the list, or a pattern: 'coco/*2014.zip'")
    parser.add_argument("--list", type=Path, default=Path("params/data_versions.csv"))
    parser.add_argument("--into", type=Path, default=Path("resources"), help="the profile's `inputs` (resources)")
    parser.add_argument("--from", dest="source", type=Path, help="a file or folder taken instead of the network")
    parser.add_argument("--workers", type=int, default=4, help="files at once (4)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds without a byte before a new try (60)")
    parser.set_defaults(function=_fetch)
    parser = commands.add_parser("extract", help="unpack a zip or tgz, safely")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--limit-gb", type=float, help="most GiB that it may unpack to")
    paths(parser, "into")
    parser.set_defaults(function=_extract)
    parser = commands.add_parser("coco-server-ids", help="image ids of a submission to COCO's server")
    parser.add_argument("--partial", action="store_true", help="allow other counts than the published ones")
    paths(parser, "info", "annotations", "out")
    parser.set_defaults(function=_server_ids)
    parser = commands.add_parser("unpaired", help="what a subset of images leaves over, no longer paired")
    paths(parser, "corpus", "subset", "out")
    parser.set_defaults(function=_unpaired)


def _fetch(a: Arguments) -> None:
    from recap.core.errors import ConfigError
    from recap.data.download import Transfer
    from recap.data.fetch import fetch_files
    from recap.data.versions import choose, read_versions

    files = read_versions(a.list)
    if not a.names:
        for file in files.values():
            size = "       ?" if file.bytes is None else f"{file.bytes / 2**30:8.3f}"
            here = "here   " if (a.into / file.name).exists() else "       "
            hashed = file.algorithm or ("no hash" if file.urls else "own")
            print(f"{here}{size} GiB  {hashed:8}{file.name}  ({file.licence if file.urls else file.note})")
        return
    if a.workers < 1 or a.timeout <= 0:
        raise ConfigError("--workers and --timeout must be above 0")
    wanted = choose(files, a.names, a.list)
    done = fetch_files(wanted, into=a.into, source=a.source, workers=a.workers, transfer=Transfer(timeout=a.timeout))
    for result in done:
        print(f"{result.path}: {result.how}, sha256 {result.sha256} (checked: {result.checked})")


def _extract(a: Arguments) -> None:
    from recap.data.archives import extract_archive

    limit = None if a.limit_gb is None else int(a.limit_gb * 2**30)
    print(f"{a.into}: {extract_archive(a.archive, into=a.into, limit=limit)} files")


def _server_ids(a: Arguments) -> None:
    from recap.data.coco_server import write_server_ids

    write_server_ids(**chosen(a, "info annotations out partial"))


def _unpaired(a: Arguments) -> None:
    from recap.data.unpaired import write_unpaired

    write_unpaired(**chosen(a, "corpus subset out"))
