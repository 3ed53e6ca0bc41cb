"""What a training stage minimises: one stage per file."""
