"""The device that `--device` and its like ask for: a real one, or the virtual GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpututor.devices.virtual.options import DEFAULT_MODEL, bytes_in, count_in
from gpututor.errors import UsageError
from gpututor.hardware.gpus import GpuSpec, gpu_spec

if TYPE_CHECKING:
    from gpututor.devices.recorder import Recorder
    from gpututor.devices.virtual.machine import VirtualMachine


@dataclass(frozen=True)
class DeviceRequest:
    """What was asked for, looked at as far as that can be done without torch."""

    device: str
    """`auto`, `virtual`, `cpu`, `cuda`, `cuda:N`, `mps` or `xpu`."""
    gpu: GpuSpec
    """Of the virtual GPU, as the next two."""
    gpus: int = 1
    memory_bytes: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else `virtual_gpu` is called with."""


@dataclass(frozen=True)
class SelectedDevice:
    """The device that was found."""

    kind: str
    """`virtual`, `cpu`, `cuda`, `mps` or `xpu`."""
    words: str
    machine: VirtualMachine | None
    """Of the virtual GPU."""


def wanted(device: str, gpu: str | None, gpus: str, memory: str | None, **options: Any) -> DeviceRequest:
    """Reads the words of a command line. Raises `UsageError` for those that cannot be."""
    kind, colon, index = device.partition(":")
    if kind not in ("auto", "virtual", "cpu", "cuda", "mps", "xpu") or (
        colon and not (kind == "cuda" and index.isdecimal())
    ):
        raise UsageError(f"There is no device {device!r}.", "Known: auto, virtual, cpu, cuda, cuda:N, mps, xpu.")
    model = gpu_spec(DEFAULT_MODEL if gpu is None else gpu)
    try:
        count = count_in(gpus)
    except ValueError as error:
        raise UsageError(f"--gpus: {error}.") from None
    try:
        memory_bytes = None if memory is None else bytes_in(memory)
    except ValueError as error:
        raise UsageError(f"--memory: {error}.") from None
    return DeviceRequest(device, model, count, memory_bytes, options)


@contextlib.contextmanager
def on_device(asked: DeviceRequest, recorder: Recorder | None = None) -> Iterator[SelectedDevice]:
    """Be on the device that was asked for; `auto` is a real accelerator, else the virtual GPU.

    With `recorder`, what the device does is written down. Raises `UsageError` where this machine has no such device.
    """
    from gpututor.devices.probe import describe_devices

    kind, _, index = asked.device.partition(":")
    devices = describe_devices()
    real = [one for one in devices if one["kind"] != "cpu"]
    if kind == "virtual" or (kind == "auto" and not real):
        from gpututor.devices.virtual.session import virtual_gpu

        model, gpus = asked.gpu.name, asked.gpus
        with virtual_gpu(gpus, model, memory_bytes=asked.memory_bytes, recorder=recorder, **asked.options) as machine:
            words = f"virtual {model} (modelled)" if gpus == 1 else f"{gpus} x virtual {model} (modelled)"
            yield SelectedDevice("virtual", words, machine)
        return
    name = {"auto": real[0]["name"] if real else "", "cpu": "cpu", "cuda": f"cuda:{index or 0}"}.get(kind, f"{kind}:0")
    found = next((one for one in devices if one["name"] == name), None)
    if found is None:
        raise UsageError(f"This machine has no device {asked.device}.", "Try --device virtual.")
    if found["kind"] == "cuda":
        import torch

        torch.cuda.set_device(name)
    with contextlib.ExitStack() as stack:
        if recorder is not None:
            from gpututor.devices.real import observe

            stack.enter_context(observe(recorder))
        yield SelectedDevice(found["kind"], "the CPU" if kind == "cpu" else str(found["description"]), None)
