"""Client of the fork server, which has imported torch: a worker starts in 20 ms instead of 1.2 s. Linux only."""

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
    remove_scratch,
)
from gpututor.processes import kill_tree, reap_orphans, signal_below

WRAPPERS = 1
"""Processes between the server and a worker's Python process, if children have their own namespaces."""
ANSWERS_WITHIN_S = 20.0
"""Seconds that a warm server has to answer: ending a tree of many processes takes a while."""


class ForkServer:
    """A source of workers: one server, started at the first worker and again after it died."""

    name: Workers = "fork server"

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self.isolation = isolation.name
        self.starts_ahead = isolation.wrappers > 0  # other processes are in other namespaces
        self._server: _Server | None = None

    def start(self) -> Worker:
        server = self._running_server()
        with open_pipes(self._isolation) as pipes:
            return pipes.worker(server.fork(pipes))

    def own_pids(self) -> set[int]:
        return {self._server.process.pid} if self._server is not None else set()

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
    """The server's process and its control socket. Used by one thread."""

    def __init__(self, isolation: Isolation) -> None:
        self.wrapped = isolation.name == "bubblewrap"
        self._numbers = itertools.count()
        self._children: dict[int, _Forked] = {}
        self._answered = False
        self._control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with server_end, contextlib.ExitStack() as on_failure:
                on_failure.enter_context(self._control)
                self.process = subprocess.Popen(
                    isolation.command("gpututor.worker.fork_server", str(server_end.fileno()), isolation.name),
                    stdin=subprocess.DEVNULL,
                    stdout=sys.__stderr__,  # its output goes to the judge's log
                    stderr=sys.__stderr__,
                    pass_fds=[server_end.fileno()],
                    env=worker_environment(isolation.own_scratch or Path(tempfile.gettempdir())),
                    start_new_session=True,
                )
                on_failure.pop_all()
        except OSError as error:
            raise GradingError(f"The fork server could not be started: {error}", "Run `gpututor doctor`.") from error
        self._control.settimeout(ANSWERS_WITHIN_S)

    def is_dead(self) -> bool:
        return self.process.poll() is not None

    def fork(self, pipes: WorkerPipes) -> _Forked:
        """Request a child without waiting for it. Raises `WorkerLost`."""
        number = next(self._numbers)
        child = _Forked(self, number, pipes.scratch.outside, pipes.judge_connection)
        descriptors = (pipes.connection.fileno(), pipes.printed, pipes.stack)
        self._ask({"op": "fork", "number": number, "scratch": str(pipes.scratch.inside)}, descriptors)
        self._children[number] = child
        return child

    def status(self, number: int) -> int | None:
        """Return the exit status of a child; None while it runs. Raises `WorkerLost` if the server is gone."""
        self._ask({"op": "status", "number": number})
        status: int | None = self.answer("status", number)["status"]
        return status

    def end(self, number: int) -> None:
        """End a child with everything that it started. Raises `WorkerLost` if the server is gone."""
        if not self._children[number].is_refused:
            self._ask({"op": "end", "number": number})
            self.answer("ended", number)
        del self._children[number]

    def close(self) -> None:
        self._give_up()
        for child in tuple(self._children.values()):
            child.kill()
        reap_orphans(set())
        for child in tuple(self._children.values()):
            child.dispose()
        self._children.clear()
        self._control.close()

    def _ask(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
        except OSError as error:
            raise self._give_up() from error

    def answer(self, what: str, number: int) -> dict[str, Any]:
        """Wait for the answer with `what` about a child; note other answers meanwhile. Raises `WorkerLost`."""
        while True:
            if what == "forked" and self._children[number].pid:
                return {}
            answer = self._next_answer()
            if what in answer and answer["number"] == number:
                return answer

    def _next_answer(self) -> dict[str, Any]:
        self._control.settimeout(ANSWERS_WITHIN_S if self._answered else READY_WITHIN_S)
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, 8192, 1)
        except OSError as error:
            raise self._give_up() from error
        if not message:
            raise self._give_up()
        self._answered = True
        answer: dict[str, Any] = json.loads(message)
        child = self._children[answer["number"]]
        for descriptor in descriptors:
            child.attach(descriptor)
        child.is_refused = "refused" in answer
        if child.is_abandoned and "forked" in answer:
            self._ask({"op": "end", "number": answer["number"]})
        elif child.is_abandoned and ("ended" in answer or child.is_refused):
            del self._children[answer["number"]]
            child.dispose()
        return answer

    def _give_up(self) -> WorkerLost:
        if not self.is_dead():
            # It hangs, or is about to end.
            kill_tree(self.process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
        return WorkerLost("The fork server is gone.", "Try again. If it happens again, use `--workers spare`.")


class _Forked:
    """A child of the server."""

    def __init__(self, server: _Server, number: int, scratch: Path | None, connection: socket.socket) -> None:
        self._server, self._number, self._scratch, self._connection = server, number, scratch, connection
        self._pidfd = -1
        self.pid = 0
        self._killed = False
        self.is_abandoned = False
        """True if the judge gave up the child before the server forked it. It is reaped once it appears."""
        self.is_refused = False
        """True if the system refused the fork: there is no child."""

    def attach(self, pidfd: int) -> None:
        """Store the pidfd, and the process id in the judge's namespace."""
        self.pid = _pid_of(pidfd)
        self._pidfd = pidfd
        if self._killed:
            self.kill()

    def wait_for_pid(self) -> None:
        self._server.answer("forked", self._number)

    def has_ended(self) -> bool:
        return self._server.is_dead() or (self._pidfd >= 0 and _wait_for_end(self._pidfd, 0.0))

    def exit_status(self) -> int:
        if self._pidfd >= 0:
            _wait_for_end(self._pidfd, 1.0)
        status = self._server.status(self._number)
        return -signal.SIGKILL if status is None else status

    def dump_stack(self) -> None:
        if self.pid:
            signal_below(self.pid, WRAPPERS if self._server.wrapped else 0, signal.SIGUSR1)

    def kill(self) -> None:
        self._killed = True
        # This ends a wait for the child's first frame at once, even before the fork.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        if self._pidfd < 0:
            return
        if not (self._server.wrapped or self._server.is_dead()):
            kill_tree(self.pid)
        # Namespaces end with their topmost process. After the server's end, `pid` may belong to another process.
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def reap(self, keep: set[int]) -> None:
        if self._pidfd < 0 and not (self.is_refused or self._server.is_dead()):
            self.is_abandoned = True
            return
        with contextlib.suppress(WorkerLost):  # the server is gone: its children are the judge's now
            self._server.end(self._number)
        reap_orphans(keep)
        self.dispose()

    def dispose(self) -> None:
        """Close the pidfd and remove the scratch folder of a child that is gone."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._scratch is not None:
            remove_scratch(self._scratch)


def _pid_of(pidfd: int) -> int:
    """Return the process id of a pidfd in the judge's own namespace."""
    match = re.search(r"^Pid:\s*(\d+)", Path(f"/proc/self/fdinfo/{pidfd}").read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


def _wait_for_end(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
