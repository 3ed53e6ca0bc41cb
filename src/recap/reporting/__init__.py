"""Tables (LaTeX, CSV, Markdown, HTML) and figures of finished runs; does not import torch."""
