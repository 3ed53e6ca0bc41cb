"""One rater's form as a web page without outside files: on the screen an item at a time, in print all of them.

Every text from a data set, a model or a parameter file is escaped, and the page's policy (CSP) lets no script run but
its own. Systems, setups and right answers are not in the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from html import escape
from importlib.resources import files

from recap.settings import Study
from recap.studies.sheets import Item, Sheet, Sheets

AGREED = "I have read this and take part."
_SECONDS = {"preference": 20, "questions": 15}  # per item, for the estimate of the minutes
EQUAL = "Some of these captions are the same. If you prefer one of those, choose any of them."
Source = Callable[[str], str]  # file of pictures.zip -> what `src` of its <img> is


@cache
def asset(name: str) -> str:
    """Return a file of the folder ``form``."""
    return (files("recap.studies") / "form" / name).read_text(encoding="utf-8")


def consent_paragraphs(study: Study, *, items: int, form: str) -> list[str]:
    """Return the paragraphs of the consent text of a form with ``items`` items; ``form`` is its id.

    The text is a template, which whoever runs a study completes and answers for.
    """
    minutes = max(1, -(-items * _SECONDS[study.kind] // 60))
    text = asset("consent.txt").format(items=items, minutes=minutes, sheet=form, contact=study.contact)
    return [part for part in text.split("\n\n") if part.strip()]


def policy() -> str:
    """Return the content security policy of a page: its own script and style, and pictures."""
    script, style = (
        base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode() for name in ("page.js", "page.css")
    )
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data: 'self' file:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def inside(pictures: dict[str, bytes]) -> Source:
    """Return a source of pictures that are part of the page."""
    return cache(lambda name: f"data:image/jpeg;base64,{base64.b64encode(pictures[name]).decode()}")


def beside(name: str) -> str:
    """Return the address of a picture in the folder beside the pages."""
    return f"pictures/{name}"


def page(sheets: Sheets, sheet: Sheet, source: Source, *, online: bool = False) -> str:
    """Return the page of one rater.

    Args:
        sheets: of the study.
        sheet: of the rater.
        source: where the pictures are.
        online: the answers are sent to the server that the page came from; else they are saved as a file.
    """
    total = len(sheet.items)
    consent = consent_paragraphs(sheets.study, items=total, form=sheet.id)
    end = "send your answers" if online else "save your answers as a file, and hand in that file"
    file = f"response-{escape(sheet.id)}.json"
    done = "Your answers were sent." if online else f"Your answers were saved as {file}. Hand in that file."
    return asset("page.html").format(
        policy=escape(policy()),
        style=asset("page.css"),
        script=asset("page.js"),
        heading=escape(sheets.study.heading),
        digest=sheets.digest,
        sheet=escape(sheet.id),
        online="yes" if online else "",
        total=total,
        consent="\n".join(f"<p>{escape(text)}</p>" for text in consent),
        agreed=AGREED,
        items="\n".join(_item(sheets, sheet, number, source) for number in range(1, total + 1)),
        end=end,
        done=done,
        finish="Send" if online else "Finish",
    )


def _item(sheets: Sheets, sheet: Sheet, number: int, source: Source) -> str:
    """Return one item: its pictures, the caption that a question is about, and the questions."""
    item = sheet.items[number - 1]
    pictures = "".join(
        f'<img src="{escape(source(name))}" alt="Image {place} of item {number}, to be judged by looking at it">'
        for place, name in enumerate(item.pictures, start=1)
    )
    preference = sheets.study.kind == "preference"
    shown = "" if preference else f'<p class="shown">{caption(item.captions[0])}</p>\n'
    instruction = "" if preference else f"<p>{escape(sheets.study.instruction)}</p>\n"
    questions = "\n".join(_question(sheets, item, number, *question) for question in sheets.questions.items())
    return f"""<fieldset class="item" data-item="{number}">
<legend tabindex="-1">Item {number} of {len(sheet.items)}<span class="paper">, form {escape(sheet.id)}</span></legend>
<div class="pictures">{pictures}</div>
{instruction}{shown}{questions}
</fieldset>"""


def _question(sheets: Sheets, item: Item, number: int, question: str, text: str) -> str:
    answers = sheets.answers(item)
    texts = [caption(each) for each in item.captions] if sheets.study.kind == "preference" else answers
    options = "\n".join(
        f'<label class="answer"><input type="radio" name="{number}.{escape(question)}" value="{answer}">'
        f'<span class="number">{place}</span><span>{shown}</span></label>'
        for place, (answer, shown) in enumerate(zip(answers, texts, strict=True), start=1)
    )
    # The chances of all systems stay equal where both are shown; a vote for one of them says that either is the best.
    equal = "" if len(set(item.captions)) == len(item.captions) else f"<p>{EQUAL}</p>\n"
    return f"""<fieldset class="question" data-question="{escape(question)}">
<legend>{escape(text)}</legend>
{equal}{options}
</fieldset>"""


def caption(text: str) -> str:
    """Return a caption as HTML; one that is written from right to left leaves the text around it in order."""
    return f'<bdi dir="auto">{escape(text)}</bdi>'
