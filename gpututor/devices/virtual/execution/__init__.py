"""Execution of work on a virtual machine: prices it, puts it on the clock and records it."""

from __future__ import annotations

from gpututor.devices.virtual.execution import races
from gpututor.devices.virtual.execution.copies import copy, copy_to_host
from gpututor.devices.virtual.execution.launch import host_copy, host_kernel, kernel, kernel_of_bytes
from gpututor.devices.virtual.execution.waits import synchronize, wait_for_mark

__all__ = [
    "copy", "copy_to_host", "host_copy", "host_kernel", "kernel", "kernel_of_bytes", "races", "synchronize",
    "wait_for_mark",
]  # fmt: skip
