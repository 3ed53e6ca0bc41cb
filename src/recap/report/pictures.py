"""The pictures of pages: a profile's figures, samples with photos, and the gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from recap.core.errors import MetricError
from recap.core.files import write_text
from recap.core.hashing import generator
from recap.core.log import log
from recap.data.corpus import Corpus, pictures_of
from recap.data.files.images import read_photo
from recap.plan.data_jobs import pictures
from recap.plan.plan import Plan
from recap.plan.run import baseline, file_name
from recap.plan.run_jobs import is_scored
from recap.statistics.scores import check_comparable
from recap.tables.contact_sheet import data_address, photo_address
from recap.tables.formats import filled
from recap.tables.samples import Sample, ScoredCaptions, choose_samples
from recap.tables.text import plain

_EDGE, _GALLERY_EDGE = 480, 320  # pixels of a photo's longer edge in the report and in the gallery
_CURVES = (
    "Validation CIDEr-D after each epoch, in percent: mean over the seeds that reached it, and a "
    "bar from the lowest to the highest."
)


@dataclass(frozen=True)
class ShownFigure:
    """A figure: its file, title, and text below it."""

    file: Path
    title: str
    caption: str

    @cached_property
    def address(self) -> str:
        """A data URI with all of a picture."""
        return (
            data_address(self.file.read_bytes(), "image/png") if self.file.suffix == ".png" else ""
        )

    @property
    def text(self) -> str:
        """What the file says, of a figure that is no picture."""
        return "" if self.address else self.file.read_bytes().decode("utf-8", "replace")

    @property
    def printable(self) -> Path:
        """The file for a PDF: with lines instead of pixels where there is one."""
        drawn = self.file.with_suffix(".pdf")
        return drawn if drawn.is_file() else self.file


def figures(plan: Plan) -> list[ShownFigure]:
    """Return the figures that are drawn, in the order of the plan, the learning curves last."""
    folder = Path(plan.files.reports) / "figures"
    shown = []
    for name, figure in plan.figures.items():
        file = folder / f"{file_name(name)}.png"
        shown.append(ShownFigure(file, plain(figure.title), plain(figure.scale)))
    for drawn in plan.model_figures:
        caption = plain(drawn.settings.caption).replace("``", "")  # marks of code
        of_table, _, scale = plain(drawn.heading).partition(" | ")
        for name, title in drawn.files.items():
            if title:
                heading = f"{title[:1].upper()}{title[1:]}: {of_table}"
                shown.append(ShownFigure(folder / name, heading, f"{caption} {scale}".strip()))
    shown.append(ShownFigure(folder / "curves.png", "Learning curves", _CURVES))
    return [figure for figure in shown if figure.file.is_file()]


@dataclass(frozen=True)
class ShownSamples:
    """The samples of a table with the addresses of their photos, if these are there."""

    title: str
    sheet: Path | None  #: the contact sheet, where it is drawn
    samples: list[tuple[Sample, str]]
    why: str = ""  #: why there are none


def sampled_table(plan: Plan, table_id: str) -> ShownSamples:
    """Return the samples of a table of the rows that are scored."""
    table = plan.tables[table_id]
    title = plain(table.title)
    seeds = plan.seeds[table_id]
    name = file_name(table_id)
    drawn = Path(plan.files.reports) / "figures" / f"{name}_captions.png"
    sheet = drawn if drawn.is_file() else None
    rows = [each.row for each in plan.table_rows(table_id) if is_scored(plan, each.runs[0])]
    if not rows:
        return ShownSamples(title, sheet, [], "no row is scored yet")
    dataset = baseline(table).dataset
    if len(rows) < len(table.rows):  # rows from outside wait for all others
        ids = {row.id for row in rows}
        examples = table.examples if table.examples and table.examples.row in ids else None
        table = table.model_copy(update={"rows": rows, "outside": [], "examples": examples})
    corpus = Path(plan.files.of("corpus", dataset=dataset)["corpus"])
    scores = Path(plan.files.results) / "scores"
    samples = choose_samples(name, table, seeds, corpus, scores, plan.profile.sample_captions)
    roots = list(map(Path, pictures(plan, dataset)))
    missing = [root for root in roots if not root.exists()]
    if missing:
        log.warning(
            f"{missing[0]}: no such folder or zip, so the samples are shown without their photos"
        )
    source = None if missing else pictures_of(corpus, roots)
    shown = []
    for sample in samples:
        photo = photo_address(read_photo(source, sample.file), _EDGE) if source else ""
        shown.append((sample, photo))
    return ShownSamples(title, sheet, shown)


@dataclass(frozen=True)
class ComparedPhoto:
    """A photo of the gallery; captions and scores ``[systems, metrics]`` of all systems."""

    id: int
    src: str  #: its address; "": there are no photos
    references: list[str]
    captions: list[str]
    scores: list[list[float]]


def write_gallery(
    *, systems: Mapping[str, Path], corpus: Path, images: Sequence[Path], count: int, out: Path
) -> None:
    """Write the page: photo, references, and each system's caption with its scores;
    sorted and filtered by difference.

    ``systems``: label -> folder of its scores. Without folders or zips of photos the page has none.
    """
    table = Corpus.read(corpus)
    scored = [ScoredCaptions.read(folder, label) for label, folder in systems.items()]
    first = scored[0]
    for each in scored:
        same_images = set(each.captions) == set(first.captions)
        check_comparable(
            first.label, first.signature, each.label, each.signature, same_images=same_images
        )
    references = table.captions(first.split)
    ids = sorted(first.captions)
    unknown = sorted(set(ids) - set(references))
    if unknown:
        raise MetricError(
            f"{corpus}: has no test image {unknown[0]}, which {first.label!r} describes"
        )
    drawn = generator(0, "gallery").choice(ids, size=min(count, len(ids)), replace=False)
    metrics = list(first.scores)
    for each in scored:
        metrics = [name for name in metrics if name in each.scores]
    source = pictures_of(corpus, images) if images else None
    names = table.files()
    photos = []
    for image in sorted(drawn.tolist()):
        scores = []
        for each in scored:
            scores.append([round(each.scores[name][image], 2) for name in metrics])
        photo = ComparedPhoto(
            id=image,
            src=photo_address(read_photo(source, names[image]), _GALLERY_EDGE) if source else "",
            references=list(map(plain, references[image])),
            captions=[plain(each.captions[image]) for each in scored],
            scores=scores,
        )
        photos.append(photo)
    share = f"a random sample of {len(photos):,} of {len(ids):,}"
    if len(photos) == len(ids):
        share = "all"
    about = (
        f"{plain(table.dataset)}, split {first.split}: {share} images. Scores are of one image, on "
        "the scale of tables."
    )
    page = filled(
        "gallery.html",
        "recap.report",
        about=about,
        systems=[each.label for each in scored],
        metrics=metrics,
        photos=photos,
    )
    write_text(out, page)
