"""The worker: `python -I -m gpututor.worker SOCKET STACK SCRATCH ISOLATION`. Serves one submission and dies.

It holds no seed, no reference, no tolerance and no verdict. Whatever it says is looked at, not believed.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, BinaryIO

from gpututor.processes import adopt_orphans, die_with_parent
from gpututor.protocol.frames import write_frame
from gpututor.worker.seccomp import block_escaping_syscalls, leave_keys, refuse_memory

WARMED = (
    "torch",
    "torch._dynamo",  # 1.2 s: torch's modes and optimisers import it at their first use
    "gpututor.devices.virtual.session",
    "gpututor.worker.service",
)


def main() -> int:
    die_with_parent()
    # Orphans of the submission's stay below it, where the judge's watch sees them.
    adopt_orphans()
    leave_keys()
    sockets, stack, scratch, isolation = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    warm_up()
    from gpututor.devices.probe import describe_devices

    return begin(sockets, stack, scratch, describe_devices(), own_namespace=isolation == "bubblewrap")


def warm_up() -> None:
    """Import what a run needs and read its tables, so that it does not pay for it. Computes nothing, leaves nothing."""
    for name in WARMED:
        importlib.import_module(name)
    from gpututor.hardware.scenario import Scenario
    from gpututor.protocol.messages import MachineSpec
    from gpututor.worker.guard import TamperGuard, code_of_worker
    from gpututor.worker.machine import enter_machine

    code_of_worker()  # outside of a machine, which puts functions of ours into classes that are not
    with enter_machine(MachineSpec(Scenario(""), "virtual", 0), "") as machine:
        TamperGuard(machine)


def begin(connected: int, stack: int, scratch: Path, devices: list[dict[str, Any]], *, own_namespace: bool) -> int:
    """Say that this worker is ready, and serve; returns the exit code. All is imported by now.

    `connected`: the descriptor of the socket to the judge. `stack`: that of the pipe for where the code is.
    """
    import torch

    from gpututor.protocol.messages import apply_limits
    from gpututor.worker.service import serve

    sys.argv = ["submission"]
    connection = socket.socket(fileno=connected)
    connection.set_inheritable(False)
    os.set_inheritable(stack, False)
    stream: BinaryIO = connection.makefile("rwb", buffering=1 << 16)  # type: ignore[assignment]
    os.chdir(scratch)
    # Asked by SIGUSR1 what it is at, so that a timeout can name the line. Works while Python code does not return.
    faulthandler.register(signal.SIGUSR1, file=stack)
    torch.set_num_threads(1)
    apply_limits(own_namespace)
    block_escaping_syscalls()
    if all(device["kind"] == "cpu" for device in devices):
        refuse_memory()
    write_frame(stream, {"event": "ready", "torch": torch.__version__, "devices": devices})
    return serve(stream, scratch)


if __name__ == "__main__":
    sys.exit(main())
