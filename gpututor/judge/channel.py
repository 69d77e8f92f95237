"""The judge's connection to a worker: framed messages with a deadline and tickets, plus captured output.

Each question reveals a ticket, drawn at random, that its answer has to repeat. So what was written before the question,
said once more, or said twice is noticed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpututor.protocol.frames import Bounds, EndOfFrames, Frame, FrameError, read_frame, write_frame
from gpututor.protocol.messages import SMALL, TICKET
from gpututor.text import escape_control_chars

LOOKS_EVERY_S = 0.05
"""While the judge waits for a worker: how often it looks at what the worker uses."""

_PIPE_PIECES = 32
"""Pieces of 64 KiB that the largest pipe holds, and as many again."""


class DeadlinePassed(Exception):
    """The worker took too long."""


@dataclass
class Printed:
    """The first bytes of what a worker printed, and how many more there were."""

    limit_bytes: int
    kept: bytearray = field(default_factory=bytearray)
    dropped_bytes: int = 0

    def add(self, piece: bytes) -> None:
        room = self.limit_bytes - len(self.kept)
        self.kept += piece[:room]
        self.dropped_bytes += max(0, len(piece) - room)

    @property
    def text(self) -> str:
        return self.kept.decode("utf-8", "replace")


class Channel:
    """Frames to and from one worker. While it waits for a frame it also drains what the worker prints."""

    def __init__(self, connection: socket.socket, printed_descriptor: int) -> None:
        self._connection = connection
        self._printed_descriptor = printed_descriptor
        self._deadline: float | None = None
        self._waited_until = 0.0
        self.received_bytes = 0
        """Since it last began."""
        self._buffer = bytearray()
        self._writer = _Writer(self)
        self.printed = Printed(0)
        self.look: Callable[[], None] | None = None
        """Called while waiting; what it raises ends the waiting."""
        self.waits: Callable[[float], None] = lambda for_s: None
        """Called with the seconds until a new deadline."""
        connection.setblocking(False)
        os.set_blocking(printed_descriptor, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._selector.register(printed_descriptor, selectors.EVENT_READ)
        self._printing = True

    def begin(self, deadline: float | None, output_limit_bytes: int) -> None:
        """From now on: give up at `deadline` (of `time.monotonic`), and keep this much of what is printed.

        What the judge does by itself meanwhile puts the deadline off: only waiting counts.
        """
        self._deadline = deadline
        self._waited_until = time.monotonic()
        if deadline is not None:
            self.waits(deadline - self._waited_until)
        self.received_bytes = 0
        self.printed = Printed(output_limit_bytes)

    def send(self, header: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        """Raises `EndOfFrames` when the worker is gone, `DeadlinePassed` when it does not take the frame in time."""
        write_frame(self._writer, header, buffers or ())

    def receive(self, bounds: Bounds) -> Frame:
        """The next frame. Raises `FrameError` for bad bytes or none, `DeadlinePassed` when it does not come in time."""
        frame = read_frame(self, bounds)
        self.drain_printed()
        return frame

    def read(self, size: int) -> bytes:
        """For `read_frame`: up to `size` bytes, at least one unless the worker closed."""
        while not self._buffer:
            self._wait(selectors.EVENT_READ)
            try:
                piece = self._connection.recv(1 << 20)
            except BlockingIOError:
                continue
            except ConnectionError:
                return b""
            if not piece:
                return b""
            self._buffer += piece
            self.received_bytes += len(piece)
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def write_all(self, content: bytes | memoryview) -> None:
        view = memoryview(content).cast("B")
        while view:
            try:
                view = view[self._connection.send(view) :]
            except BlockingIOError:
                self._wait(selectors.EVENT_WRITE)
            except ConnectionError as error:
                raise EndOfFrames("the worker is gone") from error

    def unasked(self) -> bool:
        """Whether the worker said more than has been read."""
        if not self._buffer:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._buffer += self._connection.recv(1 << 16)
        return bool(self._buffer)

    def drain_printed(self) -> None:
        """Take what is in the pipe now, and not what is printed meanwhile: that might never end."""
        for _ in range(_PIPE_PIECES):
            if not self._printing:
                return
            try:
                piece = os.read(self._printed_descriptor, 1 << 16)
            except BlockingIOError:
                return
            if not piece:
                self._printing = False
                self._selector.unregister(self._printed_descriptor)
            self.printed.add(piece)

    def close(self) -> None:
        self._selector.close()
        self._connection.close()
        os.close(self._printed_descriptor)

    def _wait(self, event: int) -> None:
        """Return when the connection is ready; meanwhile keep the pipe of printed text from filling up."""
        self._selector.modify(self._connection, event)
        if self._deadline is not None:
            self._deadline += time.monotonic() - self._waited_until
        try:
            while not self._is_ready():
                pass
        finally:
            self._waited_until = time.monotonic()

    def _is_ready(self) -> bool:
        """Wait a while for the connection. Raises `DeadlinePassed`, and what `look` does."""
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            raise DeadlinePassed
        if self.look is not None:
            self.look()
            left = LOOKS_EVERY_S if left is None else min(left, LOOKS_EVERY_S)
        ready = {key.fileobj for key, _ in self._selector.select(left)}
        if self._printed_descriptor in ready:
            self._take_some()
        return self._connection in ready

    def _take_some(self) -> None:
        # One piece only: a worker that prints without end must not keep us from seeing the deadline.
        piece = os.read(self._printed_descriptor, 1 << 16)
        if not piece:
            self._printing = False
            self._selector.unregister(self._printed_descriptor)
        self.printed.add(piece)


class _Writer:
    """What `write_frame` writes to."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def write(self, content: bytes | memoryview) -> None:
        self._channel.write_all(content)

    def flush(self) -> None:
        pass


MOST_CHANGED = 20
MOST_NAME = 120
LAST_LINE = 10_000_000


def new_ticket() -> str:
    """What nobody can guess."""
    return secrets.token_hex(16)


def check_ticket(frame: Frame, ticket: str) -> None:
    """Raises `FrameError` for an answer to another question, or to none."""
    if frame.header.pop(TICKET, None) != ticket:
        raise FrameError("an answer to something that was not asked")


class WorkerSession:
    """What the judge asks one worker, and is told."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.changed: dict[str, None] = {}
        """What the worker says was replaced in it since the machine was entered."""
        self.outside: dict[int, None] = {}
        """The lines at which the worker says that the file used a device between calls; 0 for a line nobody knows."""

    @property
    def received_bytes(self) -> int:
        """Of all answers since the channel began."""
        return self._channel.received_bytes

    def ask(self, header: dict[str, Any], buffers: list[bytes] | None = None, bounds: Bounds = SMALL) -> Frame:
        """The answer. Raises what `Channel.send` and `Channel.receive` do; `FrameError` for more than one answer."""
        self.check_silence()
        ticket = new_ticket()
        self._channel.send({**header, TICKET: ticket}, buffers)
        frame = self._channel.receive(bounds)
        check_ticket(frame, ticket)
        self.changed |= dict.fromkeys(_names(frame.header.pop("changed", [])))
        self.outside |= dict.fromkeys(_lines(frame.header.pop("outside", [])))
        return frame

    def check_silence(self) -> None:
        """Raises `FrameError` when the worker said something that nobody asked for."""
        if self._channel.unasked():
            raise FrameError("an answer that nobody asked for")


def _names(data: object) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise FrameError("what was changed must be a list of names")
    return [escape_control_chars(name[:MOST_NAME]) for name in data[:MOST_CHANGED]]


def _lines(data: object) -> list[int]:
    if not isinstance(data, list) or not all(type(line) is int and 0 <= line <= LAST_LINE for line in data):
        raise FrameError("lines outside of calls must be a list of their numbers")
    return data[:MOST_CHANGED]


def outside_in_words(lines: Iterable[int]) -> list[str]:
    """A suspicion for each line at which a device was used while no call ran."""
    return [f"{f'line {line}' if line else 'code without a line'} used a device between calls" for line in lines]
