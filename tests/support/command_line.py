"""Verbs called in the test's process, or in a child."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
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
