"""Makes a study from test captions: draws images, gives them to raters, adds gold items, writes the forms."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from recap.core.checksums import check, record
from recap.core.documents import write_json
from recap.core.errors import DataError, counted
from recap.core.files import atomic_path, reading, write_text
from recap.core.hashing import generator
from recap.core.log import log
from recap.data.caption_files import read_captions
from recap.data.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.settings import Study
from recap.studies.design import gold_items, study_items
from recap.studies.forms import crowd_files, inside, page
from recap.studies.sheets import Item, Sheet, Sheets
from recap.tables.text import plain

FILES = ("sheets.json", "gold.md", "pictures.zip", "pages.zip", "batch.csv", "template.html")
SPLIT = "test"
EMPTY = "(empty caption)"
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip; equal pictures give equal bytes
_READABLE = 0o100644  # a file that all may read


def make_study(
    *,
    name: str,
    study: Study,
    scale: str,
    captions: Mapping[tuple[str, str], Path],
    corpus: Path,
    images: Sequence[Path],
    out: Path,
) -> Sheets:
    """Write the sheets of a study and its forms (`FILES`) into ``out``; equal inputs give equal bytes.

    ``captions``: (setup, system) -> captions of the test split; ``scale``: how the models were trained, for the tables;
    ``images``: folders or zips with the pictures.
    """
    study.check_contact()
    data = Corpus.read(corpus)
    references = _references(data, raw=study.raw_references)
    shown = _captions(study, captions, data, references)
    raters = study_items(study, sorted(references.keys() - study.gold.captions.keys()))
    used = {item.image_id for rater in raters for item in rater}
    gold = gold_items(study, references, used)

    # Each picture gets a name that says nothing.
    ids = sorted(used | {item.image_id for item in gold})
    views, pictures = data.views(), dict[str, str]()
    names: dict[int, list[str]] = {image: [] for image in ids}
    for place in generator(study.seed, "study", "pictures").permutation(len(ids)):
        for file in views[ids[place]]:
            names[ids[place]].append(f"{len(pictures) + 1:04}.jpg")
            pictures[names[ids[place]][-1]] = file

    for item in chain(*raters, gold):
        item.pictures = names[item.image_id]
        if not item.gold:
            item.captions = [shown[item.setup, system][item.image_id] for system in item.systems]
    filled = []
    for number, rater in enumerate(raters, start=1):
        items = [*rater, *gold]
        order = generator(study.seed, "study", "items", number).permutation(len(items))
        filled.append(Sheet(id=f"{number:03}", items=[items[index] for index in order]))
    sheets = Sheets(name=name, study=study, scale=scale, pictures=pictures, sheets=filled)
    _write(sheets, gold, ImageSource(list(images)), out)
    log.info(f"study {name}: {counted(len(raters), 'sheet')}, {counted(len(pictures), 'picture')} -> {out}")
    return sheets


def _references(corpus: Corpus, *, raw: bool) -> dict[int, list[str]]:
    """Return the reference captions of each test image as raters see them, each on one line.

    ``raw``: as people wrote them; else the words of the corpus, as models write: capitals and full stops would tell
    raters which captions are of people.
    """
    texts: dict[int, list[str]] = {}
    if raw:
        texts = corpus.captions(SPLIT)
    else:
        images = corpus.image_id[corpus.rows(SPLIT)].tolist()
        for image, words in zip(images, corpus.token_lists(SPLIT), strict=True):
            texts.setdefault(image, []).append(" ".join(words))
    return {image: [plain(text) or EMPTY for text in captions] for image, captions in texts.items()}


def _captions(
    study: Study, files: Mapping[tuple[str, str], Path], corpus: Corpus, references: Mapping[int, list[str]]
) -> dict[tuple[str, str], dict[int, str]]:
    """Return the captions of every setup and system, each on one line; those of people are drawn from references."""
    pairs = [(setup.id, system) for setup in study.setups for system in study.systems]
    models = {(setup, system.id) for setup, system in pairs if not system.reference}
    if wrong := sorted(models ^ files.keys()):
        wanted = ", ".join("/".join(pair) for pair in sorted(models))
        raise DataError(f"--captions {'/'.join(wrong[0])}=FILE: the study needs one file of each of {wanted}")
    captions = {}
    for setup, system in pairs:
        if system.reference:
            random = generator(study.seed, "study", "references", setup, system.id)
            texts = {image: str(random.choice(own)) for image, own in references.items()}
        else:
            check(files[setup, system.id])
            texts = read_captions(files[setup, system.id], corpus, SPLIT)
        captions[setup, system.id] = {image: plain(text) or EMPTY for image, text in texts.items()}
    return captions


def _write(sheets: Sheets, gold: Sequence[Item], source: ImageSource, out: Path) -> None:
    """Write all files of `FILES`."""
    from PIL.Image import Resampling

    pictures = {}
    for name, file in sheets.pictures.items():
        picture, buffer = source.open_rgb(file), io.BytesIO()
        picture.thumbnail((sheets.study.pixels, sheets.study.pixels), Resampling.LANCZOS)
        picture.save(buffer, format="JPEG", quality=85, optimize=True)  # without metadata
        pictures[name] = buffer.getvalue()
    _write_zip(out / "pictures.zip", pictures.items())
    within = sheets.study.pictures == "inside"
    where = inside(pictures) if within else "pictures/{}".format
    pages = ((f"{sheet.id}.html", page(sheets, sheet, where).encode()) for sheet in sheets.sheets)
    folder = {} if within else {f"pictures/{name}": content for name, content in pictures.items()}
    _write_zip(out / "pages.zip", chain(pages, folder.items()))
    batch, template = crowd_files(sheets)
    write_text(out / "batch.csv", batch)
    write_text(out / "template.html", template)
    write_text(out / "gold.md", _gold_text(sheets, gold))
    write_json(out / "sheets.json", sheets.model_dump(mode="json"))
    record(*(out / name for name in FILES))


def _gold_text(sheets: Sheets, gold: Sequence[Item]) -> str:
    """Return the gold items for the person who must check them before anyone is asked."""
    lines = [
        "# Gold items\n",
        "Look at each image: is the right answer right? Raters who differ from it are left out.\n",
        "If not, name images with captions that you have verified in `gold.captions` of the study.",
    ]
    for item in gold:
        files = ", ".join(sheets.pictures[name] for name in item.pictures)
        right = ", ".join(f"{question}: {answer}" for question, answer in item.right.items())
        lines.append(f"\n## image {item.image_id}: {files}\n\nRight answer: {right}\n")
        lines += [f"    {number}. {text}" for number, text in enumerate(item.captions, start=1)]
    return "\n".join(lines) + "\n"


def _write_zip(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, _EARLIEST)
            info.external_attr = _READABLE << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)


def read_pictures(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the pictures of ``pictures.zip`` by name."""
    with reading(path, damaged="rebuild it with `recap study sheets`"), zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in names}
