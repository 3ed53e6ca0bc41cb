"""IU X-ray: reports, studies, their split, and what was excluded."""
