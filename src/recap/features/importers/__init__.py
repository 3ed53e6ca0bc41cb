"""Converts feature files that others made into stores: one format per file; docs/reference/feature_files.md describes them."""
