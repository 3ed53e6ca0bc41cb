"""Every system's caption of test images beside photo and references, in one page that needs no network."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from recap.core.errors import DataError, MetricError
from recap.core.files import write_text
from recap.core.hashing import generator
from recap.data.corpus import VIEWS, Corpus
from recap.data.files.images import ImageSource
from recap.reporting.figures import side_by_side
from recap.reporting.text import plain
from recap.settings.metrics import score_info
from recap.statistics.scores import not_comparable, read_captions, read_image_scores, read_metrics

_EDGE, _QUALITY = 320, 80  # pixels of a photo's longer edge; of its JPEG
_DIGITS = 2


def write_gallery(*, systems: Mapping[str, Path], corpus: Path, images: Sequence[Path], count: int, out: Path) -> None:
    """Write the page: photo, references, and each system's caption with its scores; sorted and filtered by difference.

    Args:
        systems: label -> folder of its scores.
        corpus: of the data set that all of them describe.
        images: folders or zips with the photos; without any the page has none.
        count: images that are drawn at random where the split has more, the same on every run.
        out: the HTML.
    """
    table = Corpus.read(corpus)
    scored = {label: _Scored.read(folder) for label, folder in systems.items()}
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
    ids, metrics = (
        sorted(first.captions),
        [name for name in first.scores if all(name in x.scores for x in scored.values())],
    )
    drawn = sorted(generator(0, "gallery").choice(len(ids), size=min(count, len(ids)), replace=False).tolist())
    source, names = ImageSource(list(images)) if images else None, table.files()
    photos = [
        {
            "id": image,
            "src": _address(source, names[image]) if source else "",
            "references": [plain(text) for text in references[image]],
            "captions": [plain(each.captions[image]) for each in scored.values()],
            "scores": [[round(each.scores[name][image], _DIGITS) for name in metrics] for each in scored.values()],
        }
        for image in (ids[place] for place in drawn)
    ]
    share = "all" if len(drawn) == len(ids) else f"a random sample of {len(drawn):,} of {len(ids):,}"
    about = (
        f"{plain(table.dataset)}, split {first.split}: {share} images. Scores are of one image, on the scale of tables."
    )
    data = {"about": about, "systems": [plain(label) for label in systems], "metrics": metrics, "photos": photos}
    page = files("recap.reporting").joinpath("page/gallery.html").read_text(encoding="utf-8")
    write_text(out, page.replace("@DATA@", _as_script(data)))


class _Scored:
    """Captions and scores of one system by image."""

    def __init__(
        self, split: str, signature: str, captions: dict[int, str], scores: dict[str, dict[int, float]]
    ) -> None:
        self.split, self.signature, self.captions, self.scores = split, signature, captions, scores

    @classmethod
    def read(cls, folder: Path) -> _Scored:
        metrics = read_metrics(folder)
        columns = read_image_scores(folder, metrics.split)
        ids = columns.pop("image_id").tolist()
        scores = {
            name: dict(zip(ids, (score_info(name).scale * values).tolist(), strict=True))
            for name, values in columns.items()
            if metrics.scores.get(name) is not None
        }
        return cls(metrics.split, metrics.signature, read_captions(folder, metrics.split), scores)


def _address(source: ImageSource, file: str) -> str:
    """Return a photo as a data URI; of several views they stand side by side."""
    try:
        picture = side_by_side([source.open_rgb(name) for name in file.split(VIEWS)])
    except DataError as error:
        raise DataError(f"{error}; or leave --images out for a page without photos") from error
    picture.thumbnail((_EDGE, _EDGE))
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{b64encode(content.getvalue()).decode()}"


def _as_script(data: Mapping[str, Any]) -> str:
    """Return JSON that cannot end the element of the page that holds it."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
