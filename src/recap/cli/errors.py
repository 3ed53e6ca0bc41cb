"""How a command ends: in one sentence where the user can do something about it, else in a traceback, which is a bug."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recap.core.errors import RecapError
from recap.core.log import FILE_ONLY, log, record_failure
from recap.core.process import out_of_memory

_REASONS = {
    errno.EBUSY: "a folder is where a file should be, or something else uses it; name another",
    errno.EACCES: "permission denied; change its permissions, or name another",
    errno.EEXIST: "a file is where a folder should be; remove it, or name another",
    errno.EISDIR: "a folder is where a file should be; name a file",
    errno.ENOENT: "it is not there, and cannot be made there; name another",
    errno.ENOSPC: "the disk is full; make room and run it again",
    errno.ENOTDIR: "a file is where a folder should be; remove it, or name another",
    errno.EROFS: "the disk is read-only; name another",
}

_UNMAPPED = "failed to map segment"  # how the dynamic linker says that a library does not fit into memory


@contextmanager
def one_sentence() -> Iterator[None]:
    """End the process as a command should.

    `RecapError`, and a file that the system refuses, become one sentence and status 2; Ctrl-C becomes one line and 130;
    a reader that went away (``| head``) ends the command in silence with 141, as the shell's own commands do. Other
    exceptions pass.
    """
    # A terminal may not know the letters of a result or of a file's name.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        yield
        sys.stdout.flush()
    except RecapError as error:
        _end(str(error))
    except KeyboardInterrupt:
        log.error("recap: stopped by Ctrl-C")
        sys.exit(130)
    except BrokenPipeError:
        if not _reader_gone():
            raise
        sys.exit(141)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("recap"):
            _leave_bug(error)
            raise
        _end(f"{error.name} is not installed; install all of recap: pip install 'recap[workflow,tracking,studies]'")
    except (MemoryError, ImportError, RuntimeError) as error:
        if not out_of_memory(error) and _UNMAPPED not in str(error):
            _leave_bug(error)
            raise
        # Torch, half imported, fails again while Python ends, or crashes it.
        _end(
            "the memory is full, or a file from outside needs more than it gets; close other programs, raise "
            "`ulimit -v`, or take a smaller batch or a right file",
            os._exit,
        )
    except OSError as error:
        if error.filename is None or error.errno is None:
            _leave_bug(error)
            raise
        reason = _REASONS.get(error.errno, f"{os.strerror(error.errno).lower()}; mend it, or name another")
        # Of two files it is the second that something was to become.
        _end(f"{os.fsdecode(error.filename2 or error.filename)}: {reason}")
    except Exception as error:
        _leave_bug(error)
        raise


def _end(sentence: str, leave: Callable[[int], object] = sys.exit) -> None:
    record_failure(sentence)
    log.error(f"recap: {sentence}")
    leave(2)


def _leave_bug(error: Exception) -> None:
    sentence = f"{type(error).__name__}: {error} (a bug of recap: see the traceback above)"
    record_failure(sentence)
    log.error(sentence, exc_info=True, extra=FILE_ONLY)  # Python prints the traceback on the terminal


def _reader_gone() -> bool:
    """Return whether it is the reader of our output who is gone; then keep Python from saying so once more."""
    look = select.poll()
    for stream in (sys.stdout, sys.stderr):
        look.register(stream.fileno(), 0)
    gone = [handle for handle, event in look.poll(0) if event & select.POLLERR]
    for handle in gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
    return bool(gone)
