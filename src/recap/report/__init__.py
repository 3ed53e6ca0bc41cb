"""What a profile made, for readers: one page and PDF,
also while trainings run, pages of docs, figures of scores."""
