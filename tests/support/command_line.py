"""Verbs called in the test's process, in a child, or on a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Said:
    """Exit code and output of a verb."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


def run_gpututor(*words: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a verb in a child process without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "gpututor", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=120,
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def on_a_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Call a verb on a terminal of its own; yield the process, and the descriptor to type and read at."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpututor.cli.main", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
        preexec_fn=lambda: take_terminal(theirs),
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def take_terminal(descriptor: int) -> None:
    """Make the terminal send Ctrl-C as a signal to this process."""
    import fcntl
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)


def read_until(terminal: int, text: str, patience_s: float = 90.0) -> str:
    """Read from a terminal until it has printed a text; return all that was read."""
    seen, deadline = "", time.monotonic() + patience_s
    while text not in seen:
        assert time.monotonic() < deadline, f"waited in vain for {text!r} in\n{seen}"
        if select.select([terminal], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(terminal, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
    return seen


def read_to_end(terminal: int) -> str:
    """Read from a terminal until its program ends; return all that was read."""
    seen = ""
    with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
        while chunk := os.read(terminal, 65536):
            seen += chunk.decode("utf-8", "replace")
    return seen
