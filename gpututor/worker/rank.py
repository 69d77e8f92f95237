"""One rank of several, in its own process."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

import torch

from gpututor.processes import die_with_parent
from gpututor.worker.limits import OPEN_FILES


def begin_rank(
    number: int, count: int, connection: socket.socket, told: int, serve: Callable[[BinaryIO], int]
) -> NoReturn:
    """Be rank `number` of `count`, right after the fork, until the worker closes `connection`.

    `told`: where it writes its stack on SIGUSR1. Of what else the worker has open nothing stays but what prints.
    """
    code = 1
    try:
        die_with_parent()
        first, second = sorted((connection.fileno(), told))
        os.closerange(3, first)
        os.closerange(first + 1, second)
        os.closerange(second + 1, OPEN_FILES)
        faulthandler.register(signal.SIGUSR1, file=told)
        # As a launcher does it. The way to the others leads over this machine alone.
        os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(count), GLOO_SOCKET_IFNAME=_LOOPBACK)
        stream: BinaryIO = connection.makefile("rwb")  # type: ignore[assignment]
        code = serve(stream)
    except BaseException:  # the worker sees that it ended
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        # Nothing of the worker's is to be ended here.
        os._exit(code)


_LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


def device_of(rank: int | None, device: str, gpus: int) -> torch.device:
    """The device that is meant for a rank: one of its own where there are enough."""
    if rank is None or not device.startswith("cuda") or gpus < 2:
        return torch.device(device)
    return torch.device("cuda", rank % gpus)


def let_go() -> dict[str, Any]:
    """Whether a process group is still there; it is not any more."""
    distributed = torch.distributed
    left = distributed.is_available() and distributed.is_initialized()
    if left:
        distributed.destroy_process_group()
    return {"group_left": left}
