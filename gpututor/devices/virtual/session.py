"""`virtual_gpu()`: switches the virtual GPU on for a block of code, and leaves torch as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import patches, private, versions
from gpututor.devices.virtual.face.visible import visible_slots
from gpututor.devices.virtual.machine import MAX_GPUS, VirtualGpu, VirtualMachine, active, is_on, switch
from gpututor.devices.virtual.modules import autocast
from gpututor.devices.virtual.operators import dropout
from gpututor.devices.virtual.operators.overloads import add_rules
from gpututor.devices.virtual.operators.rules import special_rules
from gpututor.devices.virtual.parallel import inheritance
from gpututor.devices.virtual.parallel.collectives import collective_rules
from gpututor.devices.virtual.parallel.inheritance import MachineSettings
from gpututor.devices.virtual.patch_table import CUDA_BUILD, PATCHES
from gpututor.devices.virtual.specs import spec
from gpututor.devices.virtual.tensors import moves
from gpututor.devices.virtual.tensors.calls import fill_handlers
from gpututor.devices.virtual.tensors.names import ThreadModes

BACKENDS = ("cuda", "mps", "xpu")
_lock = threading.Lock()


@contextmanager
def virtual_gpu(
    count: int = 1,
    model: str = "T4",
    *,
    memory_bytes: int | None = None,
    backends: Sequence[str] = ("cuda",),
    obey_environment: bool = True,
    recorder: Recorder | None = None,
) -> Iterator[VirtualMachine]:
    """A machine with `count` GPUs of that model, for the time of the block.

    `CUDA_VISIBLE_DEVICES`, read on entering, says which of them the process sees, unless `obey_environment` is False.
    `memory_bytes` replaces the model's own memory. `backends` says which of cuda, mps and xpu report themselves
    available: without `cuda` there are no GPUs, and mps and xpu can be asked about but not computed on. Raises
    `ValueError` for a count or backend that cannot be, `TutorError` for an unknown model, `RuntimeError` when a
    virtual GPU is on already.
    """
    versions.warn_of(torch.__version__)
    machine = _built(count, model, memory_bytes, backends, recorder, obey_environment)
    add_rules({**special_rules(), **collective_rules(), **dropout.dropout_rules()})
    fill_handlers()
    inheritance.leave()
    with _lock:
        if is_on():
            raise RuntimeError("A virtual GPU is on already: leave its block before entering another.")
        switch(machine)
    context_before = private.global_device_context()
    try:
        settings = MachineSettings(count, model, memory_bytes, tuple(backends), obey_environment)
        table = (*PATCHES, *(CUDA_BUILD if "cuda" in machine.backends else ()))
        with patches.applied(table), inheritance.passed_on(settings), dropout.fused(), ThreadModes():
            try:
                yield machine
            finally:
                if private.global_device_context() is not context_before:
                    torch.set_default_device(None if context_before is None else context_before.device)
                    private.forget_global_device_context()
    finally:
        switch(None)
        autocast.forget()
        moves.forget_pinned()


@contextmanager
def virtual_gpu_or_another(
    count: int = 1, model: str = "T4", *, memory_bytes: int | None = None
) -> Iterator[VirtualMachine]:
    """As `virtual_gpu`; where one is on already, another machine stands in its place for the time of the block."""
    if not is_on():
        with virtual_gpu(count, model, memory_bytes=memory_bytes) as machine:
            yield machine
        return
    before, machine = active(), _built(count, model, memory_bytes, ("cuda",), None, True)
    machine.beside_real_gpu = before.beside_real_gpu
    switch(machine)
    try:
        with inheritance.passed_on(MachineSettings(count, model, memory_bytes, ("cuda",))):
            yield machine
    finally:
        switch(before)


def _built(
    count: int,
    model: str,
    memory_bytes: int | None,
    backends: Sequence[str],
    recorder: Recorder | None,
    obey_environment: bool,
) -> VirtualMachine:
    if not 0 <= count <= MAX_GPUS:
        raise ValueError(f"a virtual machine has 0 to {MAX_GPUS} GPUs, not {count}")
    unknown = set(backends) - set(BACKENDS)
    if unknown:
        raise ValueError(f"unknown backends {sorted(unknown)}: choose from {', '.join(BACKENDS)}")
    chosen = spec(model)
    total = chosen.memory_bytes if memory_bytes is None else memory_bytes
    in_box = count if "cuda" in backends else 0
    slots = visible_slots(in_box) if obey_environment else list(range(in_box))
    gpus = tuple(VirtualGpu(index, chosen, total, slot) for index, slot in enumerate(slots))
    return VirtualMachine(gpus, frozenset(backends), recorder)
