"""Execution of compiled code: values are computed eagerly, and the clock gets the kernels of Inductor's schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sympy
import torch

from gpututor.devices.virtual import execution, torch_private
from gpututor.devices.virtual.clock.timeline import WHOLE
from gpututor.devices.virtual.compiler import pt2_private as pt2
from gpututor.devices.virtual.compiler.gradients import differentiable, needs_gradient
from gpututor.devices.virtual.compiler.lowering import Lowered, Schedule, ScheduledKernel, Size
from gpututor.devices.virtual.compiler.replayed_results import results_of
from gpututor.devices.virtual.cost import compiled
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.execution import costs
from gpututor.devices.virtual.execution.launch import CompiledRegion, compiled_kernel
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active_machine
from gpututor.devices.virtual.operator_registry import operator_of
from gpututor.devices.virtual.tensors.tensor import VirtualTensor
from gpututor.trace.events import REGION

_WARM_UP = 2
"""Calls before the first replay of a CUDA graph: the first runs the kernels, the second records them."""
_Key = tuple[int, ...]


class CompiledGraph:
    """A graph that Dynamo captured, with the kernels that Inductor would launch for it."""

    def __init__(self, module: Any, lowered: Lowered, number: str, *, replays: bool) -> None:
        self._module = module
        self._lowered = lowered
        self._name = REGION + number
        self._replays = replays
        self._calls: Counter[_Key] = Counter()
        self._warned_of_sizes = False
        self._costs: dict[Any, list[tuple[str, int, Cost]]] = {}
        self._symbols = [
            value.node.expr if isinstance(value := node.meta.get("example_value"), torch.SymInt) else None
            for node in module.graph.nodes
            if node.op == "placeholder"
        ]

    def __call__(self, *args: Any) -> Any:
        with torch.profiler.record_function(self._name):
            trains = torch.is_grad_enabled() and any(map(needs_gradient, args))
            numbers = self.numbers(args)
            if trains and self._lowered.backward is not None and not self._lowered.needs_eager_gradients:
                out = self._replayable(
                    self._lowered.forward, args, numbers, lambda: differentiable(self, args, self._lowered.written)
                )
                results_of(active_machine()).backward_is_due = True
                return out
            return self._replayable(self._lowered.forward, args, numbers, lambda: self.forward(args, numbers))

    def numbers(self, args: Sequence[Any]) -> dict[Any, int]:
        """Return the values of the graph's symbolic sizes in a call."""
        return {symbol: int(value) for symbol, value in zip(self._symbols, args, strict=True) if symbol is not None}

    def forward(self, args: Sequence[Any], numbers: dict[Any, int]) -> Any:
        """Compute the results, and launch the kernels of the forward graph."""
        return self.run(self._module, args, self._lowered.forward, numbers)

    def backward(
        self, outputs: Any, inputs: Any, gradients: Any, keep: bool, numbers: dict[Any, int], owners: Sequence[Any]
    ) -> Any:
        """Compute the gradients of `inputs`, and launch the kernels of the backward graph."""

        def run(*grads: Any) -> Any:
            return torch.autograd.grad(outputs, inputs, grads, retain_graph=keep, allow_unused=True)

        schedule = self._lowered.backward
        assert schedule is not None
        out = self._replayable(
            schedule, gradients, numbers, lambda: self.run(run, gradients, schedule, numbers), owners
        )
        results_of(active_machine()).backward_is_due = False
        return out

    def _is_replayed(self, schedule: Schedule, key: _Key) -> bool:
        return self._replays and not schedule.no_cuda_graph and self._calls[key] >= _WARM_UP

    def _replayable(
        self,
        schedule: Schedule,
        args: Sequence[Any],
        numbers: dict[Any, int],
        run: Callable[[], Any],
        owners: Sequence[Any] = (),
    ) -> Any:
        """Run a graph. If it becomes a CUDA graph, its results move to the memory that CUDA graphs share."""
        machine = active_machine()
        if not self._replays or schedule.no_cuda_graph or machine.capture is not None:
            return run()
        key = _key(schedule, numbers)
        if key not in self._calls and not self._warned_of_sizes:
            recorded = sum(other[0] == key[0] for other in self._calls)
            self._warned_of_sizes = pt2.warns_of_many_sizes(recorded)
        results, is_replay = results_of(machine), self._is_replayed(schedule, key)
        results.begin(key)
        out = run()
        results.add(key, out, args, is_replay=is_replay, owners=owners)
        return out

    def run(self, function: Any, args: Sequence[Any], schedule: Schedule, numbers: dict[Any, int]) -> Any:
        """Compute `function` on virtual tensors, and launch the kernels of `schedule` in place of its own."""
        machine = active_machine()
        gpu = _gpu_of(machine, args)
        spec = gpu.spec
        machine.clock.host.spend(round(compiled.call_s(spec, backward=schedule is self._lowered.backward) * 1e9))
        with _region(machine, copies=schedule.copies) as region:
            out = function(*args)
            region.add_results(out)
        key = _key(schedule, numbers)
        kernels = self._costs.get((spec.name, key))
        if kernels is None:
            kernels = self._costs[spec.name, key] = [_priced(spec, kernel, numbers) for kernel in schedule.kernels]
        replays = self._is_replayed(schedule, key)
        self._calls[key] += 1
        if replays:
            machine.clock.host.spend(round(compiled.launch_s(spec) * 1e9))
        last = None
        for kernel, (name, size_bytes, cost) in zip(schedule.kernels, kernels, strict=True):
            place = kernel.place if kernel.place[0] else None
            last = compiled_kernel(machine, gpu, name, size_bytes, cost, place, on_host=not replays) or last
        if last is not None:
            execution.races.record_replay(machine, last, region.read, region.written, ())
        return out


def _key(schedule: Schedule, numbers: dict[Any, int]) -> _Key:
    """Return a key for the calls of a graph with the same sizes: each has a CUDA graph of its own."""
    return (id(schedule), *numbers.values())


def _gpu_of(machine: VirtualMachine, args: Sequence[Any]) -> VirtualGpu:
    for value in args:
        if type(value) is VirtualTensor:
            return machine.home(value._device)
    return machine.current


@contextmanager
def _region(machine: VirtualMachine, *, copies: bool) -> Iterator[CompiledRegion]:
    """Run operators inside the block without kernels of their own: the schedule's kernels replace them.

    The host's time does not count, but for the copies of a schedule that `copies` between devices.
    """
    thread, host = machine.per_thread, machine.clock.host
    began = host.now
    region = CompiledRegion(began)
    outer, thread.region = thread.region, region
    try:
        yield region
    finally:
        thread.region = outer
        host.now = region.host_time if copies else began


def _priced(spec: Any, kernel: ScheduledKernel, numbers: dict[Any, int]) -> tuple[str, int, Cost]:
    """Return a kernel's name, bytes and cost for a call with these values of the symbols."""

    def number(value: Any) -> int:
        return (
            int(value.xreplace({symbol: sympy.Integer(n) for symbol, n in numbers.items()}))
            if isinstance(value, sympy.Expr)
            else int(value)
        )

    size_bytes = number(kernel.bytes)
    if kernel.call is None:
        sizes = compiled.FusedKernel(
            size_bytes,
            number(kernel.elements),
            kernel.operations,
            kernel.dtype,
            number(kernel.repeated),
            number(kernel.row),
            kernel.window,
        )
        seconds, fill = compiled.fused(spec, sizes)
        host = round(compiled.launch_s(spec) * 1e9)
        dtype = kernel.dtype if "float" in kernel.dtype else ""
        return kernel.name, size_bytes, Cost(round(seconds * 1e9), round(fill * WHOLE), host, 0.0, dtype)
    func, args, kwargs, out = kernel.call

    def tensor(value: Any) -> Any:
        if isinstance(value, Size):
            shape, stride = tuple(map(number, value.shape)), tuple(map(number, value.stride))
            return torch.empty_strided(shape, stride, dtype=value.dtype, device="meta")
        return number(value) if isinstance(value, sympy.Expr) else value

    with torch_private.host_only():
        args, kwargs, out = torch_private.tree_map(tensor, (args, kwargs, out))
    return (
        kernel.name,
        size_bytes,
        costs.cost_of_call(spec, operator_of(func), args, kwargs, out, kernel.channels_last),
    )
