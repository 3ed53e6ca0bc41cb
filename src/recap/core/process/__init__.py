"""A command as a process: the workflow that started it, signals, and the reason if it fails."""
