"""Brings feature files that others made into a store: one form a file; docs/feature_files.md describes the forms."""
