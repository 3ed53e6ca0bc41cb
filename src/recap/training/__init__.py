"""Training: a plain loop that resumes exactly, its two objectives, and the view of it in MLflow."""
