"""The fork server: `python -I -m gpututor.worker.fork_server CONTROL ISOLATION`. Linux only.

It has imported all that a run needs and never computes: after one matrix product here, a forked child would hang for
ever. Each child serves one submission. The judge asks over the control socket, in JSON, one message at a time:

- `fork` with a number, a scratch folder, and three descriptors (the child's socket, the pipe that it prints to, the
  pipe for its stack): answered with a descriptor that stands for the child;
- `status` of a number: answered with its exit code, minus a signal's number, or nothing while it lives;
- `end` of a number: answered when it is gone with all that it started.

A child is not reaped before its `end`, so that its process id cannot become another process's meanwhile. When the judge
goes, however it went, everything here ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from gpututor.processes import (
    adopt_orphans,
    die_with_parent,
    kill_descendants,
    kill_tree,
    reap_orphans,
    status_of_child,
    wake_when_parent_ends,
)
from gpututor.worker import huge_pages
from gpututor.worker.__main__ import begin, warm_up
from gpututor.worker.namespaces import close_all_but, in_namespaces_of_its_own, run_and_exit
from gpututor.worker.refused import leave_keys

LONGEST_MESSAGE = 8192
FOR_MANY = ("torch.export._trace", "torch.utils.benchmark")
"""Half a second of imports for few submissions: paid once here, and by a spare worker only when it comes to it."""


def main() -> int:
    wake_when_parent_ends()  # else it would not see its control socket close while it is stopped
    adopt_orphans()
    leave_keys()
    control, isolation = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    control.set_inheritable(False)
    warm_up()
    for name in FOR_MANY:
        with contextlib.suppress(ImportError):  # another torch may keep them elsewhere
            importlib.import_module(name)
    server = Server(control, own_namespace=isolation == "bubblewrap")
    # What is here now is never looked at by a child's garbage collector, which would copy the pages.
    gc.collect()
    gc.freeze()
    huge_pages.gather()
    try:
        server.serve()
    finally:
        kill_descendants()
    return 0


class Server:
    """Forks children, and tells how they ended."""

    def __init__(self, control: socket.socket, *, own_namespace: bool) -> None:
        self._control = control
        self._own_namespace = own_namespace
        self._children: dict[int, int] = {}
        """Process ids by the judge's numbers; not reaped."""
        self._devices = _described_in_a_child()

    def serve(self) -> None:
        """Until the judge is gone."""
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._control, LONGEST_MESSAGE, 3)
            except ConnectionError:
                return
            if not message:
                return
            asked = json.loads(message)
            try:
                if asked["op"] == "fork":
                    self._fork(asked["number"], Path(asked["scratch"]), descriptors)
                elif asked["op"] == "status":
                    self._say({"number": asked["number"], "status": self._status(asked["number"])})
                else:
                    self._end(asked["number"])
                    self._say({"number": asked["number"], "ended": True})
            except ConnectionError:
                return

    def _say(self, answer: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self._control, [json.dumps(answer).encode()], descriptors)

    def _fork(self, number: int, scratch: Path, descriptors: list[int]) -> None:
        connected, printed, stack = descriptors

        def serve() -> int:
            return begin(connected, stack, scratch, self._devices, own_namespace=self._own_namespace)

        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._say({"number": number, "refused": str(error)})
            return
        finally:
            if os.getpid() == parent:
                for descriptor in descriptors:
                    os.close(descriptor)
        if pid == 0:
            _be_child(parent, (connected, stack), printed, scratch, serve, self._own_namespace)
        self._children[number] = pid
        handle = os.pidfd_open(pid)
        self._say({"number": number, "forked": True}, (handle,))
        os.close(handle)

    def _status(self, number: int) -> int | None:
        return status_of_child(self._children[number])

    def _end(self, number: int) -> None:
        pid = self._children[number]
        if self._status(number) is None:
            kill_tree(pid)
        os.waitpid(pid, 0)
        del self._children[number]
        reap_orphans(set(self._children.values()))


def _be_child(
    parent: int, kept: tuple[int, ...], printed: int, scratch: Path, serve: Callable[[], int], own_namespace: bool
) -> NoReturn:
    """Only what is the child's own stays open. Never returns to the server's loop."""

    def run() -> int:
        die_with_parent()
        if os.getppid() != parent:
            return 1
        os.setsid()
        for standard in (1, 2):
            os.dup2(printed, standard)
        close_all_but(0, 1, 2, *kept)
        os.environ["HOME"] = os.environ["TMPDIR"] = str(scratch)
        tempfile.tempdir = None
        adopt_orphans()
        leave_keys()
        return in_namespaces_of_its_own(scratch, serve) if own_namespace else serve()

    run_and_exit(run)


def _described_in_a_child() -> list[dict[str, Any]]:
    """The machine's devices. To ask a device initialises it, and that must not happen in a process that forks."""
    from gpututor.devices.inventory import describe_devices

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, json.dumps(describe_devices()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    devices: list[dict[str, Any]] = json.loads(said)
    return devices


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
