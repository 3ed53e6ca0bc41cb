"""Finished results: verify them, push and pull them with DVC, remove them."""
