"""``recap data fetch`` and its neighbors: outside files, archives, and what COCO alone needs."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, calls, paths
from recap.cli.parser import Commands, Parser, command


def add_fetch(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "fetch",
        purpose="download outside files and verify them; without names, list them",
        example="""
            recap data fetch
            recap data fetch 'coco/*2014.zip' --into resources
        """,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="as in the list, or a pattern: 'coco/*2014.zip'")
    _list_options(parser)
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="PATH", help="a file or folder taken instead of the network"
    )
    _limits(parser, workers="files at once", timeout="seconds without a byte before a new try", seconds=60)
    parser.set_defaults(function=_fetch)
    parser = command(
        commands,
        "by-hand",
        purpose="list the files that you must get by hand, with steps and license",
        example="recap data by-hand 'iu_xray/*'",
    )
    _list_options(parser, names="*")
    parser.set_defaults(function=_by_hand)
    parser = command(
        commands,
        "spice",
        purpose="download SPICE's parser models to where pycocoevalcap looks for them",
        example="recap data spice --into resources",
    )
    _list_options(parser)
    parser.set_defaults(function=_spice)
    parser = command(
        commands,
        "check-addresses",
        purpose="check every address of the list once, without downloading",
        example="recap data check-addresses --write",
    )
    _list_options(parser, names="*")
    parser.add_argument("--write", action="store_true", help="date the answers in the list")
    _limits(parser, workers="addresses asked at once", timeout="seconds to wait for an answer", seconds=30)
    parser.set_defaults(function=_check_addresses)
    parser = command(
        commands,
        "unpack",
        purpose="unpack the listed members of an archive; download it if it is missing",
        example="recap data unpack bottom_up/trainval --into resources",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="of the role `unpacked` in the list")
    _list_options(parser)
    _limit(parser)
    parser.set_defaults(function=_unpack)
    _add_others(commands)


def _add_others(commands: Commands) -> None:
    """Add the commands that do not read the list."""
    parser = command(
        commands,
        "extract",
        purpose="unpack any zip or tgz, safely",
        example="recap data extract coco/val2014.zip --into resources/coco --members 'val2014/*.jpg'",
    )
    parser.add_argument("archive", type=Path, help="zip or tgz")
    parser.add_argument(
        "--members", default="*", metavar="GLOB", help="of the members; its leading folders are left out (*)"
    )
    _limit(parser)
    paths(parser, into="folder of the files")
    parser.set_defaults(function=_extract)
    parser = command(
        commands,
        "coco-server-ids",
        purpose="list the image ids of a submission to COCO's server",
        example="recap data coco-server-ids --info test2014.json --annotations captions_val2014.json --out ids.json",
    )
    parser.add_argument("--partial", action="store_true", help="allow other counts than the published ones")
    paths(parser, info="image_info_test2014.json", annotations="captions_val2014.json", out="JSON with the ids")
    parser.set_defaults(function=calls("recap.export.coco_image_ids:write_server_ids", "info annotations out partial"))
    parser = command(
        commands,
        "unpaired",
        purpose="write the captions and images that a subset leaves out, unpaired",
        example="recap data unpaired --corpus corpus.parquet --subset subset.json --out unpaired.json",
    )
    paths(parser, "corpus", "subset", out="JSON with the ids of pictures and captions")
    parser.set_defaults(function=calls("recap.data.subsets.unpaired:write_unpaired", "corpus subset out"))


def _list_options(parser: Parser, *, names: str = "") -> None:
    """Add the list and the folder of its files; with ``names`` which of them, so many (``*``)."""
    if names:
        parser.add_argument("names", nargs=names, default=["*"], metavar="NAME", help="as in the list, or a pattern")
    versions, resources = Path("params/data_versions.csv"), Path("resources")
    parser.add_argument("--list", type=Path, default=versions, metavar="PATH", help=f"list of the files ({versions})")
    parser.add_argument(
        "--into", type=Path, default=resources, metavar="PATH", help="the profile's `inputs` (resources)"
    )


def _limits(parser: Parser, *, workers: str, timeout: str, seconds: float) -> None:
    parser.add_argument("--workers", type=int, default=4, metavar="N", help=f"{workers} (4)")
    parser.add_argument("--timeout", type=float, default=seconds, metavar="S", help=f"{timeout} ({seconds:g})")


def _limit(parser: Parser) -> None:
    parser.add_argument("--limit-gb", type=float, metavar="GIB", help="most GiB that it may unpack to")


def _fetch(a: Arguments) -> None:
    from recap.core.errors import ConfigError
    from recap.data.files.download import Transfer
    from recap.data.files.fetch import fetch_files
    from recap.settings.versions import choose, read_versions

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


def _by_hand(a: Arguments) -> None:
    from recap.settings.versions import choose, read_versions, steps

    for file in choose(read_versions(a.list), a.names, a.list):
        if not file.urls and file.archive is None and not file.name.startswith("hub/"):
            here = " (here)" if (a.into / file.name).exists() else ""
            print("\n  ".join([f"{a.into / file.name}{here}: {file.licence}", *steps(file.note)]))


def _spice(a: Arguments) -> None:
    from recap.data.files.download import Transfer
    from recap.metrics.spice import install_spice_models
    from recap.settings.versions import read_versions

    for place in install_spice_models(read_versions(a.list), into=a.into, transfer=Transfer()):
        print(place)


def _check_addresses(a: Arguments) -> None:
    from datetime import UTC, datetime

    from recap.core.errors import ConfigError
    from recap.data.files.addresses import check_addresses, write_answers
    from recap.settings.versions import choose, read_versions

    if a.workers < 1 or a.timeout <= 0:
        raise ConfigError("--workers and --timeout must be above 0")
    chosen_files = choose(read_versions(a.list), a.names, a.list)
    answers = check_addresses(chosen_files, timeout=a.timeout, workers=a.workers)
    for answer in answers:
        size = "        ?" if answer.bytes is None else f"{answer.bytes / 2**30:9.3f}"
        print(f"{'yes' if answer.ok else 'NO '} {size} GiB  {answer.name}  {answer.url}  ({answer.said})")
    print(f"{sum(answer.ok for answer in answers)} of {len(answers)} addresses have their file")
    if a.write:
        write_answers(a.list, answers, datetime.now(UTC).date())


def _unpack(a: Arguments) -> None:
    from recap.core.errors import ConfigError
    from recap.data.files.download import Transfer
    from recap.data.files.fetch import fetch_files
    from recap.settings.versions import choose, read_versions

    files = read_versions(a.list)
    for file in choose(files, a.names, a.list):
        if file.archive is None or file.members is None:
            raise ConfigError(f"{a.list}: {file.name!r} is not unpacked from an archive; fetch it")
        (archive,) = fetch_files([files[file.archive]], into=a.into, transfer=Transfer())
        _said(archive.path, a.into / file.name, file.members, a.limit_gb)


def _extract(a: Arguments) -> None:
    _said(a.archive, a.into, a.members, a.limit_gb)


def _said(archive: Path, into: Path, members: str, limit_gb: float | None) -> None:
    """Unpack, and print the number of files."""
    from recap.data.files.archives import unpack

    limit = None if limit_gb is None else int(limit_gb * 2**30)
    print(f"{into}: {unpack(archive, into=into, members=members, limit=limit)} files")
