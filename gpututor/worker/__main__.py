"""Entry point of the worker: `python -I -m gpututor.worker SOCKET STACK SCRATCH ISOLATION`. Serves one submission.

It has no seed, no reference, no tolerance and no verdict. The judge validates everything that it says.
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
from gpututor.worker.seccomp import block_escaping_syscalls, leave_session_keyring, refuse_memory

WARMED = (
    "torch",
    "torch._dynamo",  # 1.2 s: torch's modes and optimizers import it at their first use
    "gpututor.devices.virtual.session",
    "gpututor.worker.service",
)


def main() -> int:
    die_with_parent()
    # Orphans of the submission stay below the worker, where the judge's resource monitor sees them.
    adopt_orphans()
    leave_session_keyring()
    socket_fd, stack, scratch, isolation = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    warm_up()
    from gpututor.devices.probe import describe_devices

    return begin(socket_fd, stack, scratch, describe_devices(), own_namespace=isolation == "bubblewrap")


def warm_up() -> None:
    """Import what a run needs and read its tables. Computes nothing, leaves nothing."""
    for name in WARMED:
        importlib.import_module(name)
    from gpututor.hardware.scenario import Scenario
    from gpututor.protocol.messages import MachineSpec
    from gpututor.worker.guard import TamperGuard, code_of_worker
    from gpututor.worker.machine import enter_machine

    code_of_worker()  # outside of a machine, which patches classes of torch
    with enter_machine(MachineSpec(Scenario(""), "virtual", 0), "") as machine:
        TamperGuard(machine)


def begin(socket_fd: int, stack: int, scratch: Path, devices: list[dict[str, Any]], *, own_namespace: bool) -> int:
    """Report that this worker is ready, and serve; return the exit code. All imports are done.

    `stack` is the descriptor of the pipe for stack dumps.
    """
    import torch

    from gpututor.protocol.messages import apply_limits
    from gpututor.worker.service import serve

    sys.argv = ["submission"]
    connection = socket.socket(fileno=socket_fd)
    connection.set_inheritable(False)
    os.set_inheritable(stack, False)
    stream: BinaryIO = connection.makefile("rwb", buffering=1 << 16)  # type: ignore[assignment]
    os.chdir(scratch)
    # SIGUSR1 dumps the stack, so that a timeout names the line, even if Python code does not return.
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
