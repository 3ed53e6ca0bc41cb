"""Makes the .pth file of the editable install ASCII: relative_pth.py FOLDER_OF_THE_ENVIRONMENT, in
the clone's folder.

Before version 3.13 Python reads .pth files in the encoding of the locale. If the clone's path has
other letters than ASCII, and LC_ALL names a locale that the machine does not have, no Python of the
environment starts. A path relative to the environment has none of these letters. It is joined to
the real path of the environment, because a workspace may have a link to it.
"""

import os
import sys
from pathlib import Path

for file in Path(sys.argv[1]).glob("lib/python*/site-packages/__editable__.recap_captions-*.pth"):
    if not file.read_bytes().isascii():
        source = os.path.relpath("src", sys.argv[1])
        line = (
            "import os, sys; sys.path.append(os.path.realpath(os.path.join(sys.prefix, "
            f"{source!r})))"
        )
        file.write_text(line + "\n", encoding="utf-8")
