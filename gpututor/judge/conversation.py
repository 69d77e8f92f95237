"""One question at a time, and one answer to each: what a worker says otherwise is a `FrameError`.

Each question reveals a ticket, drawn at random, that its answer has to repeat. So what was written before the question,
said once more, or said twice is noticed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from gpututor.judge.channel import Channel
from gpututor.plain_text import visible
from gpututor.wire.frames import Bounds, Frame, FrameError
from gpututor.wire.sizes import SMALL, TICKET

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


class Conversation:
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
    return [visible(name[:MOST_NAME]) for name in data[:MOST_CHANGED]]


def _lines(data: object) -> list[int]:
    if not isinstance(data, list) or not all(type(line) is int and 0 <= line <= LAST_LINE for line in data):
        raise FrameError("lines outside of calls must be a list of their numbers")
    return data[:MOST_CHANGED]


def outside_in_words(lines: Iterable[int]) -> list[str]:
    """A suspicion for each line at which a device was used while no call ran."""
    return [f"{f'line {line}' if line else 'code without a line'} used a device between calls" for line in lines]
