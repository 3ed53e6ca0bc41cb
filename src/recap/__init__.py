"""recap: reproduce image-captioning papers, honestly and fast."""

__version__ = "0.1.0"
