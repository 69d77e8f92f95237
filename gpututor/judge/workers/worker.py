"""A worker as the judge knows it: a channel to it, what it said of itself, and the ways to end it."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpututor.errors import GradingError
from gpututor.judge.channel import Channel, DeadlinePassed
from gpututor.judge.workers.watch import Watch
from gpututor.processes import let_go_on, stop_tree
from gpututor.wire.frames import Bounds, FrameError

READY_WITHIN_S = 120.0
"""A cold import of torch from a slow disk takes a while."""


class WorkerLost(GradingError):
    """A worker is gone through no fault of its submission: worth another try."""


class Body(Protocol):
    """The processes of one worker."""

    @property
    def pid(self) -> int:
        """Of the topmost of them, as the judge sees it; 0 as long as it is not known."""

    def wait_until_started(self) -> None:
        """Until `pid` is known. Raises `GradingError` when it never will be."""

    def has_ended(self) -> bool:
        """Whether the topmost is gone."""

    def exit_status(self) -> int:
        """Of the process that runs the submission: its exit code, or minus a signal's number. Waits a moment for it.

        Raises `WorkerLost` when the worker went because what keeps it broke.
        """

    def ask_where(self) -> None:
        """Have the process that runs the submission write its stack to the stack pipe."""

    def kill(self) -> None:
        """End all of it. Safe from any thread, and more than once, until `collect`."""

    def collect(self, keep: set[int]) -> None:
        """After `kill`: wait until all of it is gone. `keep`: children of the judge that live on."""


@dataclass(frozen=True)
class Scratch:
    """The folder that a worker may write to."""

    inside: Path
    """As the worker sees it."""
    outside: Path | None
    """As the judge sees it; None when the judge cannot."""


class Worker:
    """One worker: started, got ready, used for one submission, ended."""

    def __init__(self, body: Body, channel: Channel, stack_descriptor: int, scratch: Scratch) -> None:
        self.channel = channel
        self.devices: tuple[dict[str, object], ...] = ()
        self.torch_version = ""
        self._body = body
        self._stack_descriptor = stack_descriptor
        self._scratch = scratch
        self._still: list[int] = []
        self._ended = False
        self._ending = threading.Lock()
        os.set_blocking(stack_descriptor, False)

    @property
    def pid(self) -> int:
        return self._body.pid

    def wait_until_ready(self) -> None:
        """Returns when torch is imported there. Raises `GradingError` with its last words when it died instead."""
        if self.torch_version:
            return
        self.channel.begin(time.monotonic() + READY_WITHIN_S, 64 << 10)
        try:
            ready = self.channel.receive(Bounds()).header
        except (FrameError, DeadlinePassed) as error:
            self.kill()
            self.channel.drain_printed()
            words = self.channel.printed.text.strip()[-2000:]
            raise GradingError(f"A worker did not start: {words or error}", "Run `gpututor doctor`.") from error
        self._body.wait_until_started()
        self.devices = tuple(ready["devices"])
        self.torch_version = ready["torch"]
        watch = Watch(self.pid, self._scratch.outside)
        watch.begin()
        self.channel.look = watch.look

    def check(self) -> None:
        """Raises `GradingError` for a worker that is not what it was when it got ready."""
        folder = self._scratch.outside
        if self._body.has_ended() or not (folder is None or folder.is_dir()):
            raise GradingError("A worker that waited is gone.", "Try again.")

    def exit_status(self) -> int:
        """Of a worker whose channel ended: its exit code, or minus a signal's number. Waits a moment for it.

        Raises `WorkerLost` when it went because what keeps it broke.
        """
        return self._body.exit_status()

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Its processes run in the block; when that ended well, all of them stand still, until the next block.

        For the time in which the judge does something else and nobody looks at what they use.
        """
        let_go_on(self._still)
        self._still = []
        yield
        with self._ending:
            if not self._ended:
                self._still = stop_tree(self.pid)

    @property
    def stands_still(self) -> bool:
        return bool(self._still)

    def stack_line(self, file_name: str) -> int | None:
        """The line of the learner's file that a worker past its deadline is at, where it can still tell."""
        submission = re.escape(str(self._scratch.inside / file_name))
        said = b""
        self._body.ask_where()
        give_up = time.monotonic() + 0.2
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                said = (said + os.read(self._stack_descriptor, 1 << 16))[-1 << 17 :]
            at = re.search(rf'"{submission}", line (\d{{1,7}}) in ', said.decode("utf-8", "replace"))
            if at:
                return int(at[1])
            time.sleep(0.005)
        return None

    def kill(self) -> None:
        """End the process and all that it started. Safe from any thread, and more than once."""
        with self._ending:
            if not self._ended:
                self._body.kill()

    def end(self, keep: set[int]) -> None:
        """Kill, collect the remains, close everything. `keep`: children of ours that live on."""
        self.kill()
        with self._ending:
            if self._ended:
                return
            self._ended = True
            try:
                self._body.collect(keep)
            finally:
                self.channel.close()
                os.close(self._stack_descriptor)
