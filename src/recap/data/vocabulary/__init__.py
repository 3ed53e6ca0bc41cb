"""Text rules, vocabularies of words and byte pairs."""
