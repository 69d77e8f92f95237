"""Prints the devices of this machine as JSON, in a child process: the user interface never imports torch."""

from __future__ import annotations

import contextlib
import json
import platform
from typing import Any

import torch

from gpututor.hardware.scenario import ACCELERATORS


def describe_devices() -> list[dict[str, Any]]:
    """Return name, kind, description, memory_bytes (None if unknown) and uuid of the CPU and of each accelerator."""
    devices: list[dict[str, Any]] = [_entry("cpu", "cpu", platform.processor() or platform.machine(), None)]
    for kind in ACCELERATORS:
        # A driver can list a device and then fail: no program could use that device.
        with contextlib.suppress(RuntimeError):
            devices += _mps() if kind == "mps" else _numbered(kind, getattr(torch, kind))
    return devices


def _numbered(kind: str, module: Any) -> list[dict[str, Any]]:
    if not module.is_available():
        return []
    gpus = [module.get_device_properties(index) for index in range(module.device_count())]
    return [
        _entry(f"{kind}:{index}", kind, gpu.name, gpu.total_memory, str(getattr(gpu, "uuid", "")))
        for index, gpu in enumerate(gpus)
    ]


def _mps() -> list[dict[str, Any]]:
    if not torch.backends.mps.is_available():
        return []
    return [_entry("mps:0", "mps", "Apple GPU", torch.mps.recommended_max_memory())]


def _entry(name: str, kind: str, description: str, memory_bytes: int | None, uuid: str = "") -> dict[str, Any]:
    return {"name": name, "kind": kind, "description": description, "memory_bytes": memory_bytes, "uuid": uuid}


def main() -> None:
    """Print one JSON object on stdout and nothing else."""
    print(json.dumps({"torch": torch.__version__, "devices": describe_devices()}))


if __name__ == "__main__":
    main()
