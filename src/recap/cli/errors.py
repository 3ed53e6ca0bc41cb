"""How a command ends: in one sentence where the user can do something about it,
else in a traceback, which is a bug."""

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from recap.core.errors import RecapError
from recap.core.log import FILE_ONLY, log, record_failure
from recap.core.process import out_of_memory

_FULL_MEMORY = (
    "the memory is full, or a file from outside needs more than it gets; close other programs, "
    "raise `ulimit -v`, or take a smaller batch or a right file"
)
# how the dynamic linker says that a library does not fit into memory
_UNMAPPED = "failed to map segment"


@contextmanager
def one_sentence() -> Iterator[None]:
    """End the process as a command should.

    What the user can act on becomes one sentence and status 2; Ctrl-C becomes one line and 130; a
    reader that went away (``| head``) ends the command in silence with 141, as the shell's own
    commands do. Other exceptions pass.
    """
    # A terminal may not know the letters of a result or of a file's name.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        log.error("recap: stopped by Ctrl-C")
        sys.exit(130)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _reader_gone():
            sys.exit(141)
        sentence = _sentence(error)
        if sentence is None:
            bug = f"{type(error).__name__}: {error} (a bug of recap: see the traceback above)"
            record_failure(bug)
            # Python prints the traceback on the terminal
            log.error(bug, exc_info=True, extra=FILE_ONLY)
            raise
        record_failure(sentence)
        log.error(f"recap: {sentence}")
        if sentence != _FULL_MEMORY:
            sys.exit(2)
        os._exit(2)  # torch, half imported, fails again while Python ends, or crashes it


def _sentence(error: Exception) -> str | None:
    """Return what the user can do about an error; None for a bug."""
    if isinstance(error, RecapError):
        return str(error)
    if out_of_memory(error) or (isinstance(error, ImportError) and _UNMAPPED in str(error)):
        return _FULL_MEMORY
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("recap"):
        return (
            f"{error.name} is not installed; install all of recap: pip install "
            "'recap-captions[workflow,tracking,studies]'"
        )
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        remedy = (
            "make room and run it again"
            if error.errno == errno.ENOSPC
            else "mend it, or name another"
        )
        # Of two files it is the second that something was to become.
        return (
            f"{os.fsdecode(error.filename2 or error.filename)}: "
            f"{os.strerror(error.errno).lower()}; {remedy}"
        )
    return None


def _reader_gone() -> bool:
    """Return whether it is the reader of our output who is gone.

    Then keep Python from saying so once more.
    """
    look = select.poll()
    for stream in (sys.stdout, sys.stderr):
        look.register(stream.fileno(), 0)
    gone = [handle for handle, event in look.poll(0) if event & select.POLLERR]
    for handle in gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
    return bool(gone)
