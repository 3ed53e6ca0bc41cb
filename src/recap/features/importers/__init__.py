"""Converts feature files that others made into stores: one format per file; docs/feature_files.md describes them."""
