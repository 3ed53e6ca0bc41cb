"""From tables and scales to rows, runs and files: what a profile makes, needs and costs."""
