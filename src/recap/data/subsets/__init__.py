"""Subsets of the training captions."""
