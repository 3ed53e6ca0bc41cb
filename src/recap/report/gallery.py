"""Every system's caption of test images beside photo and references, in one page that needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from recap.core.errors import MetricError
from recap.core.files import write_text
from recap.core.hashing import generator
from recap.data.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.statistics.scores import not_comparable
from recap.tables.contact_sheet import photo_address, read_photo
from recap.tables.formats import environment
from recap.tables.samples import ScoredCaptions
from recap.tables.text import plain

_EDGE = 320  # pixels of a photo's longer edge


def write_gallery(*, systems: Mapping[str, Path], corpus: Path, images: Sequence[Path], count: int, out: Path) -> None:
    """Write the page: photo, references, and each system's caption with its scores; sorted and filtered by difference.

    ``systems``: label -> folder of its scores. Without folders or zips of photos the page has none. ``count`` images
    are drawn at random where the split has more, the same on every run.
    """
    table = Corpus.read(corpus)
    scored = {label: ScoredCaptions.read(folder) for label, folder in systems.items()}
    first_label, first = next(iter(scored.items()))
    for label, each in scored.items():
        reason = not_comparable(first.signature, each.signature)
        if reason or set(each.captions) != set(first.captions):
            why = reason or "their images differ"
            raise MetricError(f"{plain(first_label)!r} and {plain(label)!r} cannot be compared: {why}")
    references = table.captions(first.split)
    unknown = sorted(set(first.captions) - set(references))
    if unknown:
        raise MetricError(f"{corpus}: has no test image {unknown[0]}, which {plain(first_label)!r} describes")
    ids = sorted(first.captions)
    metrics = [name for name in first.scores if all(name in each.scores for each in scored.values())]
    drawn = sorted(generator(0, "gallery").choice(len(ids), size=min(count, len(ids)), replace=False).tolist())
    source, names = ImageSource(list(images)) if images else None, table.files()
    photos = [
        {
            "id": image,
            "src": photo_address(read_photo(source, names[image]), _EDGE) if source else "",
            "references": list(map(plain, references[image])),
            "captions": [plain(each.captions[image]) for each in scored.values()],
            "scores": [[round(each.scores[name][image], 2) for name in metrics] for each in scored.values()],
        }
        for image in (ids[place] for place in drawn)
    ]
    share = "all" if len(drawn) == len(ids) else f"a random sample of {len(drawn):,} of {len(ids):,}"
    about = (
        f"{plain(table.dataset)}, split {first.split}: {share} images. Scores are of one image, on the scale of tables."
    )
    shown = {"about": about, "systems": [plain(label) for label in systems], "metrics": metrics, "photos": photos}
    write_text(out, environment("html", "recap.report").get_template("gallery.html").render(shown))
