"""Time from exec to the first text in a pseudo-terminal: the app, compared with a Textual app of one Static.

    python benchmarks/startup.py [RUNS]

Prints medians and their ratio; asserts nothing. Both apps start in turn, so a busy moment affects both.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

RUNS = 15
PATIENCE_S = 30.0
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("first text")
Bare().run()
"""
APP = "from gpututor.cli.main import main; main([])"
PREPARE = """
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.paths import builtin_course, default_workspace
make_workspace(default_workspace(), load_course(builtin_course()))
"""
_CONTROL = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|[P^_][^\x1b]*\x1b\\|\][^\x07]*\x07|[@-Z=>])|[\x00-\x20]")


def first_text_s(program: str, home: Path) -> float:
    """Return the seconds until there is text on the screen. Then kill the process."""
    started = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "GPUTUTOR_HOME": str(home)}
        os.execve(sys.executable, [sys.executable, "-c", program], environment)
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        seen = b""
        while time.perf_counter() - started < PATIENCE_S:
            if select.select([terminal], [], [], 0.5)[0]:
                seen += os.read(terminal, 65536)
                if len(_CONTROL.sub(b"", seen)) >= 5:
                    return time.perf_counter() - started
        raise SystemExit(f"nothing to read after {PATIENCE_S:.0f} s")
    finally:
        # The process leads a session: this also kills its children.
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def measure(runs: int) -> dict[str, list[float]]:
    """Return the seconds of each run, by the program."""
    os.environ.pop("NO_COLOR", None)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as on a learner's machine: a package is compiled once
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["GPUTUTOR_HOME"] = folder
        exec(PREPARE)
        times: dict[str, list[float]] = {"one Static": [], "gpututor": []}
        for program in (BARE, APP):
            first_text_s(program, home)  # fills the caches of both
        for _ in range(runs):
            times["one Static"].append(first_text_s(BARE, home))
            times["gpututor"].append(first_text_s(APP, home))
    return times


def main(runs: int) -> None:
    times = measure(runs)
    print(f"exec to first text, {runs} runs each   median   fastest   slowest")
    for name, values in times.items():
        columns = (statistics.median(values), min(values), max(values))
        print(f"{name:>34}  " + "   ".join(f"{seconds * 1e3:4.0f} ms" for seconds in columns))
    print(f"ratio of medians: {statistics.median(times['gpututor']) / statistics.median(times['one Static']):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
