"""Conceptual Captions: its TSV, the pictures behind its addresses, and its reader."""
