"""`torch.cuda.CUDAGraph`, which torch's own `graph` and `make_graphed_callables` use.

On CUDA nothing runs during a capture, and its results are undefined until the first replay. Here operators are
computed, because Python needs their shapes. At the end of the capture, its results become NaN. Earlier tensors and
generators get back the values that they had before.
"""

from __future__ import annotations

import warnings
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import torch

from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.api.random import state_of
from gpututor.devices.virtual.api.streams import CudaStream
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.execution.graph_capture import Capture, CapturedWork
from gpututor.devices.virtual.execution.graph_memory import GraphMemory, shared_pools
from gpututor.devices.virtual.execution.host_work import not_counted
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active_machine
from gpututor.devices.virtual.memory.allocator import Allocation, CachingAllocator
from gpututor.devices.virtual.operators.draws import CapturedState, RandomState
from gpututor.devices.virtual.operators.graph_replay import forget_effects, replay

_EMPTY = (
    "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream."
)
_real_block: Any = torch.cuda.graph
_streams: WeakKeyDictionary[VirtualMachine, CudaStream] = WeakKeyDictionary()
_debugged: WeakSet[VirtualMachine] = WeakSet()
"""Machines whose graphs store their structure for `debug_dump`."""
_own_pools, _shared_pools = count(1), count(1)


class _Seeds:
    """The seed and the offset of random numbers in graphs: two elements on the GPU while graphs exist."""

    def __init__(self, gpu: VirtualGpu) -> None:
        self._elements = [Allocation(gpu.memory, 8) for _ in range(2)]


_seeds: WeakValueDictionary[int, _Seeds] = WeakValueDictionary()
"""Seeds by the identity of their GPU, which lives as long as its memory."""


def _seeds_of(gpu: VirtualGpu) -> _Seeds:
    seeds = _seeds.get(id(gpu.memory))
    if seeds is None:
        seeds = _seeds[id(gpu.memory)] = _Seeds(gpu)
    return seeds


def new_pool() -> tuple[int, int]:
    """Return a pool that several graphs may share."""
    return 0, next(_shared_pools)


class CUDAGraph:
    def __init__(self, keep_graph: bool = False) -> None:
        active_machine().start()
        self._keep_graph = bool(keep_graph)
        self._capture: Capture | None = None
        self._generators: list[RandomState] = []
        self._forget()

    def _forget(self) -> None:
        self._machine: VirtualMachine | None = None
        self._work: CapturedWork | None = None
        self._steps: tuple[Any, ...] = ()
        self._pool = (0, 0)
        self._is_executable = False
        self._has_structure = False
        """True if `debug_dump` can write the structure, which CUDA destroys after the first dump."""
        self._drawn: list[tuple[RandomState, torch.Tensor, int]] = []
        self._memory: CachingAllocator | None = None
        self._contents: GraphMemory | None = None
        self._seeds: Any = None
        self._checks_inputs = False

    def capture_begin(
        self, pool: Any = None, capture_error_mode: str = "global", check_input_liveness: bool = False
    ) -> None:
        """Make all later work of the current stream part of the graph.

        `capture_error_mode` names the threads in which a wait invalidates the capture: all (`global`), this one
        (`thread_local`) or none (`relaxed`). A wait for a captured stream, or for its whole GPU, always does.
        With `check_input_liveness`, a replay raises an error if memory that the graph uses is freed.
        """
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got " + capture_error_mode
            )
        if self._is_executable:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        machine = active_machine()
        gpu = machine.current
        stream = machine.stream_of(gpu)
        if stream == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. "
                "(However, after capture, it's ok to replay them on the default stream.)"
            )
        if machine.capture is not None:
            raise cuda_errors.unsupported("two captures of CUDA graphs at the same time", "End that capture first.")
        self._checks_inputs = check_input_liveness
        self._seeds = _seeds_of(gpu)
        self._machine, self._pool = machine, (next(_own_pools), 0) if pool is None else tuple(pool)
        self._capture = machine.capture = Capture(machine, gpu, stream, capture_error_mode)
        states = [state_of(gpu.generator), *self._generators]
        self._capture.generators = {state: CapturedState(state) for state in states}
        self._drawn = [(state, state.get(), state.offset) for state in states]
        gpu.memory.graphs.begin(self._pool, lambda: waits.is_captured(machine, gpu))

    def capture_end(self) -> None:
        """Finish the graph. Raises CUDA's errors for work that cannot be part of a graph."""
        machine, capture = active_machine(), self._capture
        if capture is None or machine.capture is not capture:
            raise cuda_errors.nothing_captured()
        if not capture.began_on(machine.current.index, machine.stream_of(machine.current)):
            raise RuntimeError("Capture must end on the same stream it began on.")
        self._capture = machine.capture = None
        capture.gpu.memory.graphs.end()
        self._memory = capture.gpu.memory
        forget_effects(capture)
        for state, values, offset in self._drawn:
            state.set(values, offset)
        capture.finish()
        self._work, self._steps = CapturedWork(capture), tuple(capture.steps)
        self._contents = capture.memory
        shared_pools(machine).add(self._pool, capture.memory)
        if self._work.is_empty:
            warnings.warn(_EMPTY, UserWarning, stacklevel=2)
        self._has_structure = self._keep_graph or machine in _debugged
        if not self._keep_graph:
            self._is_executable = True

    def instantiate(self) -> None:
        """Make the graph ready for its first launch, which `keep_graph` delays."""
        if self._work is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if self._is_executable and not self._keep_graph:
            raise RuntimeError("instantiate() is intended to be called by the user only when keep_graph=true")
        self._is_executable = True

    def replay(self) -> None:
        """Run the captured work again on the current stream, with its inputs' current values, as one launch."""
        if self._work is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        machine = active_machine()
        if self._machine is not machine:
            raise cuda_errors.left_over_graph()
        if waits.is_captured(machine, self._work.gpu):
            raise cuda_errors.unsupported("a CUDA graph within another", "Capture its operators again.")
        if self._checks_inputs and (freed := self._work.freed()):
            raise cuda_errors.freed_inputs(freed)
        self._is_executable = True
        with not_counted():
            replay(self._steps)
        last = self._work.launch(machine)
        assert self._contents is not None
        shared_pools(machine).replayed(machine, self._pool, self._contents, last)

    def reset(self) -> None:
        """Delete the graph, and free the memory that no tensor uses."""
        if self._memory is not None:
            self._memory.graphs.close(self._pool)
        if self._contents is not None and self._machine is not None:
            shared_pools(self._machine).remove(self._pool, self._contents)
        self._forget()

    def __del__(self) -> None:
        if getattr(self, "_memory", None) is not None:
            self.reset()

    def pool(self) -> Any:
        """Return the graph's memory pool, which other graphs may share."""
        if self._work is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Keep the structure of all graphs that are captured from now on, for `debug_dump`."""
        _debugged.add(active_machine())

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph as a DOT file, with the warnings of CUDAGraph.cpp."""
        if not self._keep_graph and active_machine() not in _debugged:
            warnings.warn(
                "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", UserWarning, stacklevel=2
            )
            return
        warnings.warn("DEBUG: calling debug_dump()", UserWarning, stacklevel=2)
        if self._work is not None and self._has_structure:
            warnings.warn(f"DEBUG: calling cudaGraphDebugDotPrint() with {debug_path}", UserWarning, stacklevel=2)
            Path(debug_path).write_text(self._work.as_dot(), encoding="utf-8")
            self._has_structure = self._keep_graph

    raw_cuda_graph, raw_cuda_graph_exec, get_graph_data = (
        staticmethod(
            cuda_errors.refused_function(f"torch.cuda.CUDAGraph.{name}", "CUDA's own graph does not exist here.")
        )
        for name in ("raw_cuda_graph", "raw_cuda_graph_exec", "get_graph_data")
    )

    def register_generator_state(self, generator: Any) -> None:
        """Let the graph draw from a generator other than the GPU's own."""
        if active_machine().capture is not None:
            raise RuntimeError("Cannot register the state during capturing stage.")
        self._generators.append(state_of(generator))


CUDAGraph.__module__ = "torch.cuda.graphs"


class CaptureBlock(_real_block):  # type: ignore[misc]
    """`torch.cuda.graph`, but its stream lives as long as the machine, instead of the process."""

    def __init__(self, cuda_graph: Any, pool: Any = None, stream: Any = None, *args: Any, **options: Any) -> None:
        if stream is None:
            machine = active_machine()
            stream = _streams.get(machine)
            if stream is None:
                stream = _streams[machine] = CudaStream()
        super().__init__(cuda_graph, pool, stream, *args, **options)


CaptureBlock.__module__, CaptureBlock.__name__, CaptureBlock.__qualname__ = "torch.cuda.graphs", "graph", "graph"
