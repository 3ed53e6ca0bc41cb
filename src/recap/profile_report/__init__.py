"""One report of all that a profile made, as a page, as a PDF and as pages of docs, also while trainings run."""
