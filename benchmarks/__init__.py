"""Speed of the slow parts, each beside a plain reference in the same run."""

import sys
from pathlib import Path

# the writers of miniature files are those of the tests
sys.path.append(str(Path(__file__).parents[1] / "tests"))
