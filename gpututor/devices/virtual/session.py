"""`virtual_gpu()`: switches the virtual GPU on for a block of code, and leaves torch as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import options, torch_private
from gpututor.devices.virtual.api import nvtx, tensor_types
from gpututor.devices.virtual.api.devices import visible_slots
from gpututor.devices.virtual.api.function_mode import ThreadModes, fill_handlers
from gpututor.devices.virtual.api.random import DeviceGenerator
from gpututor.devices.virtual.clock.python_time import virtual_time_of
from gpututor.devices.virtual.distributed import child_processes
from gpututor.devices.virtual.distributed.child_processes import MachineSettings
from gpututor.devices.virtual.distributed.collectives import collective_rules
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active_machine, is_on, set_active_machine
from gpututor.devices.virtual.operator_registry import add_rules
from gpututor.devices.virtual.operators import autocast, dispatch, shape_only, special
from gpututor.devices.virtual.operators.special import special_rules
from gpututor.devices.virtual.options import DEFAULT_MODEL, check_arguments
from gpututor.devices.virtual.patches import CUDA_BUILD, PATCHES, TIME, patch
from gpututor.devices.virtual.profiler import profile
from gpututor.devices.virtual.tensors import module_to, moves, serialization, tensor
from gpututor.devices.virtual.tensors.tensor import Hooks
from gpututor.hardware.gpus import gpu_spec

Hooks.run = dispatch.run
Hooks.set_data_across_devices = module_to.set_data_across_devices
Hooks.parse_tensor_type = tensor_types.parse_tensor_type
Hooks.text_of = tensor.text_of
Hooks.deep_copy = serialization.deep_copy
Hooks.reduce = serialization.reduce
Hooks.set_source = special.set_source
Hooks.thread_modes = ThreadModes
BACKENDS = ("cuda", "mps", "xpu")
_lock = threading.Lock()


@contextmanager
def virtual_gpu(
    count: int = 1,
    model: str = DEFAULT_MODEL,
    *,
    memory_bytes: int | None = None,
    backends: Sequence[str] = ("cuda",),
    obey_environment: bool = True,
    virtual_time: bool = True,
    values: bool = True,
    recorder: Recorder | None = None,
) -> Iterator[VirtualMachine]:
    """A machine with `count` GPUs of that model, for the time of the block.

    `CUDA_VISIBLE_DEVICES`, read on entering, says which of them the process sees, unless `obey_environment` is False.
    `memory_bytes` replaces the model's own memory. `backends` says which of cuda, mps and xpu report themselves
    available: without `cuda` there are no GPUs, and mps and xpu can be asked about but not computed on. With
    `virtual_time`, `time` and its like read the machine's clock in learner code, and `time.sleep` moves it. Without
    `values` its tensors have shapes only: nothing is computed, and what needs a value raises `NoValues`. Raises
    `ValueError` for a count or backend that cannot be, `TutorError` for an unknown model, `RuntimeError` when a
    virtual GPU is on already. Only that of a pytest session gives way to another for the time of the block.
    """
    options.warn_of(torch.__version__)
    machine = _built(count, model, memory_bytes, backends, recorder, obey_environment, values)
    settings = MachineSettings(count, model, memory_bytes, tuple(backends), obey_environment, virtual_time, values)
    if is_on() and active_machine().gives_way:
        with _in_its_place(machine, settings):
            yield machine
        return
    add_rules({**special_rules(), **shape_only.guarded(collective_rules()), **special.dropout_rules()})
    fill_handlers()
    child_processes.leave()
    with _lock:
        if is_on():
            raise RuntimeError("A virtual GPU is on already: leave its block before entering another.")
        set_active_machine(machine)
    context_before = torch_private.global_device_context()
    try:
        table = (*PATCHES, *(CUDA_BUILD if "cuda" in machine.backends else ()))
        with (
            patch.apply_patches(table),
            _time_of(machine, virtual_time),
            child_processes.inherited_settings(settings, enter_inherited),
            special.fused(),
            ThreadModes(),
        ):
            try:
                yield machine
            finally:
                _leave_all_places()
                profile.stop_what_runs()
                if torch_private.global_device_context() is not context_before:
                    torch.set_default_device(None if context_before is None else context_before.device)
                    torch_private.forget_global_device_context()
    finally:
        set_active_machine(None)
        autocast.forget()
        moves.forget_pinned()
        nvtx.forget()


def enter_inherited(settings: MachineSettings) -> None:
    """Be on a machine like the parent's until the process ends; nothing where a virtual GPU is on already."""
    from gpututor.devices import process_report  # only where a program is traced

    if is_on():
        return
    report = process_report.wished()
    stack = ExitStack()
    machine = stack.enter_context(
        virtual_gpu(
            settings.count,
            settings.model,
            memory_bytes=settings.memory_bytes,
            backends=settings.backends,
            obey_environment=settings.obey_environment,
            virtual_time=settings.virtual_time,
            values=settings.values,
            recorder=None if report is None else report.recorder,
        )
    )
    child_processes.keep_open(stack)
    if report is not None:
        report.begin("virtual", settings.model, machine)


@contextmanager
def virtual_gpu_or_another(
    count: int = 1, model: str = DEFAULT_MODEL, *, memory_bytes: int | None = None
) -> Iterator[VirtualMachine]:
    """As `virtual_gpu`, for a test or a session of tests: it takes the place of one that is on, and gives way.

    Time is real: tests have durations and limits of their own.
    """
    if is_on():
        machine = _built(count, model, memory_bytes, ("cuda",), None, True)
        machine.gives_way = True
        with _in_its_place(machine, MachineSettings(count, model, memory_bytes, ("cuda",), virtual_time=False)):
            yield machine
        return
    with virtual_gpu(count, model, memory_bytes=memory_bytes, virtual_time=False) as machine:
        machine.gives_way = True
        yield machine


@contextmanager
def _time_of(machine: VirtualMachine, virtual: bool) -> Iterator[None]:
    """This thread is on the machine, and `time` reads its clock, if time is virtual, for the block."""
    host = machine.clock.host
    host.begin(None)
    with patch.original_of(TIME if virtual else ()), virtual_time_of(host if virtual else None):
        yield


class _Place:
    """A machine that stands in the place of another, and what puts that one back."""

    def __init__(self, machine: VirtualMachine, settings: MachineSettings) -> None:
        before = active_machine()
        machine.beside_real_gpu = before.beside_real_gpu
        self.left = False
        self.undo = ExitStack()
        set_active_machine(machine)
        self.undo.callback(set_active_machine, before)
        self.undo.enter_context(_time_of(machine, settings.virtual_time))
        self.undo.enter_context(child_processes.inherited_settings(settings, enter_inherited))
        self.undo.callback(profile.stop_what_runs)


_places: list[_Place] = []


@contextmanager
def _in_its_place(machine: VirtualMachine, settings: MachineSettings) -> Iterator[None]:
    """Another machine in the place of the one that is on, for the time of the block.

    Blocks may end in another order than they began: pytest ends a module's fixture before its last test's machine.
    """
    place = _Place(machine, settings)
    _places.append(place)
    try:
        yield
    finally:
        place.left = True
        while _places and _places[-1].left:
            _places.pop().undo.close()


def _leave_all_places() -> None:
    while _places:
        _places.pop().undo.close()


def _built(
    count: int,
    model: str,
    memory_bytes: int | None,
    backends: Sequence[str],
    recorder: Recorder | None,
    obey_environment: bool,
    values: bool = True,
) -> VirtualMachine:
    check_arguments(count, model, memory_bytes)
    unknown = set(backends) - set(BACKENDS)
    if unknown:
        raise ValueError(f"unknown backends {sorted(unknown)}: choose from {', '.join(BACKENDS)}")
    chosen = gpu_spec(model)
    total = chosen.memory_bytes if memory_bytes is None else memory_bytes
    in_box = count if "cuda" in backends else 0
    if not values:
        torch_private.load_shape_rules()
    slots = visible_slots(in_box) if obey_environment else list(range(in_box))
    gpus = tuple(
        VirtualGpu(index, chosen, total, slot, new_generator=DeviceGenerator.on) for index, slot in enumerate(slots)
    )
    return VirtualMachine(gpus, frozenset(backends), recorder, values)
