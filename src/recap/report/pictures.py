"""What a report shows of pictures: figures that the profile drew, and samples of captions with their photos."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.core.log import log
from recap.data.files.images import ImageSource
from recap.plan.paths import Paths
from recap.plan.run import baseline, file_name, row_runs
from recap.plan.run_plan import RunPlan
from recap.tables.contact_sheet import data_address, photo_address, read_photo
from recap.tables.samples import choose_samples
from recap.tables.text import plain

_EDGE = 480  # pixels of a photo's longer edge in the page
_CURVES = "Validation CIDEr-D after each epoch, in percent: mean over seeds, and a band from the lowest to the highest."


@dataclass(frozen=True)
class ShownFigure:
    """A figure: its file, title, and text below it.

    `address` is a data URI with all of it; of a figure that is no picture, `text` is what its file says.
    """

    file: Path
    title: str
    caption: str
    address: str = ""
    text: str = ""

    @property
    def printable(self) -> Path:
        """The file for a PDF: with lines instead of pixels where there is one."""
        drawn = self.file.with_suffix(".pdf")
        return drawn if drawn.is_file() else self.file


def figures(plan: RunPlan) -> list[ShownFigure]:
    """Return the figures that are drawn, in the order of the plan, the learning curves last."""
    folder = Path(Paths(plan).reports) / "figures"
    planned: dict[str, tuple[str, str]] = {}
    for name, figure in plan.figures.items():
        planned[f"{file_name(name)}.png"] = (plain(figure.title), plain(figure.scale))
    for drawn in plan.model_figures:
        for file, title in drawn.files.items():
            if title:
                caption = plain(drawn.settings.caption).replace("``", "")  # marks of code
                of_table, _, scale = plain(drawn.heading).partition(" | ")
                planned[file] = (f"{title[:1].upper()}{title[1:]}: {of_table}", f"{caption} {scale}".strip())
    planned["curves.png"] = ("Learning curves", _CURVES)
    return [_figure(folder / file, *titles) for file, titles in planned.items() if (folder / file).is_file()]


def _figure(file: Path, title: str, caption: str) -> ShownFigure:
    content = file.read_bytes()
    if file.suffix == ".png":
        return ShownFigure(file, title, caption, data_address(content, "image/png"))
    return ShownFigure(file, title, caption, text=content.decode("utf-8", "replace"))


def sampled_table(plan: RunPlan, table_id: str) -> dict[str, Any]:
    """Return the samples of a table with their photos, its contact sheet if it is drawn, and why there are none.

    Shown are the rows whose first seed is scored; rows from outside wait for all others.
    """
    paths, table, seeds, name = Paths(plan), plan.tables[table_id], plan.seeds[table_id], file_name(table_id)
    sheet, dataset = Path(paths.reports) / "figures" / f"{name}_captions.png", baseline(table).dataset
    shown: dict[str, Any] = {"samples": [], "sheet": sheet if sheet.is_file() else None, "why": ""}
    rows = [row for row in table.rows if paths.is_scored(row_runs(row, seeds)[0])]
    if not rows:
        return shown | {"why": "no row is scored yet"}
    if len(rows) < len(table.rows):
        ids = {row.id for row in rows}
        examples = table.examples if table.examples and table.examples.row in ids else None
        table = table.model_copy(update={"rows": rows, "outside": [], "examples": examples})
    corpus, scores = Path(paths.of_dataset(dataset, "corpus.parquet")), Path(paths.results) / "scores"
    samples = choose_samples(name, table, seeds, corpus, scores, plan.profile.sample_captions)
    roots = list(map(Path, paths.images(dataset)))
    missing = [root for root in roots if not root.exists()]
    if missing:
        log.warning(f"{missing[0]}: no such folder or zip, so the samples are shown without their photos")
        return shown | {"samples": [(sample, None) for sample in samples]}
    source = ImageSource(roots)
    return shown | {"samples": [(each, photo_address(read_photo(source, each.file), _EDGE)) for each in samples]}
