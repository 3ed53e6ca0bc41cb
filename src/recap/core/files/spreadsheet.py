"""Text in CSV files that people open with a spreadsheet."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so


def no_formula(text: str) -> str:
    """Return the text of a cell so that no spreadsheet takes it for a formula: after an apostrophe where it would."""
    return f"'{text}" if text.startswith(_FORMULA) else text
