"""A batch for a crowd platform: a CSV with one line per form, and the HTML template whose ``${columns}`` it fills.

The form is that of Mechanical Turk, which others read, too. The platform puts the cells into the template as they are,
so texts are HTML already; ``$`` and characters with which a spreadsheet begins a formula are written as references.
"""

from __future__ import annotations

from html import escape

from recap.core.files import csv_text
from recap.studies.page import AGREED, asset, consent_paragraphs
from recap.studies.sheets import Item, Sheets

_AS_REFERENCE = "=+-@$'\t\r"


def cell(text: str) -> str:
    """Return text as HTML that neither a spreadsheet nor the platform takes for anything else."""
    return "".join(f"&#{ord(char)};" if char in _AS_REFERENCE else escape(char) for char in text)


def batch_csv(sheets: Sheets) -> str:
    """Return the batch: ``sheet``, then per item its images and captions; shorter sheets leave the last ones empty."""
    captions = len(sheets.sheets[0].items[0].captions)
    longest = max(len(sheet.items) for sheet in sheets.sheets)
    names = [name for number in range(1, longest + 1) for name in _columns(number, captions)]
    rows = [["sheet", *names]]
    for sheet in sheets.sheets:
        cells = [sheet.id]
        for number, item in enumerate(sheet.items, start=1):
            # The pictures of an item at their public addresses.
            urls = [sheets.study.picture_url.replace("{file}", name) for name in item.pictures]
            images = "".join(f'<img src="{escape(url)}" alt="Image of item {number}">' for url in urls)
            cells += [images, *map(cell, item.captions)]
        rows.append([*cells, *[""] * (1 + len(names) - len(cells))])
    return csv_text(rows)


def template_html(sheets: Sheets) -> str:
    """Return the template of the batch; an answer has the name ``<item>.<question>`` in the platform's results."""
    by_length = sorted(sheets.sheets, key=lambda sheet: len(sheet.items))
    items = by_length[-1].items
    # An item that shorter sheets lack is hidden there (page.css), so it cannot be required.
    required = len(by_length[0].items)
    consent = consent_paragraphs(sheets.study, items=len(items), form="see the top")
    body = [_item(sheets, item, number, number <= required) for number, item in enumerate(items, start=1)]
    return f"""<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>
<style>{asset("page.css")}</style>
<crowd-form>
<main>
<h1>{cell(sheets.study.heading)} <span class="number">form ${{sheet}}</span></h1>
{"".join(f"<p>{cell(text)}</p>" for text in consent)}
<label class="answer"><input type="checkbox" name="consent" required><span>{AGREED}</span></label>
{"".join(body)}</main>
</crowd-form>
"""


def _columns(number: int, captions: int) -> list[str]:
    """Return the columns of one item."""
    return [f"images_{number}", *(f"caption_{number}_{place}" for place in range(1, captions + 1))]


def _item(sheets: Sheets, item: Item, number: int, required: bool) -> str:
    """Return one item of the template."""
    images, *names = _columns(number, len(item.captions))
    captions = [f'<bdi dir="auto">${{{name}}}</bdi>' for name in names]
    preference = sheets.study.kind == "preference"
    lines = ['<fieldset class="item">', f"<legend>Item {number}</legend>", f'<div class="pictures">${{{images}}}</div>']
    if not preference:
        lines += [f"<p>{cell(sheets.study.instruction)}</p>", f'<p class="shown">{captions[0]}</p>']
    for question, text in sheets.questions.items():
        answers = sheets.answers(item)
        lines += ['<fieldset class="question">', f"<legend>{cell(text)}</legend>"]
        for answer, shown in zip(answers, captions if preference else answers, strict=True):
            field = f'<input type="radio" name="{number}.{question}" value="{answer}"{" required" if required else ""}>'
            lines.append(f'<label class="answer">{field}<span>{shown}</span></label>')
        lines.append("</fieldset>")
    return "\n".join([*lines, "</fieldset>\n"])
