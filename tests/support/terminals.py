"""Programs in pseudo-terminals: tests and benchmarks send them keys and read their screens as text.

The terminal knows what Textual's output needs: absolute positions, text, clearing. It ignores colors.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from tests.support.timeouts import PATIENCE_S

KEYS = {
    "escape": b"\x1b",
    "enter": b"\r",
    "tab": b"\t",
    "space": b" ",
    "f1": b"\x1bOP",
    "f2": b"\x1bOQ",
    "f3": b"\x1bOR",
    "f4": b"\x1bOS",
    "f5": b"\x1b[15~",
    "f6": b"\x1b[17~",
    "f9": b"\x1b[20~",
    "f10": b"\x1b[21~",
    "f12": b"\x1b[24~",
    "shift+f5": b"\x1b[15;2~",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "end": b"\x1b[F",
    "ctrl+end": b"\x1b[1;5F",
    "ctrl+home": b"\x1b[1;5H",
}
"""Bytes that terminals send for named keys; `ctrl+LETTER` and single characters need no entry."""

_SEQUENCE = re.compile(
    r"\x1b\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[P^_][^\x1b]*\x1b\\|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()].|\x1b[0-9=>@-OQ-Z\\a-z]"
)


def key_bytes(key: str) -> bytes:
    if key in KEYS:
        return KEYS[key]
    if key.startswith("ctrl+") and len(key) == len("ctrl+x"):
        return bytes([ord(key[-1]) & 0x1F])
    if len(key) != 1:
        raise ValueError(f"no terminal is known to send {key!r}")
    return key.encode()


class Grid:
    """The characters on a terminal's screen after some output."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns = columns
        self.cells = [[" "] * columns for _ in range(lines)]
        self._row = self._column = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def feed(self, output: bytes) -> None:
        """Draw what a program wrote; a sequence that is cut off waits for its rest."""
        text = self._rest + self._decoder.decode(output)
        self._rest = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
                continue
            sequence = _SEQUENCE.match(text, at)
            if sequence is None:
                self._rest = text[at:]
                return
            if sequence["final"]:
                self._control(sequence["parameters"], sequence["final"])
            at = sequence.end()

    def _put(self, character: str) -> None:
        match character:
            case "\n":
                self._row = min(self._row + 1, len(self.cells) - 1)
            case "\r":
                self._column = 0
            case _ if character >= " " and self._column < self.columns:
                self.cells[self._row][self._column] = character
                self._column += 1

    def _control(self, parameters: str, final: str) -> None:
        numbers = [int(part) if part.isdigit() else 0 for part in parameters.split(";")]
        match final:
            case "H" | "f":
                row, column = [*numbers, 0][:2]
                self._row = min(max(row, 1), len(self.cells)) - 1
                self._column = min(max(column, 1), self.columns) - 1
            case "J" if numbers[0] in (2, 3):
                self.cells = [[" "] * self.columns for _ in self.cells]
            case "K" if numbers[0] == 0:
                self.cells[self._row][self._column :] = [" "] * (self.columns - self._column)


class Terminal:
    """A program in its own terminal. The end of the `with` kills it and all that it started."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], size: tuple[int, int] = (80, 24)
    ) -> None:
        """Start Python with `arguments`."""
        columns, lines = size
        self.grid = Grid(columns, lines)
        self.output = bytearray()
        """Output so far, as the program wrote it."""
        self.read_at = 0.0
        """Time of the newest output, by `time.perf_counter`."""
        ready, go = os.pipe()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.read(ready, 1)  # until the size is set
            for name in ("COLUMNS", "LINES"):  # of the terminal in which the tests were begun, where readline sets them
                os.environ.pop(name, None)
            os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, **_LIKE_A_TERMINAL, **environment})
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.started = time.perf_counter()
        os.write(go, b".")
        os.close(ready)
        os.close(go)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # the leader of its own session
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def press(self, *keys: str) -> None:
        """Send the keys in one piece."""
        os.write(self._terminal, b"".join(key_bytes(key) for key in keys))

    def send(self, text: bytes) -> None:
        os.write(self._terminal, text)

    def read(self, wait_s: float) -> bool:
        """Wait up to `wait_s` for output and draw it; return False at the end of the program."""
        if select.select([self._terminal], [], [], wait_s)[0]:
            try:
                output = os.read(self._terminal, 1 << 16)
            except OSError:  # Linux says so when the program has ended
                return False
            self.read_at = time.perf_counter()
            self.output += output
            self.grid.feed(output)
            return bool(output)
        return True

    def until(self, holds: Callable[[str], bool], what: str = "", patience_s: float = PATIENCE_S) -> None:
        """Read until the screen's text satisfies `holds`; `read_at` is the time of that output."""
        deadline = time.perf_counter() + patience_s
        while not holds(self.grid.text):
            if time.perf_counter() > deadline or not self.read(0.2):
                raise TimeoutError(f"waited in vain {what}; the screen:\n{self.grid.text}")

    def until_shown(self, text: str, patience_s: float = PATIENCE_S) -> None:
        self.until(lambda screen: text in screen, f"for {text!r}", patience_s)

    def rest(self, seconds: float) -> None:
        """Read output for so many seconds."""
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0 and self.read(left):
            pass

    def until_end(self) -> int:
        """Read until the program ends; return its exit status."""
        deadline = time.perf_counter() + PATIENCE_S
        while self.read(0.2):
            if time.perf_counter() > deadline:
                raise TimeoutError(f"the program did not end; the screen:\n{self.grid.text}")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


_LIKE_A_TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
