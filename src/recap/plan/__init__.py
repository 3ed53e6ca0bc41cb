"""From tables and scales to rows, runs and files: what a profile makes, and what decides whether it reruns."""
