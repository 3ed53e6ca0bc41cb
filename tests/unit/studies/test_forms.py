"""Forms of a study: balanced, blind, the same on every run, and captions in them are text."""

import csv
import io
import re
import shutil
import subprocess
import zipfile
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers.pages import Page
from helpers.refusals import refused
from helpers.studies import HOSTILE, make, study_of, write_world
from recap.core.errors import ConfigError, DamagedFile, DataError
from recap.settings.studies import STUDY_FILES
from recap.studies.forms import EQUAL, asset
from recap.studies.make import make_study, study_items, williams_design
from recap.studies.sheets import read_sheets

pytestmark = pytest.mark.seconds

SMALL = {"images": 8, "items": 6, "pixels": 64}
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "google-chrome", "microsoft-edge"))), None
)


def hostile(system, image):
    return f"{HOSTILE[image % len(HOSTILE)]} {system[0]}{system[0]}"


@pytest.fixture(scope="module", params=["visualgpt/t6", "visualgpt/t7"])
def forms(request, tmp_path_factory):
    """A study of hostile captions."""
    study = study_of(request.param, **SMALL)
    return make(tmp_path_factory.mktemp("hostile"), study, 40, name=request.param, text=hostile)


def pages(forms):
    with zipfile.ZipFile(forms.folder / "pages.zip") as archive:
        return {
            name: archive.read(name).decode()
            for name in archive.namelist()
            if name.endswith(".html")
        }


def test_raters_see_photos_of_a_phone_upright(tmp_path):
    made = make(tmp_path, study_of("visualgpt/t6", **SMALL), 40, phone=True)
    with zipfile.ZipFile(made.folder / "pictures.zip") as archive:
        sizes = {Image.open(io.BytesIO(archive.read(name))).size for name in archive.namelist()}
    assert sizes == {(48, 32)}


@given(st.integers(2, 9))
@settings(deadline=None)
def test_in_a_latin_square_each_number_is_equally_often_everywhere_and_behind_each_other(size):
    square = williams_design(size)
    assert all(sorted(order) == list(range(size)) for order in square)
    for position in range(size):
        assert len(set(Counter(order[position] for order in square).values())) == 1
    pairs = Counter(pair for order in square for pair in zip(order, order[1:], strict=False))
    assert len(pairs) == size * (size - 1) and len(set(pairs.values())) == 1


@given(
    st.integers(1, 30), st.integers(2, 6), st.integers(1, 4), st.integers(1, 12), st.integers(0, 99)
)
@settings(deadline=None, max_examples=50)
def test_every_image_is_seen_by_as_many_raters_as_asked_and_by_none_twice(
    images, systems, raters, items, seed
):
    names = [{"id": f"s{number}", "label": "S"} for number in range(systems)]
    setups = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
    amounts = {"images": images, "raters": raters, "items": items, "seed": seed, "systems": names}
    lists = study_items(study_of("recap/preference", **amounts, setups=setups), range(70))
    assert all(
        len(tasks) <= items and len({task.image_id for task in tasks}) == len(tasks)
        for tasks in lists
    )
    assert set(Counter(task.image_id for tasks in lists for task in tasks).values()) == {raters}
    for tasks in lists:
        first = Counter(task.systems[0] for task in tasks)
        assert max(first.values()) - min(first[name["id"]] for name in names) <= (
            1 if systems % 2 == 0 else 2
        )
    lists = study_items(study_of("recap/objects", **amounts, setups=setups[:1]), range(70))
    seen = Counter((task.image_id, *task.systems) for tasks in lists for task in tasks)
    assert set(seen.values()) == {raters} and len(seen) == images * systems
    for tasks in lists:
        assert len({task.image_id for task in tasks}) == len(tasks) <= items
        shown = Counter(task.systems[0] for task in tasks)
        assert max(shown.values()) - min(shown[name["id"]] for name in names) <= 1


def test_every_rater_sees_all_gold_items_and_each_has_a_right_answer(forms):
    for sheet in forms.sheets.sheets:
        gold = [item for item in sheet.items if item.gold]
        assert len(gold) == 5 and all(item.right for item in gold)
        assert not {item.image_id for item in gold} & {
            item.image_id for item in sheet.items if not item.gold
        }
    orders = {
        tuple(place for place, item in enumerate(sheet.items) if item.gold)
        for sheet in forms.sheets.sheets
    }
    assert len(orders) > 1


def test_verified_gold_items_are_shown_with_their_caption_and_their_images_with_no_other(tmp_path):
    verified = {image: f"verified {image}" for image in range(5)}
    forms = make(
        tmp_path, study_of("visualgpt/t6", images=8, items=6, gold={"captions": verified}), 29
    )
    for sheet in forms.sheets.sheets:
        gold = [item for item in sheet.items if item.gold]
        assert {
            item.image_id: item.captions[int(item.right["best"]) - 1] for item in gold
        } == verified
        assert not set(verified) & {item.image_id for item in sheet.items if not item.gold}
    with refused(DataError, "image 99"):
        make(
            tmp_path, study_of("visualgpt/t6", images=8, items=6, gold={"captions": {99: "x"}}), 29
        )


def test_hostile_captions_are_text_in_every_page(forms):
    result = pages(forms)
    assert len(result) == len(forms.sheets.sheets)
    for sheet, text in zip(forms.sheets.sheets, result.values(), strict=True):
        read = Page(text)
        assert len(read.all("script")) == len(read.all("style")) == 1
        assert not [name for name, _ in read.attributes if name.startswith("on")]
        assert read.bdi == [caption for item in sheet.items for caption in item.captions]
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)


def test_pages_fetch_nothing_and_run_no_script_but_their_own(forms):
    for text in pages(forms).values():
        read = Page(text)
        sources = [value for name, value in read.attributes if name in ("src", "href")]
        assert all(value.startswith(("data:", "pictures/")) for value in sources)
        (policy,) = [
            value
            for _, value in read.attributes
            if value and value.startswith("default-src 'none'")
        ]
        assert "unsafe" not in policy and "http" not in policy
        assert text.count(asset("page.js")) == 1


def test_pages_tell_neither_systems_nor_setups_nor_right_answers(forms):
    study = forms.sheets.study
    secrets = {study.title, forms.sheets.name, *(system.label for system in study.systems)}
    secrets |= {f'"{system.id}"' for system in study.systems} | {
        setup.label for setup in study.setups
    }
    secrets |= set(forms.sheets.pictures.values())
    for text in pages(forms).values():
        own = text.replace(asset("page.js"), "").replace(asset("page.css"), "")
        own = re.sub('<bdi.*?</bdi>|data:image[^"]*', "", own)
        assert not [secret for secret in secrets if secret in own and secret not in study.heading]


def test_the_filled_template_of_a_crowd_platform_shows_captions_as_text(forms):
    template = (forms.folder / "template.html").read_text(encoding="utf-8")
    rows = list(
        csv.DictReader(io.StringIO((forms.folder / "batch.csv").read_text(encoding="utf-8")))
    )
    assert set(re.findall(r"\$\{(\w+)\}", template)) == set(rows[0])
    for row, sheet in zip(rows, forms.sheets.sheets, strict=True):
        assert row["sheet"] == sheet.id
        # No cell begins a formula of a spreadsheet, or fills a column of the template.
        assert not [
            cell
            for cell in row.values()
            if cell.startswith(("=", "+", "-", "@", "\t", "\r")) or "${" in cell
        ]
        read = Page(re.sub(r"\$\{(\w+)\}", lambda result, row=row: row[result[1]], template))
        assert len(read.all("script")) == 1 and not [
            name for name, _ in read.attributes if name.startswith("on")
        ]
        assert read.bdi == [caption for item in sheet.items for caption in item.captions]
        chosen = {
            tuple(value.split("."))
            for name, value in read.attributes
            if name == "name" and value[0].isdigit()
        }
        assert chosen == {
            (number, question) for number in sheet.numbered for question in forms.sheets.questions
        }


def test_equal_inputs_give_equal_files_and_another_seed_another_study(tmp_path):
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / folder).mkdir()
        make(tmp_path / folder, study_of("visualgpt/t6", **SMALL, seed=seed), 40)
    for name in STUDY_FILES:
        first, second, other = (
            (tmp_path / folder / "study" / name).read_bytes() for folder in "abc"
        )
        assert first == second
        assert first != other or name == "template.html"


def test_changed_sheets_are_refused(forms, tmp_path):
    path = tmp_path / "sheets.json"
    text = (forms.folder / "sheets.json").read_text(encoding="utf-8")
    path.write_text(text)
    assert read_sheets(path).model_dump() == forms.sheets.model_dump()
    path.write_text(text.replace('"image_id": ', '"image_id": 1', 1))
    with refused(DamagedFile, "sheets.json", "items"):
        read_sheets(path)
    path.write_text("[]")
    with refused(DamagedFile, "sheets.json"):
        read_sheets(path)


def test_captions_are_needed_of_each_model_and_of_no_other(tmp_path):
    study = study_of("recap/preference", images=4, setups=[{"id": "a", "label": "A"}])
    write_world(tmp_path, 20)
    (tmp_path / "few.json").write_text('[{"image_id": 3, "caption": "x"}]')
    places = {
        "corpus": tmp_path / "corpus.parquet",
        "images": [tmp_path / "photos"],
        "out": tmp_path / "out",
    }
    for systems, named in (
        (["transformer"], "--captions a/acf=FILE"),
        (["transformer", "acf", "x"], "--captions a/x=FILE"),
        (["transformer", "acf"], "few.json"),
    ):
        captions = {("a", system): tmp_path / "few.json" for system in systems}
        with refused(DataError, named):
            make_study(name="x", study=study, scale="", captions=captions, **places)
    assert not (tmp_path / "out").exists()


def test_references_are_shown_in_the_words_of_the_corpus_unless_asked_otherwise(tmp_path):
    def shown(folder, **changes):
        (tmp_path / folder).mkdir()
        forms = make(
            tmp_path / folder, study_of("recap/preference", images=4, items=4, **changes), 20
        )
        return {
            caption
            for sheet in forms.sheets.sheets
            for item in sheet.items
            for system, caption in zip(item.systems, item.captions, strict=False)
            if system == "reference"
        }

    words, raw = shown("words"), shown("raw", raw_references=True)
    assert words == {text.lower() for text in raw} and words.isdisjoint(raw)


def browse(tmp_path, text, *options):
    """Open a page in the browser and return what it prints."""
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    command = [
        BROWSER,
        "--headless",
        "--disable-gpu",
        "--no-sandbox",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    command += [*options, (tmp_path / "page.html").as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_form_is_printed_on_a4_with_several_items_to_a_page(tmp_path):
    forms = make(
        tmp_path,
        study_of("recap/preference", images=15, items=15, pixels=64, raters=2),
        40,
        text=hostile,
    )
    pdf = tmp_path / "page.pdf"
    browse(tmp_path, pages(forms)["001.html"], "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
    sizes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf.read_bytes())
    assert {(round(float(width)), round(float(height))) for width, height in sizes} == {(595, 842)}
    assert len(sizes) <= 6  # 20 items after the consent text
    if shutil.which("pdftotext"):
        command = ["pdftotext", "-layout", str(pdf), "-"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert all(f"Item {number} of 20, form 001" in printed for number in range(1, 21))
        assert "Go on later" not in printed


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_enter_begins_the_form_and_the_end_says_that_it_is_finished(tmp_path):
    forms = make(tmp_path, study_of("recap/preference", **SMALL), 20)
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", pages(forms)["001.html"])
    script = """<script>
    const seen = document.body.dataset;
    // a download that has begun can keep a busy browser from ending
    HTMLAnchorElement.prototype.click = () => {};
    const key = new KeyboardEvent("keydown", { key: "Enter", bubbles: true });
    const enter = () => element("agree").dispatchEvent(key);
    enter();
    seen.before = element("consent-part").hidden;
    element("agree").click();
    enter();
    seen.begun = element("consent-part").hidden;
    for (const question of document.querySelectorAll(".question"))
      question.querySelector("input").click();
    show(items.length);
    seen.ready = `${element("finish").textContent} ${element("done-part").hidden}`;
    element("finish").click();
    seen.finished = `${element("finish").textContent} ${element("done-part").hidden}`;
    document.querySelector(".question input:not(:checked)").click();
    show(items.length);
    seen.changed = `${element("finish").textContent} ${element("done-part").hidden}`;
    </script></body>"""
    (body,) = re.findall(
        "<body[^>]*>", browse(tmp_path, text.replace("</body>", script), "--dump-dom")
    )
    seen = dict(re.findall('data-([a-z]+)="([^"]*)"', body))
    assert (seen["before"], seen["begun"]) == ("false", "true")
    assert seen["ready"] == seen["changed"] == "Finish true"
    assert seen["finished"] == "Save the file again false"


def test_raters_are_told_when_captions_are_the_same(tmp_path):
    def text(system, image):
        return f"caption of {image}" if image % 2 else f"caption of {image} by {system}"

    forms = make(tmp_path, study_of("recap/preference", **SMALL), 20, text=text)
    for sheet, content in zip(forms.sheets.sheets, pages(forms).values(), strict=True):
        told = [EQUAL in item for item in content.split("<legend tabindex")[1:]]
        assert told == [len(set(item.captions)) < len(item.captions) for item in sheet.items]
        assert any(told)


def test_forms_for_people_need_somebody_whom_raters_can_ask(tmp_path):
    for responses in (None, "people"):
        with refused(ConfigError, "`contact`"):
            make(tmp_path, study_of("visualgpt/t6", **SMALL, responses=responses), 40)
    assert not (tmp_path / "study").exists()
    forms = make(
        tmp_path, study_of("visualgpt/t6", **SMALL, responses=None, contact="Ada, Room 1"), 40
    )
    assert all("Questions about the study: Ada, Room 1" in text for text in pages(forms).values())
