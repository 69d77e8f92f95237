"""`virtual_gpu()`: switches the virtual GPU on for a block of code, and restores torch afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import options, torch_private
from gpututor.devices.virtual.api import nvtx, tensor_types
from gpututor.devices.virtual.api.devices import visible_slots
from gpututor.devices.virtual.api.function_mode import ThreadModes, fill_handlers
from gpututor.devices.virtual.api.random import DeviceGenerator
from gpututor.devices.virtual.clock.python_time import virtual_time_of
from gpututor.devices.virtual.compiler.convert_frame import watch_dynamo
from gpututor.devices.virtual.distributed import child_processes
from gpututor.devices.virtual.distributed.child_processes import MachineSettings
from gpututor.devices.virtual.distributed.collectives import collective_rules
from gpututor.devices.virtual.distributed.dtensor_random import watch_dtensor
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active_machine, is_on, set_active_machine
from gpututor.devices.virtual.memory.settings import settings_of_environment
from gpututor.devices.virtual.operator_registry import fill_tables, forget_custom_operators
from gpututor.devices.virtual.operators import (
    attention_kernels,
    autocast,
    cuda_kernels,
    dispatch,
    half_precision,
    recurrent,
    shape_only,
    special,
)
from gpututor.devices.virtual.operators.special import special_rules
from gpututor.devices.virtual.options import DEFAULT_MODEL, check_arguments
from gpututor.devices.virtual.patches import CPU_BUILD, CUDA_BUILD, PATCHES, TIME, patch
from gpututor.devices.virtual.profiler import profile
from gpututor.devices.virtual.tensors import module_to, moves, serialization, subclasses, tensor
from gpututor.devices.virtual.tensors.tensor import Hooks
from gpututor.devices.virtual.triton_kernels import triton_kernels
from gpututor.hardware.gpus import gpu_spec
from gpututor.hardware.scenario import ACCELERATORS

Hooks.run = dispatch.run
Hooks.set_data_across_devices = module_to.set_data_across_devices
Hooks.parse_tensor_type = tensor_types.parse_tensor_type
Hooks.text_of = tensor.text_of
Hooks.shallow_copy = serialization.shallow_copy
Hooks.deep_copy = serialization.deep_copy
Hooks.reduce = serialization.reduce
Hooks.as_subclass = subclasses.as_subclass
Hooks.set_source = special.set_source
Hooks.thread_modes = ThreadModes
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
    """Enter a machine with `count` GPUs of `model` for the block.

    The process sees the GPUs that `CUDA_VISIBLE_DEVICES` names on entering, unless `obey_environment` is False.
    `memory_bytes` replaces the model's own memory. `backends` are those of cuda, mps and xpu that report themselves
    available. Without `cuda` there are no GPUs, and nothing computes on mps or xpu. With `virtual_time`, the functions
    of `time` read the machine's clock in learner code, and `time.sleep` moves it. Without `values` the tensors have
    shapes only: nothing is computed, and an operation that needs a value raises `NoValues`. Raises `ValueError` for an
    impossible count or backend, `TutorError` for an unknown model, `RuntimeError` if a virtual GPU is on already. Only
    the virtual GPU of a pytest session, or an idle machine, can be replaced by another inside a block.
    """
    options.warn_if_untested(torch.__version__)
    settings = MachineSettings(count, model, memory_bytes, tuple(backends), obey_environment, virtual_time, values)
    machine = _build(settings, recorder)
    if is_on() and active_machine().is_replaceable:
        with _replacing(machine, settings):
            yield machine
        return
    _fill_tables()
    child_processes.leave()
    with _switched_on(machine), _on_machine(machine, settings), _program():
        try:
            yield machine
        finally:
            while _replacements:
                _replacements.pop().undo.close()


@contextmanager
def _switched_on(machine: VirtualMachine) -> Iterator[None]:
    """Make the machine the active machine of a patched torch inside the block."""
    with _lock:
        if is_on():
            raise RuntimeError("A virtual GPU is on already: leave its block before entering another.")
        set_active_machine(machine)
    try:
        with (
            patch.apply_patches(PATCHES),
            cuda_kernels.composites(),
            watch_dynamo(),
            watch_dtensor(),
            triton_kernels(),
        ):
            yield
    finally:
        set_active_machine(None)


@contextmanager
def _on_machine(machine: VirtualMachine, settings: MachineSettings) -> Iterator[None]:
    """Put this thread and its child processes on the machine inside the block; with virtual time, `time` too."""
    host = machine.clock.host
    host.begin(None)
    build = CUDA_BUILD if "cuda" in machine.backends else CPU_BUILD
    with (
        patch.patched((*build, *(TIME if settings.virtual_time else ()))),
        virtual_time_of(host if settings.virtual_time else None),
        child_processes.inherited_settings(settings, enter_inherited),
    ):
        yield


@contextmanager
def _program() -> Iterator[None]:
    """Run this thread's operators on the active machine inside the block, and undo what its program has set."""
    context_before = torch_private.global_device_context()
    try:
        with ThreadModes():
            try:
                yield
            finally:
                profile.stop_active_session()
                if torch_private.global_device_context() is not context_before:
                    torch.set_default_device(None if context_before is None else context_before.device)
                    torch_private.forget_global_device_context()
    finally:
        autocast.forget()
        moves.forget_pinned()
        nvtx.forget()
        forget_custom_operators()


@contextmanager
def idle_machine() -> Iterator[None]:
    """Patch torch for a block in which all programs run inside `virtual_gpu()`, which then need not patch it."""
    _fill_tables()
    machine = _build(MachineSettings(0, DEFAULT_MODEL, None, ("cuda",)), None)
    machine.is_replaceable = machine.is_idle = True
    with _switched_on(machine):
        yield


@cache
def _fill_tables() -> None:
    """Fill the tables of operators and of functions with handlers, once for the process."""
    rules = {**special_rules(), **shape_only.guarded(collective_rules()), **cuda_kernels.composite_rules()}
    calls = {**cuda_kernels.DEVICE_CALLS, **recurrent.DEVICE_CALLS, **attention_kernels.DEVICE_CALLS}
    fill_tables(rules, {**calls, **half_precision.half_calls(calls)})
    fill_handlers()


def enter_inherited(settings: MachineSettings) -> None:
    """Enter a machine like the parent's until the process ends, unless a virtual GPU is on already."""
    from gpututor.devices import process_report  # only if a program is traced

    if is_on():
        return
    report = process_report.requested()
    stack = ExitStack()
    recorder = None if report is None else report.recorder
    machine = stack.enter_context(virtual_gpu(**vars(settings), recorder=recorder))
    child_processes.keep_open(stack)
    if report is not None:
        report.begin("virtual", settings.model, machine)


@contextmanager
def replaceable_virtual_gpu(
    count: int = 1, model: str = DEFAULT_MODEL, *, memory_bytes: int | None = None
) -> Iterator[VirtualMachine]:
    """Enter a machine for a test or a session of tests. It replaces an active machine, and can be replaced itself.

    Time is real: tests have durations and limits of their own.
    """
    if is_on():
        settings = MachineSettings(count, model, memory_bytes, ("cuda",), virtual_time=False)
        machine = _build(settings, None)
        machine.is_replaceable = True
        with _replacing(machine, settings):
            yield machine
        return
    with virtual_gpu(count, model, memory_bytes=memory_bytes, virtual_time=False) as machine:
        machine.is_replaceable = True
        yield machine


class _Replacement:
    """A machine that replaces the active machine; `undo` restores the former."""

    def __init__(self, machine: VirtualMachine, settings: MachineSettings) -> None:
        before = active_machine()
        machine.may_have_real_tensors = before.may_have_real_tensors
        self.has_ended = False
        self.undo = ExitStack()
        set_active_machine(machine)
        self.undo.callback(set_active_machine, before)
        self.undo.enter_context(_on_machine(machine, settings))
        if before.is_idle:
            self.undo.enter_context(_program())
        else:
            self.undo.callback(profile.stop_active_session)


_replacements: list[_Replacement] = []


@contextmanager
def _replacing(machine: VirtualMachine, settings: MachineSettings) -> Iterator[None]:
    """Replace the active machine inside the block.

    Blocks may end in another order than they began: pytest ends a module's fixture before its last test's machine.
    """
    replacement = _Replacement(machine, settings)
    _replacements.append(replacement)
    try:
        yield
    finally:
        replacement.has_ended = True
        while _replacements and _replacements[-1].has_ended:
            _replacements.pop().undo.close()


def _build(settings: MachineSettings, recorder: Recorder | None) -> VirtualMachine:
    check_arguments(settings.count, settings.model, settings.memory_bytes)
    unknown = set(settings.backends) - set(ACCELERATORS)
    if unknown:
        raise ValueError(f"unknown backends {sorted(unknown)}: choose from {', '.join(ACCELERATORS)}")
    spec = gpu_spec(settings.model)
    memory_bytes = spec.memory_bytes if settings.memory_bytes is None else settings.memory_bytes
    count = settings.count if "cuda" in settings.backends else 0
    if not settings.values:
        torch_private.load_shape_rules()

    def gpus_in(slots: list[int]) -> tuple[VirtualGpu, ...]:
        return tuple(
            VirtualGpu(index, spec, memory_bytes, slot, new_generator=DeviceGenerator.on)
            for index, slot in enumerate(slots)
        )

    backends = frozenset(settings.backends)
    if not settings.obey_environment:
        return VirtualMachine(gpus_in(list(range(count))), backends, recorder, settings.values)
    seen = visible_slots(count)

    def changed_gpus() -> tuple[VirtualGpu, ...] | None:
        nonlocal seen
        before, seen = seen, visible_slots(count)
        return None if seen == before else gpus_in(seen)

    return VirtualMachine(gpus_in(seen), backends, recorder, settings.values, changed_gpus, settings_of_environment)
