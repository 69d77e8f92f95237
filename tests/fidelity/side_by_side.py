"""Figures of a program's work on a device, to compare a real GPU with the virtual GPU."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gpututor.devices.real import observe
from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.errors import UsageError
from gpututor.hardware.gpus import gpu_spec
from gpututor.trace.events import GRAPH_REPLAY, Event, Kind
from tests.fidelity.program import (
    MIB,
    Outcome,
    Program,
    allocated,
    as_expected,
    load_programs,
    outcome,
    reserved,
    taken,
)

SEEN_AS_ONE = {GRAPH_REPLAY, "aten::_cudnn_rnn_flatten_weight"}
"""Work whose kernels only the virtual GPU sees; on a real GPU it is recorded as one kernel of that name."""


@dataclass(frozen=True)
class Figures:
    """Figures of a run. Bytes of memory exceed those before the run."""

    result: Outcome
    kernels: tuple[str, ...] = ()
    to_device: tuple[int, ...] = ()
    """The bytes of each copy, as those below."""
    to_host: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    waits: tuple[str, ...] = ()
    allocated: int = 0
    reserved: int = 0
    peak: int = 0


@dataclass(frozen=True)
class Workload:
    """A program that is run on both, and what is known of it on CUDA."""

    run: Callable[[], Any]
    to_device: int = 0
    """Number of copies."""
    to_host: int = 0
    waits: int = 0
    multiplies: bool = False
    """cuBLAS keeps a workspace of its own: what is reserved cannot be compared, nor what it adds to a peak."""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def program(self) -> Program:
        return Program(self.run, Outcome(), "")


WORKLOADS: list[Workload] = []


def workload(**known: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Put a function into the list, with what CUDA makes of it."""

    def declare(run: Callable[[], Any]) -> Callable[[], Any]:
        WORKLOADS.append(Workload(run, **known))
        return run

    return declare


@workload(waits=1)
def a_chain_of_elementwise_kernels() -> Any:
    x = torch.zeros(1000, device="cuda")
    for _ in range(5):
        x = (x + 1).relu_() * 0.5
    torch.cuda.synchronize()


@workload(to_host=1, waits=1)
def a_loss_that_is_printed() -> Any:
    return torch.ones(64, device="cuda").sum().item()


@workload(to_device=1, to_host=1, waits=1)
def pageable_memory_there_and_back() -> Any:
    return torch.ones(3 * MIB, dtype=torch.uint8).to("cuda").cpu().sum().item()


@workload(to_device=2, waits=1)
def pinned_batches_on_a_stream_of_their_own() -> Any:
    batches = [torch.ones(MIB, dtype=torch.uint8).pin_memory() for _ in range(2)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        there = [batch.to("cuda", non_blocking=True) for batch in batches]
    torch.cuda.current_stream().wait_stream(side)
    for batch in there:
        batch.record_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()


@workload(waits=2)
def indices_whose_number_is_not_known() -> Any:
    x = torch.arange(10, device="cuda")
    return tuple(x.nonzero().shape), tuple(x[x > 4].shape)


@workload(waits=1, multiplies=True)
def a_training_step_with_sgd() -> Any:
    layer = nn.Sequential(nn.Linear(64, 32, device="cuda"), nn.ReLU(), nn.Linear(32, 1, device="cuda"))
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        sgd.zero_grad()
        layer(torch.ones(8, 64, device="cuda")).sum().backward()
        sgd.step()
    torch.cuda.synchronize()


@workload()
def a_step_of_adam() -> Any:
    weights = [nn.Parameter(torch.ones(100, device="cuda")) for _ in range(3)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    torch.optim.Adam(weights, foreach=True).step()


@workload()
def memory_that_is_taken_given_back_and_taken_again() -> Any:
    kept = [taken(size) for size in (512, MIB + 1, 12 * MIB)]
    del kept[1]
    kept.append(taken(MIB + 2))
    seen = allocated(), reserved()
    del kept
    return seen[0] >= 13 * MIB and seen[1] >= seen[0]


@workload()
def more_memory_than_there_is() -> Any:
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        taken(2 * total)
    except torch.OutOfMemoryError:
        return "refused"


@workload(to_host=1, waits=3)
def an_event_and_a_stream_are_waited_for() -> Any:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.ones(100, device="cuda") * 2
        event = side.record_event()
    event.synchronize()
    side.synchronize()
    return x.cpu().sum().item()


def on_virtual(program: Program, model: str = "H100", gpus: int = 1) -> Figures:
    """Run it on the virtual GPU of that model."""
    recorder = Recorder([program.run.__code__.co_filename])
    with virtual_gpu(gpus, model, obey_environment=False, recorder=recorder):
        return _figures(program, recorder, nullcontext())


def on_real(program: Program) -> Figures:
    """Run it on this machine's GPU, a second time: what libraries load and keep at their first use is there then."""
    outcome(program)
    return _observed(program)


def on_real_in_processes(programs: list[Program]) -> list[Figures]:
    """Run each program once, in a process of its own, as it breaks the state of its process."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, len(programs)), spawn, max_tasks_per_child=1) as processes:
        return list(processes.map(_observed_by_name, [program.name for program in programs]))


def _observed_by_name(name: str) -> Figures:
    return _observed(next(program for program in load_programs() if program.name == name))


def _observed(program: Program) -> Figures:
    recorder = Recorder([program.run.__code__.co_filename])
    return _figures(program, recorder, observe(recorder))


def needs_two_gpus(program: Program) -> bool:
    """Return True if a program does as expected on two GPUs, and something else on one."""
    alone, both = (as_expected(on_virtual(program, gpus=gpus).result, program.expected) for gpus in (1, 2))
    return both and not alone


@contextmanager
def _all_warnings() -> Iterator[None]:
    """Let PyTorch warn again of what it warns of once in a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _figures(program: Program, recorder: Recorder, watched: AbstractContextManager[object]) -> Figures:
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = allocated(), reserved()
    first = len(recorder.trace)
    with watched, _all_warnings():
        result = outcome(program)
        torch._C._cuda_clearCublasWorkspaces()
        memory = allocated() - before[0], reserved() - before[1], torch.cuda.max_memory_allocated() - before[0]
    events = [event for event in list(recorder.complete())[first:] if event.line is not None]

    def sizes(of: Callable[[Event], bool]) -> tuple[int, ...]:
        return tuple(event.size_bytes for event in events if of(event))

    return Figures(
        result,
        tuple(event.name for event in events if event.kind is Kind.KERNEL and event.device != "cpu"),
        sizes(lambda event: event.to_device),
        sizes(lambda event: event.to_host),
        sizes(lambda event: event.between_devices),
        tuple(event.name for event in events if event.kind is Kind.SYNCHRONISE),
        *memory,
    )


def apart(real: Figures, virtual: Figures, *, multiplies: bool = False) -> list[str]:
    """Return a line for each difference between two runs of a program.

    Kernels are compared by their number: which library does the work, and what that is called, is not CUDA's promise.
    """
    lines = []
    if real.result != virtual.result:
        lines.append(f"verdict: {real.result} against {virtual.result}")
    if SEEN_AS_ONE.isdisjoint(real.kernels) and len(real.kernels) != len(virtual.kernels):
        lines.append(f"kernels: {len(real.kernels)} {real.kernels} against {len(virtual.kernels)} {virtual.kernels}")
    names = ["to_device", "to_host", "between", "waits", "allocated"]
    if not multiplies:
        names += ["reserved", "peak"]
    for name in names:
        left, right = getattr(real, name), getattr(virtual, name)
        if left != right:
            lines.append(f"{name}: {left} against {right}")
    return lines


def model_of(reported_name: str) -> str:
    """The virtual GPU that is nearest to a real one; any, where gpus.toml does not have it."""
    try:
        return gpu_spec(reported_name).name
    except UsageError:
        return "H100"
