"""A plain loop that resumes exactly, its two objectives, and the training of language models."""
