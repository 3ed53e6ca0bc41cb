"""Makes a study from test captions: draws images,
gives them to raters, adds gold items, writes the forms.

Systems change places by Latin squares; the right answers to gold items are known.
"""

from __future__ import annotations

import io
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path

import numpy as np

from recap.core.checksums import check, record
from recap.core.documents import write_json
from recap.core.errors import DataError, counted
from recap.core.files import atomic_path, write_text
from recap.core.hashing import generator
from recap.core.log import log
from recap.data.caption_files import read_captions
from recap.data.corpus import Corpus, pictures_of
from recap.data.files.images import ImageSource
from recap.settings import Study
from recap.settings.studies import STUDY_FILES
from recap.studies.forms import crowd_files, data_uris, page
from recap.studies.sheets import BEST, Item, Sheet, Sheets
from recap.tables.text import EMPTY, plain

SPLIT = "test"
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip; equal pictures give equal bytes
_READABLE = 0o100644  # a file that all may read
# captions of other images among which those with the fewest common words are taken
_CANDIDATES = 200


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
    """Write the sheets of a study and its forms (`STUDY_FILES`) into ``out``; equal inputs give
    equal bytes.

    ``captions``: (setup, system) -> captions of the test split; ``scale``: how the models were
    trained, for the tables; ``images``: folders or zips with the pictures.
    """
    study.check_contact()
    data = Corpus.read(corpus)
    references = _references(data, raw=study.raw_references)
    shown = _captions(study, captions, data, references)
    raters = study_items(study, sorted(references.keys() - study.gold.captions.keys()))
    used = {item.image_id for item in chain.from_iterable(raters)}
    gold = gold_items(study, references, used)

    # Each picture gets a name that says nothing.
    ids = sorted(used | {item.image_id for item in gold})
    views = data.views()
    names: dict[int, list[str]] = defaultdict(list)
    pictures: dict[str, str] = {}
    for image in generator(study.seed, "study", "pictures").permutation(ids).tolist():
        for file in views[image]:
            name_of_file = f"{len(pictures) + 1:04}.jpg"
            names[image].append(name_of_file)
            pictures[name_of_file] = file

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
    _write(sheets, gold, pictures_of(corpus, images), out)
    log.info(
        f"study {name}: {counted(len(raters), 'sheet')}, {counted(len(pictures), 'picture')} -> "
        f"{out}"
    )
    return sheets


def williams_design(size: int) -> list[list[int]]:
    """Return orders of ``0 .. size-1`` in which each number stands equally often at each position.

    Also each number follows each other one equally often (Williams, 1949): of an even size there
    are ``size`` orders, of an odd one twice as many.
    """
    first = [0] + [(step + 1) // 2 if step % 2 else size - step // 2 for step in range(1, size)]
    square = []
    for row in range(size):
        square.append([(number + row) % size for number in first])
    if size % 2 == 0:
        return square
    return square + [order[::-1] for order in square]


def study_items(study: Study, test_images: Sequence[int]) -> list[list[Item]]:
    """Return the items of each rater, still without captions and pictures;
    each setup has other ``test_images``.

    The images are divided into groups of nearly equal size, at most ``study.items``, anew for each
    of ``study.raters`` repetitions. In a preference study one rater sees a group, with the captions
    of all systems. Else as many raters as there are systems do, each image with another system's
    caption.
    """
    count = study.images * len(study.setups)
    if count > len(test_images):
        raise DataError(
            f"the study draws {study.images} other images for each of {len(study.setups)} setups, "
            f"but the test split has {len(test_images)}; lower `images`"
        )
    drawn = generator(study.seed, "study", "draw").permutation(test_images)[:count].tolist()
    images = [(study.setups[place // study.images].id, image) for place, image in enumerate(drawn)]
    systems = [system.id for system in study.systems]
    raters = []
    for repetition in range(study.raters):
        random = generator(study.seed, "study", "images", repetition)
        for group in np.array_split(random.permutation(count), -(-count // study.items)):
            shown = [images[index] for index in group]
            if study.kind == "preference":
                raters.append(_preference_items(shown, systems, repetition, random))
            else:
                raters += _question_items(shown, systems, random)
    return raters


def _preference_items(
    images: Sequence[tuple[str, int]],
    systems: Sequence[str],
    repetition: int,
    random: np.random.Generator,
) -> list[Item]:
    """Return a rater's items, each with the captions of all systems."""
    # The raters of one image begin at different rows of the design, and so does each rater's next
    # image.
    design = williams_design(len(systems))
    rows = random.permutation(len(design))
    items = []
    for place, (setup, image) in enumerate(images):
        order = design[rows[(place + repetition) % len(design)]]
        shown = [systems[number] for number in order]
        items.append(Item(image_id=image, setup=setup, systems=shown))
    return items


def _question_items(
    images: Sequence[tuple[str, int]], systems: Sequence[str], random: np.random.Generator
) -> Iterator[list[Item]]:
    """Yield the items of as many raters as there are systems: each image, one system's caption."""
    for shift in range(len(systems)):
        items = []
        for place, (setup, image) in enumerate(images):
            system = systems[(place + shift) % len(systems)]
            items.append(Item(image_id=image, setup=setup, systems=[system]))
        yield [items[place] for place in random.permutation(len(items))]


def gold_items(study: Study, references: Mapping[int, list[str]], used: set[int]) -> list[Item]:
    """Return the gold items of a study, the same for every rater;
    their pictures are still to be added.

    Their images are those with a verified caption, and others that are not ``used`` with captions
    of the systems.
    Preference: a caption of the image among captions of other images. Questions: a caption of the
    image and of another image in turn.
    """
    random = generator(study.seed, "study", "gold")
    verified = study.gold.captions
    if unknown := [image for image in verified if image not in references]:
        raise DataError(
            f"gold.captions: image {unknown[0]} is not in the test split; name one that is"
        )
    images = sorted(verified)[: study.gold.count]
    missing = study.gold.count - len(images)
    free = sorted(references.keys() - used - verified.keys())
    if missing > len(free):
        raise DataError(
            f"{study.gold.count} gold items need as many images beside those of the study, but the "
            f"test split has {len(free)} left; lower `images` or `gold.count`"
        )
    images += random.permutation(free)[:missing].tolist()
    items = []
    for place, image in enumerate(images):
        own = plain(verified.get(image, "")) or str(random.choice(references[image]))
        if study.kind == "preference":
            captions = [own, *_of_others(image, references, len(study.systems) - 1, random)]
            order = random.permutation(len(captions)).tolist()
            captions = [captions[index] for index in order]
            right = {BEST: str(1 + order.index(0))}
        else:
            shown = "own" if place % 2 == 0 else "other"
            captions = [own] if shown == "own" else _of_others(image, references, 1, random)
            right = {}
            for question in study.questions:
                answer = getattr(question.gold, shown)
                if answer is not None:
                    right[question.id] = answer
        items.append(Item(image_id=image, captions=captions, right=right))
    return items


def _of_others(
    image: int, references: Mapping[int, list[str]], count: int, random: np.random.Generator
) -> list[str]:
    """Return captions of different images with the fewest words in common with an image's own."""
    own = set(" ".join(references[image]).lower().split())
    others = sorted(set(references) - {image})
    sample = random.permutation(others)[:_CANDIDATES].tolist()
    captions = [str(random.choice(references[other])) for other in sample]
    if len(captions) < count:
        raise DataError(
            f"gold items need captions of {count} other images, but the split has {len(captions)}"
        )
    common = [len(own & set(caption.lower().split())) for caption in captions]
    return [captions[index] for index in np.argsort(common, kind="stable")[:count]]


def _references(corpus: Corpus, *, raw: bool) -> dict[int, list[str]]:
    """Return the reference captions of each test image as raters see them, each on one line.

    ``raw``: as people wrote them; else the words of the corpus, as models write: capitals and full
    stops would tell raters which captions are of people.
    """
    texts: dict[int, list[str]] = {}
    if raw:
        texts = corpus.captions(SPLIT)
    else:
        images = corpus.image_id[corpus.rows(SPLIT)].tolist()
        for image, words in zip(images, corpus.token_lists(SPLIT), strict=True):
            texts.setdefault(image, []).append(" ".join(words))
    shown = {}
    for image, captions in texts.items():
        shown[image] = [plain(text) or EMPTY for text in captions]
    return shown


def _captions(
    study: Study,
    files: Mapping[tuple[str, str], Path],
    corpus: Corpus,
    references: Mapping[int, list[str]],
) -> dict[tuple[str, str], dict[int, str]]:
    """Return the captions of every setup and system, each on one line.

    Those of people are drawn from references.
    """
    pairs = list(product(study.setups, study.systems))
    models = {(setup.id, system.id) for setup, system in pairs if not system.reference}
    if wrong := sorted(models ^ files.keys()):
        wanted = ", ".join("/".join(pair) for pair in sorted(models))
        raise DataError(
            f"--captions {'/'.join(wrong[0])}=FILE: the study needs one file of each of {wanted}"
        )
    captions = {}
    for setup, system in pairs:
        pair = (setup.id, system.id)
        if system.reference:
            random = generator(study.seed, "study", "references", *pair)
            texts = {image: str(random.choice(own)) for image, own in references.items()}
        else:
            check(files[pair])
            texts = read_captions(files[pair], corpus, SPLIT)
        captions[pair] = {image: plain(text) or EMPTY for image, text in texts.items()}
    return captions


def _write(sheets: Sheets, gold: Sequence[Item], source: ImageSource, out: Path) -> None:
    """Write all files of `STUDY_FILES`."""
    from PIL.Image import Resampling

    pictures = {}
    for name, file in sheets.pictures.items():
        buffer = io.BytesIO()
        picture = source.open_rgb(file)
        picture.thumbnail((sheets.study.pixels, sheets.study.pixels), Resampling.LANCZOS)
        picture.save(buffer, format="JPEG", quality=85, optimize=True)  # without metadata
        pictures[name] = buffer.getvalue()
    _write_zip(out / "pictures.zip", pictures.items())
    within = sheets.study.pictures == "inside"
    where = data_uris(pictures) if within else "pictures/{}".format
    pages = ((f"{sheet.id}.html", page(sheets, sheet, where).encode()) for sheet in sheets.sheets)
    folder = {} if within else {f"pictures/{name}": content for name, content in pictures.items()}
    _write_zip(out / "pages.zip", chain(pages, folder.items()))
    batch, template = crowd_files(sheets)
    write_text(out / "batch.csv", batch)
    write_text(out / "template.html", template)
    write_text(out / "gold.md", _gold_text(sheets, gold))
    write_json(out / "sheets.json", sheets.model_dump(mode="json"))
    record(*(out / name for name in STUDY_FILES))


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
    with (
        atomic_path(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, content in members:
            info = zipfile.ZipInfo(name, _EARLIEST)
            info.external_attr = _READABLE << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
