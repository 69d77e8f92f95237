"""Whatever is done on a virtual machine, is done here: priced, put on the clock, and told to the recorder."""

from __future__ import annotations

from gpututor.devices.virtual.work import hazards
from gpututor.devices.virtual.work.copies import copy, copy_to_host
from gpututor.devices.virtual.work.kernels import host_copy, host_kernel, kernel, kernel_of_bytes
from gpututor.devices.virtual.work.waits import wait, wait_for_mark

__all__ = [
    "copy",
    "copy_to_host",
    "hazards",
    "host_copy",
    "host_kernel",
    "kernel",
    "kernel_of_bytes",
    "wait",
    "wait_for_mark",
]
