"""The two ends of what joins the judge and a worker. None stays open where no worker comes to be."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpututor.errors import GradingError
from gpututor.judge.channel import Channel
from gpututor.judge.isolation import Isolation
from gpututor.judge.workers.scratch import make_scratch, remove_scratch
from gpututor.judge.workers.worker import Body, Scratch, Worker


@dataclass
class Ends:
    """Of one worker that is about to start."""

    scratch: Scratch
    connection: socket.socket
    """The worker's end, as the next two: of the pipe that it prints to, and of the one for stacks."""
    printed: int
    stack: int
    judges: socket.socket
    """The judge's end of the connection."""
    _channel: Channel
    _judges_stack: int
    taken: bool = False

    def worker(self, body: Body) -> Worker:
        """Now there is one; the judge's ends are closed when it is ended."""
        self.taken = True
        return Worker(body, self._channel, self._judges_stack, self.scratch)


@contextlib.contextmanager
def new_ends(isolation: Isolation) -> Iterator[Ends]:
    """The worker's ends are closed after the block; so are the judge's, and its scratch folder goes, unless it lives.

    Raises `GradingError` where there is none to be had, and in place of an `OSError` inside.
    """
    try:
        with contextlib.ExitStack() as after, contextlib.ExitStack() as ours:
            outside = None if isolation.own_scratch else make_scratch()
            if outside is not None:
                ours.callback(remove_scratch, outside)
            scratch = Scratch(isolation.own_scratch or outside or Path(tempfile.gettempdir()), outside)
            stack, their_stack = _pipe(ours, after)
            with contextlib.ExitStack() as not_joined:
                connection, their_connection = socket.socketpair()
                not_joined.enter_context(connection)
                after.enter_context(their_connection)
                printed, their_printed = _pipe(not_joined, after)
                channel = Channel(connection, printed)
                not_joined.pop_all()
            ours.callback(channel.close)
            ends = Ends(scratch, their_connection, their_printed, their_stack, connection, channel, stack)
            yield ends
            if ends.taken:
                ours.pop_all()
    except OSError as error:
        raise GradingError(f"A worker could not be started: {error}", "Run `gpututor doctor`.") from error


def _pipe(reading: contextlib.ExitStack, writing: contextlib.ExitStack) -> tuple[int, int]:
    """A new pipe, whose ends are closed with these."""
    ends = os.pipe()
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends
