"""Decoding knows a `step` callable and a state that can be reordered, never a model."""
