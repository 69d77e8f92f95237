"""The judge's connection to a worker: framed messages with a deadline and tickets, plus captured output.

Each request carries a random ticket that its answer has to repeat. So the judge notices an answer that was written
before the request, repeated, or sent twice.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpututor.protocol.frames import Bounds, EndOfFrames, Frame, FrameError, read_frame, write_frame
from gpututor.protocol.messages import SMALL, TICKET
from gpututor.text import escape_control_chars

LOOKS_EVERY_S = 0.05
"""Seconds between checks of the worker's resources while the judge waits for it."""

NEWS_EVERY_S = 0.5
"""Least seconds between two reports of the newest output line."""
_MOST_OF_LINE = 200
"""Bytes of the newest line to report."""
_PIPE_PIECES = 32
"""Pieces of 64 KiB: twice what the largest pipe holds."""


class DeadlinePassed(Exception):
    """The worker took too long."""


@dataclass
class Printed:
    """The first bytes of a worker's output, and the number of bytes dropped after them."""

    limit_bytes: int
    stored: bytearray = field(default_factory=bytearray)
    dropped_bytes: int = 0
    _end: bytes = b""
    """The last bytes, also of output that was dropped."""

    def add(self, piece: bytes) -> None:
        room = self.limit_bytes - len(self.stored)
        self.stored += piece[:room]
        self.dropped_bytes += max(0, len(piece) - room)
        self._end = (self._end + piece)[-2 * _MOST_OF_LINE :]

    @property
    def text(self) -> str:
        return self.stored.decode("utf-8", "replace")

    @property
    def newest_line(self) -> str:
        """The last line that is not blank, possibly cut."""
        lines = [line for line in self._end.splitlines() if line.strip()]
        return lines[-1][:_MOST_OF_LINE].decode("utf-8", "replace").strip() if lines else ""


class Channel:
    """Framed messages to and from one worker. Waiting for a frame also drains the worker's output."""

    def __init__(self, connection: socket.socket, printed_descriptor: int) -> None:
        self._connection, self._printed_descriptor = connection, printed_descriptor
        self._deadline: float | None = None
        self._waited_until = 0.0
        self.received_bytes = 0
        """Bytes received since `begin`."""
        self._buffer = bytearray()
        self.printed = Printed(0)
        self.look: Callable[[], None] | None = None
        """Called while waiting; its exceptions end the wait."""
        self.on_deadline: Callable[[float], None] = lambda for_s: None
        """Called with the seconds until a new deadline."""
        self.on_output: Callable[[str], None] = lambda line: None
        """Called now and then while waiting, with the newest line of output; `begin` removes it."""
        self._has_news = False
        self._news_due = 0.0
        connection.setblocking(False)
        os.set_blocking(printed_descriptor, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._selector.register(printed_descriptor, selectors.EVENT_READ)
        self._printing = True

    def begin(self, deadline: float | None, output_limit_bytes: int) -> None:
        """Set the deadline (of `time.monotonic`; only waiting counts) and the number of printed bytes to store."""
        self._deadline = deadline
        self._waited_until = time.monotonic()
        if deadline is not None:
            self.on_deadline(deadline - self._waited_until)
        self.received_bytes = 0
        self.printed = Printed(output_limit_bytes)
        self.on_output, self._has_news = lambda line: None, False
        self._news_due = self._waited_until + NEWS_EVERY_S

    def send(self, header: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        """Send a frame. Raises `EndOfFrames` if the worker is gone, `DeadlinePassed` if it does not read in time."""
        write_frame(self, header, buffers or ())

    def receive(self, bounds: Bounds) -> Frame:
        """Return the next frame. Raises `FrameError` for malformed bytes or a closed connection, `DeadlinePassed`."""
        frame = read_frame(self, bounds)
        self.drain_printed()
        return frame

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes, at least one unless the worker closed: a `Source` of frames."""
        while not self._buffer:
            self._wait(selectors.EVENT_READ)
            try:
                piece = self._connection.recv(1 << 20)
            except BlockingIOError:
                continue
            except ConnectionError:
                return b""  # the worker is gone, as after a close
            if not piece:
                return b""
            self._buffer += piece
            self.received_bytes += len(piece)
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def write(self, content: bytes | memoryview) -> None:
        """Write all of `content`: a `Sink` of frames."""
        view = memoryview(content).cast("B")
        while view:
            try:
                view = view[self._connection.send(view) :]
            except BlockingIOError:
                self._wait(selectors.EVENT_WRITE)
            except ConnectionError as error:
                raise EndOfFrames("the worker is gone") from error

    def flush(self) -> None: ...

    def has_unread(self) -> bool:
        """Return True if the worker sent more than was read."""
        if not self._buffer:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._buffer += self._connection.recv(1 << 16)
        return bool(self._buffer)

    def drain_printed(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_PIPE_PIECES):
                if not (self._printing and self._read_printed()):
                    return

    def close(self) -> None:
        self._selector.close()
        self._connection.close()
        os.close(self._printed_descriptor)

    def _wait(self, event: int) -> None:
        """Wait for the connection, and keep the pipe of printed text from filling up."""
        self._selector.modify(self._connection, event)
        if self._deadline is not None:
            self._deadline += time.monotonic() - self._waited_until
        try:
            while not self._is_ready():
                pass
        finally:
            self._waited_until = time.monotonic()

    def _is_ready(self) -> bool:
        """Wait briefly; return True if the connection is ready. Raises `DeadlinePassed`, and what `look` raises."""
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            raise DeadlinePassed
        if self.look is not None:
            self.look()
            left = LOOKS_EVERY_S if left is None else min(left, LOOKS_EVERY_S)
        ready = {key.fileobj for key, _ in self._selector.select(left)}
        if self._printed_descriptor in ready:
            self._has_news |= self._read_printed()  # one piece only: endless output must not hide the deadline
        if self._has_news and (now := time.monotonic()) >= self._news_due:
            self._has_news, self._news_due = False, now + NEWS_EVERY_S
            self.on_output(self.printed.newest_line)
        return self._connection in ready

    def _read_printed(self) -> bool:
        """Read one piece of output; return False at its end. Raises `BlockingIOError` if there is none now."""
        piece = os.read(self._printed_descriptor, 1 << 16)
        if not piece:
            self._printing = False
            self._selector.unregister(self._printed_descriptor)
        self.printed.add(piece)
        return bool(piece)


MAX_REPORTED = 20
MAX_NAME = 120
MAX_LINE = 10_000_000


def new_ticket() -> str:
    """Return a random ticket that cannot be guessed."""
    return secrets.token_hex(16)


def check_ticket(frame: Frame, ticket: str) -> None:
    """Raise `FrameError` for an answer to another request, or to none."""
    if frame.header.pop(TICKET, None) != ticket:
        raise FrameError("an answer to another request")


class WorkerSession:
    """Requests to one worker, and its reports about replaced code."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.changed: dict[str, None] = {}
        """Names of code that was replaced since the worker entered the machine, as it reports."""
        self.outside: dict[int, None] = {}
        """Lines at which the file used a device between calls, as the worker reports; 0 for an unknown line."""

    def ask(self, header: dict[str, Any], buffers: list[bytes] | None = None, bounds: Bounds = SMALL) -> Frame:
        """Send a request and return its answer. Raises what `Channel` raises, and `FrameError` for a second answer."""
        self.check_silence()
        ticket = new_ticket()
        self.channel.send({**header, TICKET: ticket}, buffers)
        frame = self.channel.receive(bounds)
        check_ticket(frame, ticket)
        self.changed |= dict.fromkeys(_names(frame.header.pop("changed", [])))
        self.outside |= dict.fromkeys(_lines(frame.header.pop("outside", [])))
        return frame

    def check_silence(self) -> None:
        """Raise `FrameError` if the worker sent something unrequested."""
        if self.channel.has_unread():
            raise FrameError("an answer without a request")


def _names(data: object) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise FrameError("`changed` must be a list of names")
    return [escape_control_chars(name[:MAX_NAME]) for name in data[:MAX_REPORTED]]


def _lines(data: object) -> list[int]:
    if not isinstance(data, list) or not all(type(line) is int and 0 <= line <= MAX_LINE for line in data):
        raise FrameError("`outside` must be a list of line numbers")
    return data[:MAX_REPORTED]
