"""Tests on scores: paired over images, Welch over runs, Holm over a table.

Does not import torch.
"""
