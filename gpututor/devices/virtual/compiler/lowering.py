"""Lowers a captured graph with Inductor up to its schedule: the kernels that it launches, and their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from gpututor.devices.recorder import NOWHERE, Place
from gpututor.devices.virtual.compiler import pt2_private as pt2
from gpututor.devices.virtual.machine import META, active_machine
from gpututor.devices.virtual.operators.attention import attention_in_graph

DEADLINE_S = 120.0
"""Processor seconds allowed for one graph; thousands of operators take tens of seconds."""
_WITHOUT_BIAS = 2
"""Number of inputs of a convolution without its bias, which Inductor adds in a generated kernel."""
_PERSISTENT = {True: 1024, False: 64}
"""Maximum elements of a reduction in a block's registers; True if they are contiguous (Inductor's choices.py)."""


class _DeviceFunctions(TorchFunctionMode):
    """Function mode that captures CUDA's fused attention, and passes GPUs to C++ as `meta`: `cuda` would start CUDA."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return attention_in_graph(func, args, kwargs)
        if func is torch.Tensor.cuda:
            names = dict(zip(("device", "non_blocking"), args[1:], strict=False))
            func, args, kwargs = torch.Tensor.to, args[:1], {"device": "cuda", **names, **kwargs}
        if func is torch.Tensor.to:
            args = (args[0], *map(_in_cpp, args[1:2]), *args[2:])
        if "device" in kwargs and not isinstance(func, pt2.OpOverload):
            kwargs = {**kwargs, "device": _in_cpp(kwargs["device"])}
        return func(*args, **kwargs)


def _in_cpp(device: Any) -> Any:
    """Return the `meta` device that represents a GPU in C++, and any other value as it is."""
    if type(device) is int or (type(device) is str and device.startswith("cuda")):
        device = torch.device("cuda", device) if type(device) is int else torch.device(device)
    if not isinstance(device, torch.device) or device.type != "cuda":
        return device
    return META[active_machine().current_index if device.index is None else device.index]


class SeveralDevices(NotImplementedError):
    """A graph whose operators run on several devices."""

    def __init__(self, devices: Sequence[str], no_cuda_graph: str) -> None:
        super().__init__(
            f"Its operators run on several devices ({', '.join(devices)}). Move all tensors to one GPU before the call."
        )
        self.no_cuda_graph = no_cuda_graph


@dataclass(frozen=True)
class Size:
    """A tensor of a captured graph; its lengths may be expressions of symbols."""

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class ScheduledKernel:
    """A kernel of the schedule. Numbers may be expressions of the graph's symbols."""

    name: str
    bytes: Any
    elements: Any = 0
    """Elements of its loops, a reduction's included."""
    operations: int = 1
    dtype: str = "float32"
    repeated: Any = 0
    """Bytes that the second loop of a reduction over long rows reads again."""
    row: Any = 1
    """Elements of a row that is reduced; 1 if nothing is."""
    window: int = 0
    """Extra loads per element, beyond one from each buffer, such as for the windows of pooling."""
    call: tuple[Any, Any, Any, Any] | None = None
    """Operator, arguments, keywords and result of a library's kernel, with `Size` for tensors; None if generated."""
    channels_last: bool = False
    """True if a library's kernel gets channels-last images, as Inductor may choose."""
    place: Place = NOWHERE


@dataclass
class Schedule:
    """The kernels of one graph, forward or backward."""

    kernels: list[ScheduledKernel] = field(default_factory=list)
    no_cuda_graph: str = ""
    """Inductor's reason not to replay the graph as a CUDA graph; "" if it may be replayed."""
    copies: bool = False
    """True if it copies between devices. Such copies are no kernels: the operators that compute the values copy."""


@dataclass
class Lowered:
    """A graph's kernels, forward and backward; `backward` is None for a graph that does not train."""

    forward: Schedule = field(default_factory=Schedule)
    backward: Schedule | None = None
    written: tuple[int, ...] = ()
    """Positions of the inputs that the graph writes to and that need gradients afterwards."""
    needs_eager_gradients: bool = False
    """True if only eager autograd is right: the graph reshapes an input, or writes to an input that shares memory."""

    def count(self) -> int:
        return len(self.forward.kernels) + (len(self.backward.kernels) if self.backward else 0)


def lower(module: Any, inputs: Sequence[Any], options: dict[str, Any], place_of: Callable[[str], Place]) -> Lowered:
    """Return the kernels that Inductor would launch for a graph. `module` is changed.

    `options` are Inductor's settings for this compilation, `place_of` finds the learner's line in a stack trace.
    """
    lowered = Lowered()

    def inner_compile(graph: Any, example_inputs: Sequence[Any], **given: Any) -> Any:
        schedule = _schedule(graph, example_inputs, given, place_of)
        if given.get("is_backward"):
            lowered.backward = schedule
        else:
            lowered.forward = schedule
            lowered.written, lowered.needs_eager_gradients = pt2.written_inputs(len(inputs))
        return lambda args: None

    ends = thread_time() + DEADLINE_S

    def look() -> None:
        if thread_time() > ends:
            raise TimeoutError(f"it took more than {DEADLINE_S:g} s of processor time")

    with ExitStack() as stack:
        for change in (*pt2.settings_of_compilation(), *pt2.watch_lowering(look)):
            stack.enter_context(change)
        stack.enter_context(_DeviceFunctions())
        pt2.real_compile_fx(module, inputs, inner_compile, _without_measuring(options))
    return lowered


def _without_measuring(options: dict[str, Any]) -> dict[str, Any]:
    """Return Inductor's settings without autotuning, which would run kernels on the GPU."""
    measuring = (
        "max_autotune",
        "coordinate_descent_tuning",
        "benchmark_kernel",
        "benchmark_combo_kernel",
        "benchmark_epilogue",
    )
    return {name: value for name, value in options.items() if not name.startswith(measuring)}


def _schedule(module: Any, inputs: Sequence[Any], given: dict[str, Any], place_of: Callable[[str], Place]) -> Schedule:
    with pt2.scheduled(module, inputs, given) as graph:
        devices = sorted({str(node.get_device()) for node in graph.scheduler.nodes})
        if len(devices) > 1:
            raise SeveralDevices(devices, pt2.obstacle_to_cuda_graph(module, graph, given))
        names = _Names()
        kernels = [
            kernel for node in graph.scheduler.nodes if (kernel := _kernel(node, names, graph, place_of)) is not None
        ]
        copies = any(map(pt2.is_copy_between_devices, graph.scheduler.nodes))
        return Schedule(kernels, pt2.obstacle_to_cuda_graph(module, graph, given), copies)


class _Names:
    """Names of generated kernels, numbered as Inductor does; equal kernels share a name."""

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}

    def name(self, kind: str, operators: str, sizes: Any) -> str:
        key = (kind, operators, sizes)
        return self._known.setdefault(key, f"triton_{kind}_{operators}_{len(self._known)}")


def _kernel(node: Any, names: _Names, graph: Any, place_of: Callable[[str], Place]) -> ScheduledKernel | None:
    parts = node.get_nodes()
    place = next((place for place in map(place_of, _stack_traces(parts)) if place != NOWHERE), NOWHERE)
    if pt2.is_no_kernel(node) or pt2.is_copy_between_devices(node):
        return None
    if node.is_extern():
        moved = sum(node.get_read_write_buffer_accesses(include_reads=True, include_writes=True).values())
        return _library_kernel(node, moved, place)
    moved, repeated, window = _traffic(node, graph)
    first = next((part for part in parts if part.is_reduction()), parts[0])
    elements, reduced = first.group[1]
    is_reduction = bool(node.is_reduction())
    kind = "poi"
    if is_reduction:
        most = _PERSISTENT[pt2.reduces_inside(first)]
        kind = "per" if int(pt2.hint(graph, reduced)) <= most else "red"
    if node.is_foreach():
        kind = "for"
    name = names.name(kind, pt2.get_fused_kernel_name(parts, "original_aten"), (elements, reduced))
    dtype = str(first.node.get_dtype()).removeprefix("torch.")
    again = repeated if kind == "red" else 0
    operations = len(_operators(parts))
    return ScheduledKernel(name, moved, elements * reduced, operations, dtype, again, reduced, window, place=place)


def _traffic(node: Any, graph: Any) -> tuple[Any, Any, int]:
    """Return a generated kernel's bytes, the bytes that it reads again after a reduction, and its extra loads.

    Extra loads are the loads per element beyond one from each buffer, plus one if windows overlap, as in pooling. Code
    that needs the result of a reduction over long rows runs in a second loop, which reads its buffers again.
    """
    parts = node.get_nodes()
    maker: dict[str, Any] = {}
    depth: dict[Any, int] = {}
    read: dict[str, dict[int, Any]] = {}
    loads: dict[tuple[str, int], set[Any]] = {}
    written: dict[str, Any] = {}
    inside = {output.get_name() for part in parts for output in part.get_outputs()}
    kept = pt2.kept_buffers(node, inside)
    for part in parts:
        made = [maker[dep.name] for dep in part.read_writes.reads if dep.name in maker]
        depth[part] = max((depth[other] + bool(other.is_reduction()) for other in made), default=0)
        for dep in part.read_writes.reads:
            if dep.name not in inside:
                loops = read.setdefault(dep.name, {})
                loads.setdefault((dep.name, depth[part]), set()).add(dep)
                loops[depth[part]] = loops.get(depth[part], 0) + pt2.elements_of(dep)
        for dep in part.read_writes.writes:
            maker[dep.name] = part
            if dep.name in kept:
                written[dep.name] = pt2.elements_of(dep)
    moved = sum((pt2.buffer_bytes(graph, name, elements) for name, elements in written.items()), 0)
    repeated = 0
    for name, loops in read.items():
        first, *rest = (pt2.buffer_bytes(graph, name, elements) for elements in loops.values())
        moved, repeated = moved + first, repeated + sum(rest)
    window = sum(len(places) - 1 + any(pt2.overlaps(graph, dep) for dep in places) for places in loads.values())
    return moved, repeated, window


def _operators(parts: Sequence[Any]) -> set[Any]:
    return {origin for part in parts if part.node is not None for origin in part.node.origins}


def _stack_traces(parts: Sequence[Any]) -> Iterator[str]:
    """Yield the stack traces of the operators, the last result's first."""
    results = [part.node.get_origin_node() for part in reversed(parts) if part.node is not None]
    for origin in (*results, *_operators(parts)):
        if origin is not None and (trace := origin.meta.get("stack_trace")):
            yield trace


def _operator_name(kernel: str) -> str:
    """Return the operator of a call in Inductor's code, such as `extern_kernels.mm` or `torch.ops.aten.sort.stable`."""
    first, *rest = kernel.removeprefix("torch.ops.").split(".")
    return f"aten::{(rest or [first])[0]}" if first == "extern_kernels" or not rest else f"{first}::{rest[0]}"


def _library_kernel(node: Any, moved: Any, place: Place) -> ScheduledKernel:
    """Describe a kernel of a library: cuBLAS, cuDNN, or one of ATen's own."""
    origin = pt2.origin_of(node.node)
    name = _operator_name(getattr(node.node, "python_kernel_name", None) or type(node.node).__name__)
    if origin is None:
        return ScheduledKernel(name, moved, place=place)
    args, kwargs, out = pt2.described((origin.args, dict(origin.kwargs), origin.meta.get("val")), Size)
    if origin.target is pt2.CONVOLUTION and len(node.node.inputs) == _WITHOUT_BIAS:
        args = [*args[:_WITHOUT_BIAS], None, *args[_WITHOUT_BIAS + 1 :]]
    call = (origin.target, args, kwargs, out)
    return ScheduledKernel(name, moved, call=call, channels_last=pt2.has_channels_last(node.node), place=place)
