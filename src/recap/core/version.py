"""The name of this package in the package registry, and its version."""

DISTRIBUTION = "recap-captions"  # `recap` is another project there
VERSION = "0.2.0"
