"""The text that raters read before they begin: a template, which whoever runs a study completes and answers for."""

from __future__ import annotations

from importlib.resources import files

from recap.settings import Study

AGREED = "I have read this and take part."
_SECONDS = {"preference": 20, "questions": 15}  # per item, for the estimate of the minutes


def consent_paragraphs(study: Study, *, items: int, form: str) -> list[str]:
    """Return the paragraphs of the consent text of a form with ``items`` items; ``form`` is its id."""
    template = (files("recap.studies") / "form" / "consent.txt").read_text(encoding="utf-8")
    minutes = max(1, -(-items * _SECONDS[study.kind] // 60))
    text = template.format(items=items, minutes=minutes, sheet=form, contact=study.contact)
    return [part for part in text.split("\n\n") if part.strip()]
