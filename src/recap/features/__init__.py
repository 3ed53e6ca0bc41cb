"""Feature vectors of pictures: extractors, and the packed store that training reads."""
