"""Colours of lines in figures."""

# Colours that colour-blind readers can distinguish (Okabe and Ito); further lines repeat them.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
