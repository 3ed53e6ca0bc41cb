"""Beam search, sampling and their constraints over a `step` callable, never over a model."""
