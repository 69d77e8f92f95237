"""Prints the devices of this machine as JSON.

Runs in a child process, so that the user interface never imports torch.
"""

from __future__ import annotations

import contextlib
import json
import platform
from typing import Any

import torch


def describe_devices() -> list[dict[str, Any]]:
    """Return name, kind, description, memory_bytes (None if unknown) and uuid of the CPU and of each accelerator."""
    devices: list[dict[str, Any]] = [_entry("cpu", "cpu", platform.processor() or platform.machine(), None)]
    for described in (_cuda, _mps, _xpu):
        # A driver that shows a device and then fails has none that anybody could use.
        with contextlib.suppress(RuntimeError):
            devices += described()
    return devices


def _cuda() -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return []
    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [_entry(f"cuda:{index}", "cuda", gpu.name, gpu.total_memory, _uuid(gpu)) for index, gpu in enumerate(gpus)]


def _mps() -> list[dict[str, Any]]:
    if not torch.backends.mps.is_available():
        return []
    return [_entry("mps:0", "mps", "Apple GPU", torch.mps.recommended_max_memory())]


def _xpu() -> list[dict[str, Any]]:
    if not torch.xpu.is_available():
        return []
    gpus = [torch.xpu.get_device_properties(index) for index in range(torch.xpu.device_count())]
    return [_entry(f"xpu:{index}", "xpu", gpu.name, gpu.total_memory, _uuid(gpu)) for index, gpu in enumerate(gpus)]


def _uuid(gpu: Any) -> str:
    """Return the maker's identifier; empty if this torch does not know it."""
    return str(getattr(gpu, "uuid", ""))


def _entry(name: str, kind: str, description: str, memory_bytes: int | None, uuid: str = "") -> dict[str, Any]:
    return {"name": name, "kind": kind, "description": description, "memory_bytes": memory_bytes, "uuid": uuid}


def main() -> None:
    """Print one JSON object on stdout and nothing else."""
    print(json.dumps({"torch": torch.__version__, "devices": describe_devices()}))


if __name__ == "__main__":
    main()
