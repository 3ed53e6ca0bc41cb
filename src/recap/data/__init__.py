"""Captions, pictures, vocabularies and subsets: every data set becomes one corpus file."""
