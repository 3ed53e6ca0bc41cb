"""Tests on scores: paired over images, Welch over runs, Holm over a table; does not import torch."""
