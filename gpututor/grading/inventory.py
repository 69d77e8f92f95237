"""Which devices this machine has. PyTorch is asked in a child process; its answer is kept for the next time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpututor import paths
from gpututor.files import write_atomically
from gpututor.plain_text import visible
from gpututor.processes import kill_tree, python_module

PROBE_TIMEOUT_S = 60.0
"""A first import of torch from a cold or distant disk takes up to half a minute."""

PROBE = python_module("gpututor.devices.inventory")

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR")
_DRIVER_FILES = (("/dev", "nvidia[0-9]*"), ("/dev", "kfd"), ("/dev/dri", "renderD*"))


@dataclass(frozen=True)
class Device:
    """One device that PyTorch can use here."""

    name: str
    """`cpu`, `cuda:0`, `mps:0`, `xpu:0`."""
    kind: str
    """`cpu`, `cuda`, `mps` or `xpu`."""
    description: str
    """The maker's name for it."""
    memory_bytes: int | None = None
    """None where PyTorch does not tell."""
    uuid: str = ""
    """The same whatever number the device has; empty where PyTorch does not tell."""


@dataclass(frozen=True)
class Inventory:
    """What was found on this machine."""

    torch: str
    """PyTorch's version; empty when there is none."""
    devices: tuple[Device, ...]
    probed_at: str
    """ISO 8601, UTC."""
    error: str = ""
    """Why the devices could not be found out, in words; empty when they were."""

    @property
    def accelerators(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind != "cpu")


def known_devices(refresh: bool = False) -> Inventory:
    """The devices of this machine: as they were found last, or, with `refresh` or after a change, found out anew.

    Never raises: what went wrong is the inventory's `error`. Only an inventory without one is kept.
    """
    installed = torch_version()
    if not installed:
        advice = f"`{sys.executable} -m pip install torch` brings it."
        return Inventory("", (), _now(), f"PyTorch is not installed for {sys.executable}. {advice}")
    kept = None if refresh else _kept(_circumstances(installed))
    if kept is not None:
        return kept
    found = _probe(installed)
    if not found.error:
        # Looked at again: probing a GPU can be what creates its files in /dev.
        entry = {"circumstances": _circumstances(installed), "inventory": asdict(found)}
        with contextlib.suppress(OSError):  # it is only a cache
            write_atomically(paths.devices_cache_file(), json.dumps(entry, indent=1) + "\n")
    return found


def device_line(device: Device) -> str:
    """`cuda:0   NVIDIA H200, 139.8 GiB`"""
    memory = "" if device.memory_bytes is None else f", {device.memory_bytes / 2**30:.1f} GiB"
    return f"{visible(device.name):<7}  {visible(device.description)}{memory}"


def torch_version() -> str:
    """The version of the installed PyTorch, without importing it; empty when there is none."""
    from importlib import metadata  # 16 ms

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""


def _circumstances(installed: str) -> dict[str, Any]:
    """What the answer depends on: when any of it changes, the devices are found out anew."""
    drivers = [str(path) for folder, pattern in _DRIVER_FILES for path in sorted(Path(folder).glob(pattern))]
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    return {"python": sys.executable, "torch": installed, "drivers": drivers, **variables}


def _kept(circumstances: dict[str, Any]) -> Inventory | None:
    """The inventory in the cache, None when it is for other circumstances or cannot be read."""
    try:
        entry = json.loads(paths.devices_cache_file().read_text(encoding="utf-8"))
        if entry["circumstances"] != circumstances:
            return None
        return _inventory(entry["inventory"], str(entry["inventory"]["probed_at"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _inventory(answer: Any, probed_at: str) -> Inventory:
    """Read what the probe printed. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    devices = tuple(Device(**device) for device in answer["devices"])
    for device in devices:
        texts = (device.name, device.kind, device.description, device.uuid)
        if not all(isinstance(text, str) for text in texts) or not isinstance(device.memory_bytes, int | None):
            raise ValueError(f"not a device: {device}")
    if not isinstance(answer["torch"], str):
        raise ValueError("torch must be a version")
    return Inventory(answer["torch"], devices, probed_at)


def _probe(installed: str) -> Inventory:
    """Ask PyTorch in a child process, which is ended with all that it started after `PROBE_TIMEOUT_S`."""
    try:
        child = subprocess.Popen(
            PROBE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Inventory(installed, (), _now(), f"Python could not be started to look for devices: {error}.")
    with child:
        try:
            output, errors = child.communicate(timeout=PROBE_TIMEOUT_S)
        except BaseException as error:
            kill_tree(child.pid)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            reason = f"PyTorch did not tell its devices within {PROBE_TIMEOUT_S:g} s; a driver may hang."
            return Inventory(installed, (), _now(), f"{reason} Try `python -c 'import torch'`.")
    try:
        # The last line alone: drivers print on stdout too.
        return _inventory(json.loads(output.decode().strip().rpartition("\n")[2]), _now())
    except (ValueError, KeyError, TypeError):
        said = errors.decode("utf-8", "replace").strip().rpartition("\n")[2] or f"it ended with {child.returncode}"
        return Inventory(installed, (), _now(), f"PyTorch could not tell its devices: {said}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
