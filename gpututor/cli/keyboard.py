"""Lines that a person types while a verb goes on with its work; from a pipe as well, or from nobody."""

from __future__ import annotations

import os
import select
import sys
import time


class Keyboard:
    """The standard input, read without ever waiting longer than told."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` None: that of the standard input, where there is one."""
        try:
            self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        except (AttributeError, OSError, ValueError):  # closed, or replaced by what is no file
            self._descriptor = -1
        self._begun = b""
        self._is_terminal = self._descriptor >= 0 and os.isatty(self._descriptor)

    def lines(self, timeout_s: float) -> list[str] | None:
        """The lines that came, at the latest after the timeout; None when the person at a terminal said Ctrl-D.

        The end of a pipe or a file says nothing: nobody is there to type, and so nobody wants to leave.
        """
        if self._descriptor < 0:
            time.sleep(timeout_s)
            return []
        if not select.select([self._descriptor], [], [], timeout_s)[0]:
            return []
        try:
            came = os.read(self._descriptor, 4096)
        except OSError:  # the terminal was closed
            came = b""
        if not came:
            self._descriptor = -1
            return None if self._is_terminal else []
        *whole, self._begun = (self._begun + came).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]
