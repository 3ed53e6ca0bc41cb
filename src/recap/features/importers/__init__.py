"""Converts feature files of others into stores, one format per module (docs/reference/feature_files.md)."""
