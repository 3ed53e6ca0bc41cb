"""``recap caption``: captions for photos of one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recap.cli.arguments import Arguments, add_device, add_run_files, chosen
from recap.cli.parser import Commands, command
from recap.core.errors import ConfigError
from recap.core.log import log
from recap.core.process.gpus import claim

if TYPE_CHECKING:
    from recap.share.captioner import FailedPhoto, PhotoCaptioner, PhotoCaptions, Together

_FORMATS = ("pretty", "jsonl", "csv")
_FAILED = 1  # status where photos have no caption; those that have one are written


def add_caption(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "caption",
        purpose="caption photos with a trained run",
        example="""
            recap caption photo.jpg --run results/demo
            recap caption holiday/ 'more/**/*.png' --run results/demo --n-best 3 --format csv --out captions.csv
            recap caption --together front.png side.png --run results/iu_xray
        """,
    )
    parser.add_argument(
        "photos",
        nargs="+",
        metavar="PHOTO",
        help="pictures; a folder stands for those directly in it, a pattern in quotes ('**/*.jpg') for all it matches",
    )
    parser.add_argument(
        "--run",
        type=Path,
        required=True,
        metavar="PATH",
        help="folder of a run, or one above several runs of one data set: the best on validation is taken",
    )
    parser.add_argument(
        "--together", action="store_true", help="the photos are views of one thing: one caption for all"
    )
    parser.add_argument("--n-best", type=int, default=1, metavar="N", help="captions a photo, at most --beam (1)")
    parser.add_argument("--beam", type=int, metavar="N", help="width of the search (that of the run's evaluation)")
    parser.add_argument("--format", choices=_FORMATS, default=_FORMATS[0], help="of the output (pretty)")
    parser.add_argument("--out", type=Path, metavar="PATH", help="file to write (default: standard output)")
    parser.add_argument(
        "--explain",
        type=Path,
        metavar="FILE",
        help="also write a page with what the run looked at for each word (HTML)",
    )
    parser.add_argument("--batch-size", type=int, default=8, metavar="N", help="photos computed at a time (8)")
    add_device(parser)
    add_run_files(parser)
    parser.set_defaults(function=_caption)


def _caption(a: Arguments) -> None:
    if min(a.n_best, a.batch_size, a.beam or 1) < 1:
        raise ConfigError("--n-best, --beam and --batch-size: must be 1 or more")
    if a.explain is not None and (a.together or a.beam is not None):
        raise ConfigError(
            "--explain: shows one photo and the caption of the run's own beam; leave out --together, --beam"
        )
    from recap.share.photos import find_photos

    found = find_photos(a.photos)
    if found.left_out:
        log.info(f"{found.left_out} files and folders that are no pictures by their names are left out")
    if not found.files:
        raise ConfigError(f"{a.photos[0]}: holds no picture; name files, folders with pictures, or a pattern in quotes")
    begun = time.monotonic()
    claim(a.device)
    from recap.share.captioner import load

    captioner = load(a.run, **chosen(a, "device vocabulary features weights"))
    log.info(f"{captioner.run}: {captioner.name} on {captioner.device}, ready in {time.monotonic() - begun:.1f} s")
    photos: list[Together] = [tuple(found.files)] if a.together else list(found.files)
    _check_views(captioner, len(found.files) if a.together else 1)
    options = {"beam": a.beam, "n_best": a.n_best, "batch_size": a.batch_size}
    complete = _write(a, captioner.stream(photos, **options), len(photos))
    if a.explain is not None:
        _explain(a.explain, captioner, found.files)
    if not complete:
        sys.exit(_FAILED)


def _explain(out: Path, captioner: PhotoCaptioner, photos: Sequence[Path]) -> None:
    """Write the page of all photos that can be read; the others are named already."""
    from recap.core.errors import DataError
    from recap.share.explain import Explanation, explain, write_explanations

    found: list[Explanation] = []
    for photo in photos:
        try:
            found.append(explain(captioner, photo))
        except DataError as error:
            log.error(f"not explained: {error}")
    write_explanations(found, captioner.name, out)


def _check_views(captioner: PhotoCaptioner, given: int) -> None:
    """Say so where the run learned from another number of pictures an example."""
    if given != captioner.views:
        log.warning(
            f"the run was trained with {captioner.views} pictures an example, and is given {given}; "
            "--together takes the photos as views of one"
        )


def _write(a: Arguments, results: Iterable[PhotoCaptions | FailedPhoto], total: int) -> bool:
    """Write the captions as they come, a file all at once at the end; return whether every photo has one."""
    from recap.core.files.atomic import atomic_path
    from recap.core.progress import progress
    from recap.share.captioner import FORMATS

    failed: list[FailedPhoto] = []
    if a.out is not None or not sys.stdout.isatty():  # else the captions themselves show how far it is
        results = progress(results, name="captions", unit="photos", total=total)
    lines = FORMATS[a.format](_captioned(results, failed))
    if a.out is None:
        for line in lines:
            print(line, end="", flush=True)
    else:
        with atomic_path(a.out) as temporary, temporary.open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
    if failed:
        log.error(f"{len(failed)} of {total} photos have no caption")
    return not failed


def _captioned(results: Iterable[PhotoCaptions | FailedPhoto], failed: list[FailedPhoto]) -> Iterator[PhotoCaptions]:
    """Yield photos with captions; of the others each is named, and noted in ``failed``."""
    from recap.reporting.text import plain
    from recap.share.captioner import FailedPhoto

    for result in results:
        if isinstance(result, FailedPhoto):
            failed.append(result)
            log.error(plain(result.reason))
        else:
            yield result
