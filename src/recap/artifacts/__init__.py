"""Finished results as a whole: checked, brought to and from a DVC remote, removed."""
