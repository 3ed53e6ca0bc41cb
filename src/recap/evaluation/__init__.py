"""Captions of a split by a trained model, and their scores."""
