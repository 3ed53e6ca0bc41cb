"""A small client of meteor-1.5.jar: one process a corpus, a deadline, and no process left behind.

The jar speaks lines: ``SCORE ||| ref ||| ... ||| hypothesis`` gives the statistics of one image, and
``EVAL ||| stats ||| stats ...`` gives one score per image and the score of the corpus.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from recap.core.errors import MetricError
from recap.metrics.java import close_quietly, kill_group, kill_tree, start_java, tail

# Two gibibytes is what the reference asks for. The rest is measured: the parallel collector's threads take the other
# core from the scorers that run beside METEOR, and the second compiler costs more than it gains in so short a run.
JVM_OPTIONS = ("-Xmx2G", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class MeteorClient:
    """A running jar; use as a context manager: leaving the block kills the process whatever happened."""

    def __init__(self, *, java: Path, jar: Path, paraphrases: Path, timeout_seconds: float) -> None:
        """Start the jar with a table of paraphrases; ``timeout_seconds`` covers loading and scoring."""
        if not jar.is_file():
            raise MetricError(f"{jar}: no such file; install pycocoevalcap again")
        self._timeout = timeout_seconds
        table = ["-a", str(paraphrases.resolve())]
        arguments = [*JVM_OPTIONS, "-jar", jar.name, "-", "-", "-stdio", "-l", "en", "-norm", *table]
        self._process = start_java(java=java, arguments=arguments, cwd=jar.parent, what="METEOR", stdin=subprocess.PIPE)
        # Drained all the time: a full pipe would stop the jar in the middle of its work.
        self._messages = bytearray()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._expired = threading.Event()
        self._watchdog = threading.Timer(timeout_seconds, self._expire)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self) -> MeteorClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process and wait for it; safe to call twice."""
        self._watchdog.cancel()
        kill_group(self._process)
        self._listener.join(10)
        kill_tree(self._process)

    def _expire(self) -> None:
        """Kill the process at the deadline; the reader then sees the end of its output."""
        self._expired.set()
        kill_group(self._process)

    def _listen(self) -> None:
        """Keep what the jar says on standard error."""
        pipe: Any = self._process.stderr
        for line in pipe:
            self._messages += line

    def score(self, references: Sequence[Sequence[str]], hypotheses: Sequence[str]) -> tuple[float, list[float]]:
        """Return the corpus score (METEOR's own aggregate, not a mean) and N image scores of tokenized captions."""
        lines = [_score_line(refs, hypothesis) for refs, hypothesis in zip(references, hypotheses, strict=True)]
        statistics = self._exchange(lines, answers=len(lines))
        scores = [self._number(answer) for answer in self._exchange([_eval_line(statistics)], answers=len(lines) + 1)]
        return scores[-1], scores[:-1]

    def _exchange(self, lines: list[str], *, answers: int) -> list[str]:
        """Send lines from a thread (so that full pipes cannot lock both sides) and read the answers."""
        sender = threading.Thread(target=self._send, args=(lines,), daemon=True)
        sender.start()
        received = [self._receive() for _ in range(answers)]
        sender.join()
        return received

    def _send(self, lines: list[str]) -> None:
        """Write lines; when the process dies under it, the reader is the one that reports."""
        pipe: Any = self._process.stdin
        try:
            pipe.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
            pipe.flush()
        except (BrokenPipeError, ValueError):
            close_quietly(pipe)

    def _receive(self) -> str:
        """Read one line of METEOR's output."""
        pipe: Any = self._process.stdout
        line: bytes = pipe.readline()
        if not line.endswith(b"\n"):
            raise self._failure()
        return line.decode("utf-8").strip()

    def _number(self, answer: str) -> float:
        """Return a score as a number."""
        try:
            return float(answer)
        except ValueError as error:
            raise MetricError(f"METEOR answered {answer[:80]!r} where a score was expected") from error

    def _failure(self) -> MetricError:
        """Say why METEOR's output ended."""
        if self._expired.is_set():
            return MetricError(f"METEOR did not finish within {self._timeout:g} s and was stopped")
        code = self._exit_code()
        self._listener.join(5)
        return MetricError(f"METEOR stopped early with exit code {code}: {tail(bytes(self._messages))}")

    def _exit_code(self) -> int:
        """Return the exit code of a process whose output has ended."""
        try:
            return self._process.wait(5)
        except subprocess.TimeoutExpired:
            kill_group(self._process)
            return self._process.wait(10)


def _score_line(references: Sequence[str], hypothesis: str) -> str:
    """Return the request for one image's statistics; a line break or ``|||`` in a caption would shift all answers."""
    for caption in (*references, hypothesis):
        if "|||" in caption or len(caption.splitlines()) > 1:
            raise MetricError(
                f"the caption {caption[:80]!r} holds a line break or '|||'; pass it through sanitize() first"
            )
    return " ||| ".join(("SCORE", *references, hypothesis.replace("  ", " ")))


def _eval_line(statistics: Sequence[str]) -> str:
    """Return the request for the scores of all images."""
    return " ||| ".join(("EVAL", *statistics))
