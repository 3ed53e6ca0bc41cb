"""Captions of photos that belong to no data set, by a trained run."""
