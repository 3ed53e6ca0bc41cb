"""What a report shows of pictures: figures that the profile drew, and samples of captions with their photos."""

from __future__ import annotations

import io
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.errors import DataError
from recap.core.log import log
from recap.data.corpus import VIEWS
from recap.data.files.images import ImageSource
from recap.plan.paths import Paths
from recap.plan.run import file_name, row_runs
from recap.plan.run_plan import RunPlan
from recap.profile_report.progress import is_scored
from recap.reporting.figures import side_by_side
from recap.reporting.samples import Sample, choose_samples
from recap.reporting.text import plain
from recap.settings import Table

if TYPE_CHECKING:
    from PIL.Image import Image

_EDGE = 480  # pixels of a photo's longer edge in the page
_QUALITY = 82
_CURVES = "Validation CIDEr-D of every run after each epoch."


@dataclass(frozen=True)
class ShownFigure:
    """A figure: its file, title, and text below it.

    `address` is a data URI with all of it; of a figure that is no picture, `text` is what its file says.
    """

    file: Path
    title: str
    caption: str
    address: str = ""
    width: int = 0
    height: int = 0
    text: str = ""


@dataclass(frozen=True)
class ShownSample:
    """A sample with its photo as a data URI; "": the photo is not here."""

    sample: Sample
    address: str
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class SampledTable:
    """The samples of a table; `why` says why there are none."""

    name: str
    title: str
    samples: list[ShownSample]
    why: str = ""


def figures(plan: RunPlan) -> list[ShownFigure]:
    """Return the figures that are drawn, in the order of the plan, the learning curves last."""
    folder = Path(Paths(plan).reports) / "figures"
    known: dict[str, tuple[str, str]] = {}
    for name, planned in plan.figures.items():
        known[f"{file_name(name)}.png"] = (plain(planned.title), plain(planned.scale))
    for drawn in plan.model_figures:
        for file, title in drawn.files.items():
            if title:
                caption = plain(drawn.settings.caption).replace("``", "")  # marks of code
                of_table, _, scale = plain(drawn.heading).partition(" | ")
                known[file] = (f"{title[:1].upper()}{title[1:]}: {of_table}", f"{caption} {scale}".strip())
    known["curves.png"] = ("Learning curves", _CURVES)
    return [_figure(folder / file, *titles) for file, titles in known.items() if (folder / file).is_file()]


def _figure(file: Path, title: str, caption: str) -> ShownFigure:
    from PIL import Image

    content = file.read_bytes()
    if file.suffix != ".png":
        return ShownFigure(file, title, caption, text=content.decode("utf-8", "replace"))
    try:
        with Image.open(io.BytesIO(content)) as image:
            width, height = image.size
    except OSError as error:
        raise DataError(f"{file}: not a picture ({error}); delete it and have it drawn again") from error
    return ShownFigure(file, title, caption, data_address(content, "image/png"), width, height)


def data_address(content: bytes, kind: str) -> str:
    """Return the address that holds a file itself, so that a page needs no other file."""
    return f"data:{kind};base64,{b64encode(content).decode('ascii')}"


def sampled_tables(plan: RunPlan) -> list[SampledTable]:
    """Return the samples of each table, of the rows whose first seed is scored."""
    return [_sampled(plan, table_id) for table_id in plan.tables]


def _sampled(plan: RunPlan, table_id: str) -> SampledTable:
    paths, table, seeds = Paths(plan), plan.tables[table_id], plan.seeds[table_id]
    rows = [row for row in table.rows if is_scored(paths, row_runs(row, seeds)[0])]
    name, title = file_name(table_id), plain(table.title)
    if not rows:
        return SampledTable(name, title, [], "no row is scored yet")
    dataset = next(row.dataset for row in table.rows if row.id == table.baseline)
    samples = choose_samples(
        name=name,
        table=_of_rows(table, {row.id for row in rows}),
        seeds=seeds,
        corpus_path=Path(paths.of_dataset(dataset, "corpus.parquet")),
        scores_root=Path(paths.results) / "scores",
        count=plan.profile.sample_captions,
    )
    return SampledTable(name, title, _with_photos(samples, paths.images(dataset)))


def _of_rows(table: Table, ids: set[str]) -> Table:
    """Return the table with the rows that are here; those from outside are scored only with all others."""
    if len(ids) == len(table.rows):
        return table
    examples = table.examples if table.examples and table.examples.row in ids else None
    rows = [row for row in table.rows if row.id in ids]
    return table.model_copy(update={"rows": rows, "outside": [], "examples": examples})


def _with_photos(samples: list[Sample], roots: list[str]) -> list[ShownSample]:
    missing = [root for root in roots if not Path(root).exists()]
    if missing:
        log.warning(f"{missing[0]}: no such folder or zip, so the samples are shown without their photos")
        return [ShownSample(sample, "") for sample in samples]
    source = ImageSource([Path(root) for root in roots])
    return [_shown(sample, [source.open_rgb(file) for file in sample.file.split(VIEWS)]) for sample in samples]


def _shown(sample: Sample, views: list[Image]) -> ShownSample:
    from PIL import Image

    image = side_by_side(views)
    image.thumbnail((_EDGE, _EDGE), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.save(content, "JPEG", quality=_QUALITY)
    return ShownSample(sample, data_address(content.getvalue(), "image/jpeg"), *image.size)
