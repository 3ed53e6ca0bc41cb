"""Makes a study from test captions: draws images, gives them to raters, adds gold items, writes the forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from recap.core import checksums
from recap.core.errors import DataError, counted
from recap.core.files import write_text
from recap.core.hashing import generator
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.settings import Study
from recap.studies.captions import read_captions_of, reference_captions
from recap.studies.crowd import batch_csv, template_html
from recap.studies.design import Task, preference_tasks, question_tasks
from recap.studies.gold import gold_items
from recap.studies.page import beside, inside, page
from recap.studies.pictures import picture_bytes, write_zip
from recap.studies.sheets import Item, Sheet, Sheets, sheet_id, write_sheets

FILES = ("sheets.json", "gold.md", "pictures.zip", "pages.zip", "batch.csv", "template.html")
SPLIT = "test"


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
    """Write the sheets of a study and its forms (`FILES`); equal inputs give equal bytes.

    Args:
        name: of the study.
        study: its settings.
        scale: sentence about how the models were trained, for the tables.
        captions: (setup, system) -> captions of the test split in COCO's results form.
        corpus: with references and files.
        images: folders or zips with the pictures.
        out: folder.
    """
    study.check_contact()
    found = Corpus.read(corpus)
    references = reference_captions(found, SPLIT, raw=study.raw_references)
    shown = read_captions_of(study, captions, references)
    for setup in study.setups:
        shown.setdefault(setup.id, {}).update(_reference_captions(study, setup.id, references))
    tasks = study_tasks(study, sorted(set(references) - set(study.gold.captions)))
    gold = gold_items(study, references, {task.image_id for rater in tasks for task in rater})
    names, pictures = _name_pictures(study, tasks, gold, found.views())
    made = []
    for number, rater in enumerate(tasks, start=1):
        items = [
            Item(
                image_id=task.image_id,
                setup=task.setup,
                systems=list(task.systems),
                captions=[shown[task.setup][system][task.image_id] for system in task.systems],
                pictures=[],
            )
            for task in rater
        ]
        items += [item.model_copy() for item in gold]
        order = generator(study.seed, "study", "items", number).permutation(len(items))
        items = [items[index].model_copy(update={"pictures": names[items[index].image_id]}) for index in order]
        made.append(Sheet(id=sheet_id(number), items=items))
    sheets = Sheets(name=name, study=study, scale=scale, pictures=pictures, sheets=made)
    _write(sheets, gold, ImageSource(list(images)), out)
    made_of = f"{counted(len(sheets.sheets), 'sheet')}, {counted(len(sheets.pictures), 'picture')}"
    log.info(f"study {name}: {made_of} -> {out}")
    return sheets


def study_tasks(study: Study, test_images: Sequence[int]) -> list[list[Task]]:
    """Return the tasks of each rater of a study; its images are drawn from ``test_images``."""
    needed = study.images * len(study.setups)
    if needed > len(test_images):
        raise DataError(
            f"the study draws {study.images} other images for each of {len(study.setups)} setups, but the test split "
            f"has {len(test_images)}; lower `images`"
        )
    order = generator(study.seed, "study", "draw").permutation(len(test_images))[:needed]
    pieces = order.reshape(len(study.setups), study.images).tolist()
    drawn = {setup.id: [test_images[i] for i in piece] for setup, piece in zip(study.setups, pieces, strict=True)}
    systems = [system.id for system in study.systems]
    amounts = {"raters": study.raters, "items": study.items, "seed": study.seed}
    if study.kind == "preference":
        return preference_tasks(drawn, systems, **amounts)
    (setup,) = drawn
    return question_tasks(drawn[setup], systems, setup=setup, **amounts)


def _reference_captions(study: Study, setup: str, references: Mapping[int, list[str]]) -> dict[str, dict[int, str]]:
    """Return a reference caption of each image for each system that stands for them."""
    found: dict[str, dict[int, str]] = {}
    for system in study.systems:
        if system.reference:
            random = generator(study.seed, "study", "references", setup, system.id)
            found[system.id] = {image: str(random.choice(captions)) for image, captions in references.items()}
    return found


def _name_pictures(
    study: Study, tasks: Sequence[Sequence[Task]], gold: Sequence[Item], views: Mapping[int, list[str]]
) -> tuple[dict[int, list[str]], dict[str, str]]:
    """Give each picture a name that says nothing; return the names by image, and the files by name."""
    ids = sorted({task.image_id for rater in tasks for task in rater} | {item.image_id for item in gold})
    order = generator(study.seed, "study", "pictures").permutation(len(ids))
    names: dict[int, list[str]] = {}
    files: dict[str, str] = {}
    for image in (ids[place] for place in order):
        for file in views[image]:
            name = f"{len(files) + 1:04}.jpg"
            files[name] = file
            names.setdefault(image, []).append(name)
    return names, files


def _write(sheets: Sheets, gold: Sequence[Item], source: ImageSource, out: Path) -> None:
    """Write all files of `FILES`."""
    pixels = sheets.study.pixels
    pictures = {name: picture_bytes(source, file, pixels) for name, file in sheets.pictures.items()}
    write_zip(out / "pictures.zip", pictures.items())
    within = sheets.study.pictures == "inside"
    where = inside(pictures) if within else beside
    pages = ((f"{sheet.id}.html", page(sheets, sheet, where).encode()) for sheet in sheets.sheets)
    folder = () if within else ((f"pictures/{name}", content) for name, content in pictures.items())
    write_zip(out / "pages.zip", (member for members in (pages, folder) for member in members))
    write_text(out / "batch.csv", batch_csv(sheets))
    write_text(out / "template.html", template_html(sheets))
    write_text(out / "gold.md", _gold_text(sheets, gold))
    write_sheets(sheets, out / "sheets.json")
    checksums.record(*(out / name for name in FILES))


def _gold_text(sheets: Sheets, gold: Sequence[Item]) -> str:
    """Return the gold items for the person who must check them before anyone is asked."""
    files: dict[int, str] = {}
    for sheet in sheets.sheets[:1]:
        files = {item.image_id: ", ".join(sheets.pictures[name] for name in item.pictures) for item in sheet.items}
    lines = [
        "# Gold items",
        "",
        "Look at each image: is the right answer right? Raters who differ from it are left out.",
        "",
    ]
    lines.append("If not, name images with captions that you have verified in `gold.captions` of the study.")
    for item in gold:
        right = ", ".join(f"{question}: {answer}" for question, answer in item.right.items())
        lines += ["", f"## image {item.image_id}: {files.get(item.image_id, '')}", "", f"Right answer: {right}", ""]
        lines += [f"    {number}. {text}" for number, text in enumerate(item.captions, start=1)]
    return "\n".join(lines) + "\n"
