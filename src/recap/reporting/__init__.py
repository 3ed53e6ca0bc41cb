"""Tables (LaTeX, CSV, Markdown) and contact sheets; never torch."""
