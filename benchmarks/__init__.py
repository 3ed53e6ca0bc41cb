"""Speed of the slow parts, each beside a plain reference in the same run."""
