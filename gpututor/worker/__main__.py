"""The worker: `python -I -m gpututor.worker DESCRIPTOR SCRATCH`. Serves one submission and dies.

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

from gpututor.processes import die_with_parent
from gpututor.wire.frames import write_frame

WARMED = (
    "torch._dynamo",  # 1.2 s: torch's modes and optimisers import it at their first use
    "gpututor.devices.virtual.session",
    "gpututor.worker.service",
)


def main() -> int:
    die_with_parent()
    descriptor, scratch = int(sys.argv[1]), Path(sys.argv[2])
    sys.argv = ["submission"]
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    stream: BinaryIO = connection.makefile("rwb", buffering=1 << 16)  # type: ignore[assignment]
    ready = _warm_up()
    os.chdir(scratch)
    # Asked by SIGUSR1 what it is at, so that a timeout can name the line. Works while Python code does not return.
    faulthandler.register(signal.SIGUSR1, file=(scratch / ".stack").open("w"))
    write_frame(stream, ready)
    from gpututor.worker.service import serve

    return serve(stream, scratch)


def _warm_up() -> dict[str, Any]:
    """Import what a run needs, so that it does not pay for it. Returns what the judge is told."""
    import torch

    from gpututor.devices.inventory import describe_devices
    from gpututor.worker.limits import apply_limits

    for name in WARMED:
        importlib.import_module(name)
    torch.set_num_threads(1)
    apply_limits()
    return {"event": "ready", "torch": torch.__version__, "devices": describe_devices()}


if __name__ == "__main__":
    sys.exit(main())
