"""Rehearsals of papers: the whole workflow on miniature copies of all outside files, served on this machine."""
