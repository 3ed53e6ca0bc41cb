"""A command as a process: its workflow, signals, and how it ends."""
