"""Prints the devices of this machine as JSON.

Run in a child process, so that the one a person looks at never imports torch.
"""

from __future__ import annotations

import json
import platform
from typing import Any

import torch


def describe_devices() -> list[dict[str, Any]]:
    """cpu first, then each accelerator: name, kind, description, memory_bytes (None where torch does not tell)."""
    devices: list[dict[str, Any]] = [_entry("cpu", "cpu", platform.processor() or platform.machine(), None)]
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            devices.append(_entry(f"cuda:{index}", "cuda", properties.name, properties.total_memory))
    if torch.backends.mps.is_available():
        devices.append(_entry("mps:0", "mps", "Apple GPU", torch.mps.recommended_max_memory()))
    if torch.xpu.is_available():
        for index in range(torch.xpu.device_count()):
            xpu = torch.xpu.get_device_properties(index)
            devices.append(_entry(f"xpu:{index}", "xpu", xpu.name, xpu.total_memory))
    return devices


def _entry(name: str, kind: str, description: str, memory_bytes: int | None) -> dict[str, Any]:
    return {"name": name, "kind": kind, "description": description, "memory_bytes": memory_bytes}


def main() -> None:
    """One JSON object on stdout and nothing else."""
    print(json.dumps({"torch": torch.__version__, "devices": describe_devices()}))


if __name__ == "__main__":
    main()
