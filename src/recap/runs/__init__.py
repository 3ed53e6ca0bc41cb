"""The folder of a finished training stage: written, read back, and its weights."""
