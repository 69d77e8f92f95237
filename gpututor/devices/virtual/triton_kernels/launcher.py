"""Launches of Triton kernels: binds the arguments, runs each program, and puts one kernel into the modelled stream."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from time import thread_time
from typing import Any

import numpy as np
import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.clock.timeline import WHOLE, StreamTask
from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.cost.triton import LaunchWork, launch_price, occupancy
from gpututor.devices.virtual.execution.host_work import not_counted
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active_machine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operators import graph_replay
from gpututor.devices.virtual.tensors.tensor import VirtualTensor
from gpututor.devices.virtual.triton_kernels import builder as building
from gpututor.devices.virtual.triton_kernels import triton_private
from gpututor.devices.virtual.triton_kernels.accesses import (
    Mask,
    Memory,
    Region,
    Storage,
    TritonMemoryError,
    kernel_address,
)
from gpututor.devices.virtual.triton_kernels.builder import Counts, builder, semantic
from gpututor.devices.virtual.triton_kernels.driver import VirtualDriver, WarmedKernel, do_bench, no_driver
from gpututor.devices.virtual.triton_kernels.source import interpretable
from gpututor.trace.events import compute_dtype

DEADLINE_S = 60.0
"""Processor seconds that the programs of one launch may take."""
_TURNS = 256
"""Loop iterations between two checks of the deadline."""
Grid = tuple[int, int, int]
_MOST_IN_GRID = (2**31 - 1, 65535, 65535)


class KernelDoesNotEnd(TimeoutError):
    """A kernel that ran longer than `DEADLINE_S`."""


class _Deadline:
    def __init__(self) -> None:
        self._turns = 0
        self._ends = 0.0
        self._kernel = ""

    def begin(self, kernel: str) -> None:
        self._kernel, self._turns = kernel, 0
        self._ends = thread_time() + DEADLINE_S

    def turn(self) -> None:
        """Count a loop iteration; raise `KernelDoesNotEnd` after the deadline."""
        self._turns += 1
        if self._turns % _TURNS == 0:
            self.look()

    def look(self) -> None:
        if thread_time() > self._ends:
            raise KernelDoesNotEnd(
                f"Triton kernel {self._kernel}, {builder.memory.program_words(builder.memory.program)}: still running"
                f" after {DEADLINE_S:g} s. On a GPU it would hang. Look for a loop that does not end."
            )


_deadline = _Deadline()


def _to_tensor(value: Any) -> Any:
    return semantic.to_tensor(value, False)


@contextmanager
def installed() -> Iterator[None]:
    """Launch Triton's kernels on the active machine inside the block."""
    with triton_private.replace_launcher(_run, _call_device_function, _bench, do_bench, semantic, VirtualDriver()):
        yield


def _call_device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of Triton from a kernel."""
    if not builder.file:
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")  # triton/runtime/jit.py
    return interpretable(self.fn, _to_tensor, _deadline.turn)(*args, **kwargs)


_tunes: ContextVar[bool] = ContextVar("_tunes", default=False)
"""True while `triton.autotune` tries configurations."""


def _bench(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Time a configuration for `triton.autotune`, without recording the traffic of its launches for checks."""
    token = _tunes.set(True)
    try:
        return triton_private.bench_configuration(self, *args, **kwargs)
    finally:
        _tunes.reset(token)


@dataclass
class _Bound:
    """A call of a kernel, with its arguments by name."""

    kernel: Any
    arguments: dict[str, Any]
    options: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.kernel.fn.__name__)


def _run(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
    """Stand in for `JITFunction.run`."""
    machine = active_machine("Triton kernel")
    if not machine.gpus:
        raise no_driver()
    gpu = machine.current
    for hook in getattr(self, "pre_run_hooks", ()):
        hook(*args, **kwargs)
    call = _bind(self, args, kwargs)
    if not machine.values:
        raise cuda_errors.NoValues(f"the Triton kernel {call.name}")
    with not_counted(), torch_private.host_only():
        if warmup:
            return _warm(machine, gpu, call)
        return _launch(machine, gpu, call, _grid_of(call, grid))


def _bind(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Bound:
    """Return the arguments by name; raise Triton's errors for missing and unknown ones."""
    signature = inspect.signature(kernel.fn)
    options = {name: value for name, value in kwargs.items() if name not in signature.parameters}
    for name in options:
        if name not in triton_private.OPTION_NAMES:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    try:
        bound = signature.bind(*args, **{name: value for name, value in kwargs.items() if name not in options})
    except TypeError:
        missing = list(signature.parameters)[len(args) :]
        missing = [
            name
            for name in missing
            if name not in kwargs and signature.parameters[name].default is inspect.Parameter.empty
        ]
        if not missing:
            raise
        # The name of the function that triton/runtime/jit.py calls.
        quoted = [f"'{name}'" for name in missing]
        words = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}{',' * (len(quoted) > 2)} and {quoted[-1]}"
        plural = "s" * (len(quoted) > 1)
        raise TypeError(f"dynamic_func() missing {len(quoted)} required positional argument{plural}: {words}") from None
    bound.apply_defaults()
    warps = options.get("num_warps", 4)
    if type(warps) is not int or warps < 1 or warps & (warps - 1):
        raise AssertionError("num_warps must be a power of 2")  # triton/backends/nvidia/compiler.py
    return _Bound(kernel, dict(bound.arguments), options)


def _grid_of(call: _Bound, grid: Any) -> Grid:
    """Return the grid with three sizes; raise `TypeError`, `ValueError` or CUDA's error for an impossible one."""
    if callable(grid):
        grid = grid(dict(call.arguments))
    if isinstance(grid, torch.Tensor) or not hasattr(grid, "__len__"):
        raise TypeError(
            f"the grid of {call.name} is a tuple of up to three ints, not {grid!r}: write (n,) for n programs"
        )
    sizes = tuple(grid)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"the grid of {call.name} has one to three sizes, not {len(sizes)}")
    for size in sizes:
        if isinstance(size, float) or not hasattr(size, "__index__"):
            raise TypeError(f"the grid of {call.name} has sizes that are ints, not {size!r}: triton.cdiv rounds up")
    whole = (*(int(size) for size in sizes), 1, 1)[:3]
    if any(size < 0 or size > most for size, most in zip(whole, _MOST_IN_GRID, strict=True)):
        raise RuntimeError("Triton Error [CUDA]: invalid argument")
    return whole[0], whole[1], whole[2]


class _Arguments:
    """The kernel's arguments as the interpreter takes them, and the memory behind them."""

    def __init__(self, gpu: VirtualGpu, call: _Bound) -> None:
        self._gpu = gpu
        self.regions: list[Region] = []
        self._storages: dict[int, Storage] = {}
        parameters = inspect.signature(call.kernel.fn).parameters
        self.values: dict[str, Any] = {}
        for position, (name, value) in enumerate(call.arguments.items()):
            if triton_private.is_constexpr(parameters[name]):
                self.values[name] = value.value if isinstance(value, triton_private.constexpr) else value
            else:
                self.values[name] = self._converted(name, position, value)
        self._unify_cells()

    def _converted(self, name: str, position: int, value: Any) -> Any:
        if isinstance(value, bool):
            return triton_private.scalar_tensor(value, triton_private.tl.int1)
        if isinstance(value, int):
            return triton_private.integer(value)
        if isinstance(value, float):
            return triton_private.scalar_tensor(value, triton_private.tl.float32)
        if isinstance(value, triton_private.TensorWrapper):
            return self._pointer(name, position, value.base, value.dtype)
        if hasattr(value, "data_ptr"):
            return self._pointer(name, position, value, triton_private.TRITON_TYPES.get(str(value.dtype)[6:]))
        if isinstance(value, triton_private.TensorDescriptor):
            return self._descriptor(name, position, value)
        if isinstance(value, tuple):
            parts = (self._converted(f"{name}[{index}]", position, part) for index, part in enumerate(value))
            return triton_private.tuple_like(value, parts)
        triton_private.check_kind(value)
        return value

    def _descriptor(self, name: str, position: int, value: Any) -> Any:
        constexpr = triton_private.constexpr
        strides = [triton_private.integer(int(stride)) for stride in value.strides]
        strides[-1] = constexpr(1)
        return semantic.make_tensor_descriptor(
            base=self._converted(name, position, value.base),
            shape=[triton_private.integer(int(size)) for size in value.shape],
            strides=strides,
            block_shape=[constexpr(size) for size in value.block_shape],
            padding_option=value.padding,
        )

    def _pointer(self, name: str, position: int, tensor: Any, dtype: Any) -> Any:
        if type(tensor) is not VirtualTensor:
            # triton/backends/nvidia/driver.c
            raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")
        machine = active_machine()
        home = machine.home(tensor._device)
        if home is not self._gpu:
            raise RuntimeError(
                f"Triton Error [CUDA]: an illegal memory access was encountered: {name} is on {home.name}, but the"
                f" kernel runs on {self._gpu.name}. Call it inside `with torch.cuda.device({home.index}):`."
            )
        if dtype is None:
            raise cuda_errors.unsupported(f"tensors of {tensor.dtype} as arguments of a Triton kernel")
        host = tensor._host.detach()
        untyped = host.untyped_storage()
        first, size = untyped.data_ptr(), untyped.nbytes()
        element = host.element_size()
        storage = self._storages.get(first)
        if storage is None:
            cells = _unwritten_cells(tensor._block, element)
            storage = self._storages[first] = Storage(first, size, element, cells)
        else:
            storage.cell = min(storage.cell, element)
        address = kernel_address(len(self.regions), host.data_ptr())
        shape, strides = tuple(host.shape), tuple(host.stride())
        self.regions.append(
            Region(name, address, host.data_ptr(), element, shape or (1,), strides or (1,), storage, tensor)
        )
        return triton_private.pointer_tensor(address, dtype)

    def _unify_cells(self) -> None:
        """Use the smallest element size for the cells of a storage with arguments of several dtypes."""
        for region in self.regions:
            storage = region.storage
            if storage.unwritten is not None:
                expected = -(-storage.size_bytes // storage.cell)
                if storage.unwritten.size < expected:
                    storage.unwritten = np.repeat(storage.unwritten, -(-expected // max(storage.unwritten.size, 1)))


def _interpret(kernel: Any, values: dict[str, Any], memory: Memory, grid: Grid, *, trial: bool = False) -> Counts:
    """Run every program of the grid, or only the first for a trial."""
    counts = Counts()
    function = interpretable(kernel.fn, _to_tensor, _deadline.turn)
    with ExitStack() as stack:
        stack.enter_context(triton_private.language.interpreted(building.reduce_with, building.tensor_init))
        if builder.file:
            raise RuntimeError("A Triton kernel cannot launch another kernel.")
        stack.enter_context(np.errstate(all="ignore"))
        builder.memory, builder.counts, builder.file = memory, counts, kernel.fn.__code__.co_filename
        builder.is_trial = trial
        stack.callback(setattr, builder, "file", "")
        builder.set_grid_dim(*grid)
        memory.grid = grid
        _deadline.begin(memory.kernel)
        size_x, size_y, size_z = (1, 1, 1) if trial else grid
        try:
            for x in range(size_x):
                for y in range(size_y):
                    _deadline.look()
                    for z in range(size_z):
                        builder.grid_idx = (x, y, z)
                        memory.program = (x * grid[1] + y) * grid[2] + z
                        memory.locks.clear()
                        function(**values)
        except (TritonMemoryError, KernelDoesNotEnd):
            raise
        except Exception as error:
            # The traceback keeps the kernel's line, where the learner has to look.
            raise triton_private.InterpreterError(repr(error)).with_traceback(error.__traceback__) from error
        memory.finish()
    return counts


def _work(call: _Bound, memory: Memory, counts: Counts, grid: Grid) -> LaunchWork:
    traffic = memory.traffic
    return LaunchWork(
        programs=grid[0] * grid[1] * grid[2],
        num_warps=call.options.get("num_warps") or 4,
        num_stages=call.options.get("num_stages") or 3,
        requested_bytes=traffic.requested_bytes,
        sectors=traffic.sectors,
        dram_sectors=traffic.dram_sectors,
        distinct_sectors=traffic.distinct_sectors,
        accesses=traffic.accesses,
        most_atomics_at_one=memory.most_atomics_at_one,
        plain=counts.plain,
        integer=counts.integer,
        special=counts.special,
        dot=counts.dot,
        largest_elements=counts.largest_elements,
        tile_bytes=counts.tile_bytes,
        least_bytes=traffic.least_bytes,
    )


def _launch(machine: VirtualMachine, gpu: VirtualGpu, call: _Bound, grid: Grid) -> None:
    """Run the programs and put the kernel into the current stream, or into the graph that is captured there."""
    if 0 in grid:
        return
    stream, capture = machine.stream_of(gpu), machine.capture
    if capture is not None and not capture.includes(gpu.index, stream):
        capture = None
    arguments = _Arguments(gpu, call)
    if capture is not None:
        capture.check()
        for region in arguments.regions:
            graph_replay.save(capture, region.tensor._host)
            region.storage.unwritten = None
    memory = Memory(call.name, arguments.regions, gpu.spec.l2_cache_bytes)
    try:
        counts = _interpret(call.kernel, arguments.values, memory, grid)
    except TritonMemoryError as error:
        if machine.recorder.enabled:
            machine.recorder.hazard(
                error.kind, gpu.name, stream=stream, partner=-1, launched=machine.clock.host.now, place=error.place
            )
        raise
    work = _work(call, memory, counts, grid)
    price = launch_price(calibrated(gpu.spec), work)
    dtype = _dtype_of(arguments.regions, memory)
    cost = Cost(round(price.seconds * 1e9), round(price.fill * WHOLE), gpu.launch_ns, work.flops, dtype)
    tensors = [region.tensor for region in arguments.regions]
    read = [tensors[number] for number in sorted(memory.traffic.read)]
    written = [tensors[number] for number in sorted(memory.traffic.written)]
    if capture is not None:
        capture.add(_again(call, arguments, grid, gpu.spec.l2_cache_bytes), (call.name,))
        capture.kernel(stream, call.name, work.least_bytes, cost)
        for tensor in read:
            capture.reads(tensor._block)
        for tensor in written:
            capture.writes(tensor._block)
        return
    place = machine.recorder.place() if machine.recorder.enabled else None
    task = execution.launch.launch(machine, gpu, stream, call.name, work.least_bytes, cost, place)
    if not _tunes.get():
        machine.recorder.trace.set_traffic(task.row, work.requested_bytes, 32 * work.sectors, work.programs)
    execution.races.record_custom_kernel(machine, task, read, written)
    for region in arguments.regions:
        _remember_unwritten(region.tensor._block, region.storage.unwritten, region.storage.cell)


def _again(call: _Bound, arguments: _Arguments, grid: Grid, l2_bytes: int) -> Callable[[], None]:
    """Return a function that runs the programs again, for a graph's replay. It holds the values, not the GPU memory."""
    kernel, name, values = call.kernel, call.name, arguments.values
    kept = [replace(region, tensor=region.tensor._host) for region in arguments.regions]

    def compute() -> None:
        storages = {id(region.storage): replace(region.storage, users={}, seen=None, atomics=None) for region in kept}
        regions = [replace(region, storage=storages[id(region.storage)]) for region in kept]
        _interpret(kernel, values, Memory(name, regions, l2_bytes), grid)

    return compute


_partly_written: weakref.WeakKeyDictionary[Allocation, tuple[StreamTask, int, Mask]] = weakref.WeakKeyDictionary()
"""The last launch that wrote, the bytes of a cell, and the unwritten cells, by allocation."""


def _unwritten_cells(block: Allocation, cell: int) -> Mask | None:
    """Return True for each unwritten cell; None if anything other than a Triton kernel has written."""
    if block.written is None:
        return np.ones(-(-block.size_bytes // cell) + 1, dtype=bool)
    known = _partly_written.get(block)
    if known is None or known[0] is not block.written:
        _partly_written.pop(block, None)
        return None
    _, before, cells = known
    if before == cell:
        return cells
    by_byte = np.repeat(cells, before)
    return np.logical_or.reduce(by_byte[: by_byte.size - by_byte.size % cell].reshape(-1, cell), axis=1)  # type: ignore[no-any-return]


def _remember_unwritten(block: Allocation, cells: Mask | None, cell: int) -> None:
    """Store the cells for later launches. A launch wrote to `block`, or nothing did."""
    if cells is None or block.written is None or not cells.any():
        _partly_written.pop(block, None)
        return
    _partly_written[block] = (block.written, cell, cells)


def _dtype_of(regions: list[Region], memory: Memory) -> str:
    """Return the dtype that the kernel computes in; see `compute_dtype`."""
    names = [
        [str(regions[number].tensor.dtype)[6:] for number in sorted(numbers)]
        for numbers in (memory.traffic.read, memory.traffic.written)
    ]
    return compute_dtype(*names)


def _warm(machine: VirtualMachine, gpu: VirtualGpu, call: _Bound) -> WarmedKernel:
    """Return facts about the kernel from one program whose stores are left out."""
    arguments = _Arguments(gpu, call)
    for region in arguments.regions:
        region.storage.unwritten = None
    memory = Memory(call.name, arguments.regions, gpu.spec.l2_cache_bytes)
    counts = _interpret(call.kernel, arguments.values, memory, (1, 1, 1), trial=True)
    work = _work(call, memory, counts, (1, 1, 1))
    needs = occupancy(calibrated(gpu.spec), work)
    launch = partial(call.kernel.run, **call.options, warmup=False)
    return WarmedKernel(call.name, needs.registers, needs.shared_bytes, work.num_warps, work.num_stages, launch)
