"""What is only there to be fast; the results are those of plain torch up to rounding."""
