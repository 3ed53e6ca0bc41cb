"""Shared by all packages: config, errors, atomic files, seeds, digests, progress."""
