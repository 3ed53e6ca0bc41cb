"""A paper's whole workflow on miniatures of its outside files, which are served on this machine."""
