"""Captions of photos that belong to no data set: from a trained run and a picture to words."""
