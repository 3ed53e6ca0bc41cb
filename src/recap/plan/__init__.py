"""From tables and scales to rows, runs and files: what a profile makes, needs, costs, and when it
reruns."""
