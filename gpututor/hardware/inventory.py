"""Real devices of this machine, probed by PyTorch in a child process and cached, and the device for a request."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpututor import paths
from gpututor.errors import NotGradableHere, UsageError
from gpututor.files import write_atomically
from gpututor.hardware.packages import TORCH_REQUIREMENT
from gpututor.hardware.scenario import ACCELERATORS, DEVICE_WORDS, KINDS
from gpututor.processes import kill_tree, python_module
from gpututor.text import escape_control_chars

PROBE_TIMEOUT_S = 60.0
"""The first import of torch from a slow or network disk takes up to half a minute."""

PROBE = python_module("gpututor.devices.probe")

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR")
_TORCH_VERSION = re.compile(r"^__version__ = '([^']+)'", re.MULTILINE)
_DRIVER_FILES = (("/dev", "nvidia[0-9]*"), ("/dev", "kfd"), ("/dev/dri", "renderD*"))


@dataclass(frozen=True)
class Device:
    """A device that PyTorch can use here."""

    name: str
    """`cpu`, `cuda:0`, `mps:0`, `xpu:0`."""
    kind: str
    """`cpu`, `cuda`, `mps` or `xpu`."""
    description: str
    """The vendor's name."""
    memory_bytes: int | None = None
    """Memory size in bytes; None if PyTorch does not report it."""
    uuid: str = ""
    """An id that does not depend on the device's number; empty if PyTorch does not report it."""


@dataclass(frozen=True)
class Inventory:
    """Devices of this machine."""

    torch: str
    """PyTorch's version; empty without PyTorch."""
    devices: tuple[Device, ...]
    probed_at: str
    """ISO 8601, UTC."""
    error: str = ""
    """Reason why the devices are unknown; empty if they are known."""

    @property
    def accelerators(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind != "cpu")


def load_inventory(refresh: bool = False) -> Inventory:
    """Return the devices of this machine from the cache; probe again with `refresh` or after a change.

    Never raises: problems are the inventory's `error`. Only an inventory without an error is cached.
    """
    installed = torch_version()
    if not installed:
        advice = f"Install it with `{sys.executable} -m pip install '{TORCH_REQUIREMENT}'`."
        return Inventory("", (), _now(), f"PyTorch is not installed for {sys.executable}. {advice}")
    cached = None if refresh else _cached(_circumstances(installed))
    if cached is not None:
        return cached
    inventory = _probe(installed)
    if not inventory.error:
        # Read again, because probing a GPU can create its files in /dev.
        entry = {"circumstances": _circumstances(installed), "inventory": asdict(inventory)}
        with contextlib.suppress(OSError):  # it is only a cache
            write_atomically(paths.devices_cache_file(), json.dumps(entry, indent=1) + "\n")
    return inventory


def device_line(device: Device) -> str:
    """Return one line for a device: `cuda:0   NVIDIA H200, 139.8 GiB`."""
    memory = "" if device.memory_bytes is None else f", {device.memory_bytes / 2**30:.1f} GiB"
    return f"{escape_control_chars(device.name):<7}  {escape_control_chars(device.description)}{memory}"


def torch_version() -> str:
    """Return `torch.__version__` without importing PyTorch; empty without PyTorch.

    The version of its distribution may lack the name of the build, as in 2.11.0 for 2.11.0+cu130.
    """
    from importlib.util import find_spec  # imported late: most commands read no version

    spec = find_spec("torch")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        with contextlib.suppress(OSError):
            if match := _TORCH_VERSION.search((Path(folder) / "version.py").read_text(encoding="utf-8")):
                return match[1]
    return ""


def _circumstances(installed: str) -> dict[str, Any]:
    """Return the facts that invalidate the cached inventory when they change."""
    drivers = [str(path) for folder, pattern in _DRIVER_FILES for path in sorted(Path(folder).glob(pattern))]
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    return {"python": sys.executable, "torch": installed, "drivers": drivers, **variables}


def _cached(circumstances: dict[str, Any]) -> Inventory | None:
    """Return the cached inventory; None if it is unreadable or if the facts have changed."""
    try:
        entry = json.loads(paths.devices_cache_file().read_text(encoding="utf-8"))
        if entry["circumstances"] != circumstances:
            return None
        return _inventory(entry["inventory"], str(entry["inventory"]["probed_at"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _inventory(answer: Any, probed_at: str) -> Inventory:
    """Parse the output of the probe. Raise `ValueError`, `KeyError` or `TypeError` for anything else."""
    devices = tuple(Device(**device) for device in answer["devices"])
    for device in devices:
        texts = (device.name, device.kind, device.description, device.uuid)
        if not all(isinstance(text, str) for text in texts) or not isinstance(device.memory_bytes, int | None):
            raise ValueError(f"not a device: {device}")
    if not isinstance(answer["torch"], str):
        raise ValueError("torch must be a version")
    return Inventory(answer["torch"], devices, probed_at)


def _probe(installed: str) -> Inventory:
    """Ask PyTorch in a child process; kill it and its descendants after `PROBE_TIMEOUT_S`."""
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(PROBE, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True)
    except OSError as error:
        return Inventory(installed, (), _now(), f"Python could not be started to look for devices: {error}.")
    with child:
        try:
            output, errors = child.communicate(timeout=PROBE_TIMEOUT_S)
        except BaseException as error:
            kill_tree(child.pid)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            reason = f"PyTorch did not list its devices within {PROBE_TIMEOUT_S:g} s; a driver may hang."
            return Inventory(installed, (), _now(), f"{reason} Try `python -c 'import torch'`.")
    try:
        # Only the last line: drivers may print to stdout before it.
        return _inventory(json.loads(output.decode().strip().rpartition("\n")[2]), _now())
    except (ValueError, KeyError, TypeError):
        last_line = errors.decode("utf-8", "replace").strip().rpartition("\n")[2] or f"it ended with {child.returncode}"
        return Inventory(installed, (), _now(), f"PyTorch could not list its devices: {last_line}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def select_device(allowed: Sequence[str], wanted: str, here: Mapping[str, int]) -> tuple[str, int]:
    """Return the kind and the number of the device for an exercise that allows certain kinds.

    `wanted` is a `GradeRequest.device`; `here` counts the real devices of each kind. Raises `NotGradableHere` if this
    machine or the exercise does not support the request, `UsageError` for an unknown device.
    """
    kind, _, number = wanted.partition(":")
    if kind == "auto":
        real = [name for name in ACCELERATORS if here.get(name) and name in allowed]
        return (real[0] if real else "virtual"), 0
    check_device_name(wanted)
    if kind not in allowed:
        fitting = ", ".join(allowed)
        raise NotGradableHere(
            f"This exercise cannot be graded on {kind}.",
            f"It can be graded on {fitting}. Try --device virtual.",
        )
    index = int(number or 0)
    if kind in ACCELERATORS and here.get(kind, 0) <= index:
        raise NotGradableHere(
            f"This machine has no device {wanted}.",
            "`gpututor devices` lists the devices, and `gpututor doctor` checks them. Try --device virtual.",
        )
    return kind, index


def check_device_name(wanted: str) -> None:
    """Raise `UsageError` for an unknown device."""
    kind, _, number = wanted.partition(":")
    if kind not in ("auto", *KINDS) or (number and not number.isdigit()):
        raise UsageError(f"There is no device called {wanted!r}.", f"Use auto, {DEVICE_WORDS}.")


def device_in_key(kind: str, model: str) -> str:
    """Return `GradingKey.device`; `model` is a real device's, or the model of the virtual GPU that a request names."""
    return f"{kind} {model}" if model and kind != "cpu" else kind
