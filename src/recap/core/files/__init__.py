"""Files: written whole, compared with what they were, locked, read as YAML."""
