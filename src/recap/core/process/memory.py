"""How much memory files from outside may take: a soft limit, on Linux alone."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recap.core.errors import first_line
from recap.core.log import log

LEAST = 4 * 2**30  # bytes; no annotations of COCO take as much
_COPIES = 4  # of a checkpoint: as it is read, by our names, in our order, as it is written


@contextmanager
def limited_memory(*weights: Path) -> Iterator[None]:
    """Limit the memory to half of the machine's, and at least to 4 GiB beside what files of weights need.

    RLIMIT_DATA leaves maps of large stores alone, which RLIMIT_AS would count. Child processes inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if not sys.platform.startswith("linux"):
        log.info("files from outside may take any memory: this system has no limit for it")
    elif soft == resource.RLIM_INFINITY:
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        limit = max(half, LEAST + _COPIES * sum(file.stat().st_size for file in weights if file.is_file()))
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def out_of_memory(error: BaseException) -> bool:
    """Return whether Python or torch asked for memory that there is not."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error)


def cause(error: BaseException) -> str:
    """Return why a file cannot be read, for a sentence."""
    return "it needs more memory than a file from outside gets" if out_of_memory(error) else first_line(error)
