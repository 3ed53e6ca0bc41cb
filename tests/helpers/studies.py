"""Small human studies: a corpus with pictures, captions of systems, and the forms made of them."""

import json
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from helpers.generators import save_lying
from recap.data.corpus import Caption, write_corpus
from recap.settings import Study
from recap.settings.params import merged, resolve, validate
from recap.studies.make import make_study
from recap.studies.responses import Response, import_responses
from recap.studies.sheets import Sheets

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = (
    '<script>alert("x")</script>',
    "=cmd|' /C calc'!A0",
    r"\input{/etc/passwd} $x^2$ 100% & #1 ~",
    "\u202eשלום עולם\u202c a dog",
    "a cat 😺 on a mat 👩‍👧",
    "\"quoted\" 'text', with; commas",
    "${sheet} {{x}}",
    "@SUM(1)\tx\nsecond line",
)


@dataclass
class MadeStudy:
    """A study in a folder."""

    folder: Path
    sheets: Sheets

    def imported(self, path, out):
        """Import the responses of a file or folder."""
        return import_responses(sheets=self.folder / "sheets.json", responses=[path], out=out)

    def responses(self, choose):
        """Return a response per sheet; ``choose(item, question)``
        says what is answered to items that are not gold."""
        result = []
        for sheet in self.sheets.sheets:
            answers = {
                str(number): {
                    question: item.right.get(question)
                    or ("no" if item.gold else choose(item, question))
                    for question in self.sheets.questions
                }
                for number, item in enumerate(sheet.items, start=1)
            }
            values = {"consent": True, "finished": True, "answers": answers}
            result.append(Response(study=self.sheets.digest, sheet=sheet.id, **values))
        return result


def position_of(item, system):
    """Return the answer that votes for a system."""
    return str(item.systems.index(system) + 1)


def study_of(name, **changes) -> Study:
    """Return a study of params/ with changes."""
    values = merged(resolve(ROOT / "params", "studies", name), changes)
    return validate(Study, values, name)


def write_world(folder, images, phone=False):
    """Write a corpus of ``images`` test images with two captions each,
    and their pictures, as a phone stores them."""
    rows = []
    for number in range(2 * images):
        image, text = number // 2, f"Reference {number % 2} of picture {number // 2}"
        rows.append(Caption(image, f"{image}.png", "test", number, text, text.lower().split()))
    rows += [Caption(images, "t.png", "train", 2 * images, "x", ["x"])]
    rows += [Caption(images + 1, "v.png", "val", 2 * images + 2, "x", ["x"])]
    write_corpus(
        rows,
        folder / "corpus.parquet",
        dataset="d",
        kind="scenes",
        source_sha256="0",
        upright=phone,
    )
    (folder / "photos").mkdir(exist_ok=True)
    for image in range(images):
        picture = Image.new("RGB", (48, 32), (image % 256, 200, 90))
        path = folder / "photos" / f"{image}.png"
        save_lying(picture, path, 6) if phone else picture.save(path)


def write_captions(path, captions):
    """Write captions in COCO's results form."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps([{"image_id": image, "caption": text} for image, text in captions.items()])
    )
    return path


def make(folder, study, images, *, name="made", text=None, phone=False) -> MadeStudy:
    """Make a study of ``images`` test images.

    ``text(system, image)`` is the caption of a system.
    """
    text = text or (
        lambda system, image: f"caption {sum(map(ord, system)) % 97} for picture {image}"
    )
    write_world(folder, images, phone)
    files = {
        (setup.id, system.id): write_captions(
            folder / setup.id / system.id / "captions.test.json",
            {i: text(system.id, i) for i in range(images)},
        )
        for setup in study.setups
        for system in study.systems
        if not system.reference
    }
    sheets = make_study(
        name=name,
        study=study,
        scale="by hand",
        captions=files,
        corpus=folder / "corpus.parquet",
        images=[folder / "photos"],
        out=folder / "study",
    )
    return MadeStudy(folder / "study", sheets)
