"""Workers that are forked from a server which has imported torch. Linux only. 20 ms instead of 1.2 s each."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpututor.errors import GradingError, NotGradableHere
from gpututor.grading.report import Workers
from gpututor.judge.isolation import Isolation
from gpututor.judge.workers.pool import worker_environment
from gpututor.judge.workers.worker import (
    READY_WITHIN_S,
    Worker,
    WorkerLost,
    WorkerPipes,
    open_pipes,
    remove_own_scratch,
    remove_scratch,
)
from gpututor.processes import kill_tree, reap_orphans, signal_below

KEPT_BY = 2
"""Processes above the one that serves, where children have namespaces of their own."""
ANSWERS_WITHIN_S = 20.0
"""What a server that has imported torch may take to answer; ending a tree of many processes takes a while."""


class ForkServer:
    """A source of workers: one server, started when it is first needed and again when it died."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._server: _Server | None = None

    @property
    def isolation(self) -> str:
        return self._isolation.name

    @property
    def name(self) -> Workers:
        return "fork server"

    def start(self) -> Worker:
        """Raises `GradingError` when the server cannot be started, `NotGradableHere` off Linux."""
        server = self._running_server()
        with open_pipes(self._isolation) as ends:
            return ends.worker(server.fork(ends))

    def keep(self) -> set[int]:
        return {self._server.process.pid} if self._server is not None else set()

    def tidy(self) -> None:
        remove_own_scratch()

    def _running_server(self) -> _Server:
        if sys.platform != "linux":
            raise NotGradableHere("A fork server works on Linux only.", "Use `--workers spare`.")
        if self._server is not None and self._server.is_dead():
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = _Server(self._isolation)
        return self._server


class _Server:
    """The server's process, and the conversation with it. Used by one thread."""

    def __init__(self, isolation: Isolation) -> None:
        self.wrapped = isolation.name == "bubblewrap"
        self._numbers = itertools.count()
        self._bodies: dict[int, _Forked] = {}
        self._answered = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, contextlib.ExitStack() as not_started:
                not_started.enter_context(self._control)
                self.process = subprocess.Popen(
                    isolation.command("gpututor.worker.fork_server", str(theirs.fileno()), isolation.name),
                    stdin=subprocess.DEVNULL,
                    stdout=sys.__stderr__,  # its own words go to the judge's log
                    stderr=sys.__stderr__,
                    pass_fds=[theirs.fileno()],
                    env=worker_environment(isolation.own_scratch or Path(tempfile.gettempdir())),
                    start_new_session=True,
                )
                not_started.pop_all()
        except OSError as error:
            raise GradingError(f"The fork server could not be started: {error}", "Run `gpututor doctor`.") from error
        self._control.settimeout(ANSWERS_WITHIN_S)

    def is_dead(self) -> bool:
        return self.process.poll() is not None

    def fork(self, ends: WorkerPipes) -> _Forked:
        """Ask for a child; does not wait for it. Raises `WorkerLost`."""
        number = next(self._numbers)
        body = _Forked(self, number, ends.scratch.outside, ends.judges)
        descriptors = (ends.connection.fileno(), ends.printed, ends.stack)
        self._ask({"op": "fork", "number": number, "scratch": str(ends.scratch.inside)}, descriptors)
        self._bodies[number] = body
        return body

    def status(self, number: int) -> int | None:
        """Raises `WorkerLost` when the server is gone."""
        self._ask({"op": "status", "number": number})
        answer = self._answer("status", number)
        status: int | None = answer["status"]
        return status

    def end(self, number: int) -> None:
        """Returns when the child is gone with all that it started. Raises `WorkerLost` when the server is gone."""
        self._ask({"op": "end", "number": number})
        self._answer("ended", number)
        del self._bodies[number]

    def wait_for_child(self, number: int) -> None:
        """Until the child is there. Raises `WorkerLost`."""
        self._answer("forked", number)

    def close(self) -> None:
        """End it and all its children."""
        self._lost()
        for body in tuple(self._bodies.values()):
            body.kill()
        reap_orphans(set())
        for body in tuple(self._bodies.values()):
            body.forget()
        self._bodies.clear()
        self._control.close()

    def _ask(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
        except OSError as error:
            raise self._lost() from error

    def _answer(self, what: str, number: int) -> dict[str, Any]:
        """The answer that tells `what` of `number`; those of children that were forked meanwhile are noted."""
        while True:
            if what == "forked" and self._bodies[number].pid:
                return {}
            answer = self._next_answer()
            if "refused" in answer and answer["number"] == number:
                raise WorkerLost(f"The fork server could not fork: {answer['refused']}", "Run `gpututor doctor`.")
            if what in answer and answer["number"] == number:
                return answer

    def _next_answer(self) -> dict[str, Any]:
        self._control.settimeout(ANSWERS_WITHIN_S if self._answered else READY_WITHIN_S)
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, 8192, 1)
        except OSError as error:
            raise self._lost() from error
        if not message:
            raise self._lost()
        self._answered = True
        answer: dict[str, Any] = json.loads(message)
        body = self._bodies[answer["number"]]
        for descriptor in descriptors:
            body.be(descriptor)
        if body.given_up and "forked" in answer:
            self._ask({"op": "end", "number": answer["number"]})
        elif body.given_up and "ended" in answer:
            del self._bodies[answer["number"]]
            body.forget()
        return answer

    def _lost(self) -> WorkerLost:
        if not self.is_dead():
            # It hangs, or is about to end.
            kill_tree(self.process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
        return WorkerLost("The fork server is gone.", "Try again. If it stays so, use `--workers spare`.")


class _Forked:
    """A child of the server."""

    def __init__(self, server: _Server, number: int, scratch: Path | None, connection: socket.socket) -> None:
        self._server = server
        self._number = number
        self._scratch = scratch
        self._connection = connection
        self._handle = -1
        self._pid = 0
        self._killed = False
        self.given_up = False
        """Ended by the judge before the server had forked it: collected when it is there."""

    def be(self, handle: int) -> None:
        """`handle`: what stands for the process, whatever its id is in the server's namespace."""
        self._pid = _pid_behind(handle)
        self._handle = handle
        if self._killed:
            self.kill()

    @property
    def pid(self) -> int:
        """0 until the server has forked it."""
        return self._pid

    def wait_until_started(self) -> None:
        self._server.wait_for_child(self._number)

    def has_ended(self) -> bool:
        return self._server.is_dead() or (self._handle >= 0 and _ended_within(self._handle, 0.0))

    def exit_status(self) -> int:
        if self._handle >= 0:
            _ended_within(self._handle, 1.0)
        status = self._server.status(self._number)
        return -signal.SIGKILL if status is None else status

    def ask_where(self) -> None:
        if self._pid:
            signal_below(self._pid, KEPT_BY if self._server.wrapped else 0, signal.SIGUSR1)

    def kill(self) -> None:
        self._killed = True
        # Whoever waits for its first words is told at once, also while it is not forked yet.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        if self._handle < 0:
            return
        if not (self._server.wrapped or self._server.is_dead()):
            kill_tree(self._pid)
        # With namespaces of its own all of it ends with the topmost. Where the server is gone, its id may be another's.
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def collect(self, keep: set[int]) -> None:
        if self._handle < 0 and not self._server.is_dead():
            self.given_up = True
            return
        with contextlib.suppress(WorkerLost):  # then all that it kept is the judge's now
            self._server.end(self._number)
        reap_orphans(keep)
        self.forget()

    def forget(self) -> None:
        """It is gone."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._scratch is not None:
            remove_scratch(self._scratch)


def _pid_behind(handle: int) -> int:
    """The process id that a descriptor stands for, in the judge's own namespace."""
    found = re.search(r"^Pid:\s*(\d+)", Path(f"/proc/self/fdinfo/{handle}").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def _ended_within(handle: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
