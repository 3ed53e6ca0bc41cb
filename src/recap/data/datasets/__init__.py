"""Readers of data sets: one file or folder per kind."""
