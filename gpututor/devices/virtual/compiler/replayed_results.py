"""Memory of the results of compiled code that is replayed as CUDA graphs (torch/_inductor/cudagraph_trees.py).

All graphs share a pool. The graphs of one call of a compiled function use it one after another. A new call uses it from
the start, unless a backward pass is still due. So the call overwrites the results of earlier calls.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.compiler import pt2_private as pt2
from gpututor.devices.virtual.machine import VirtualMachine, active_machine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_GRANULE = 512
"""Bytes: each result begins at a multiple, as in the allocator."""
_RUNS_BEFORE_WARNING = 2
_NO_BACKWARD = (
    "Unable to hit fast path of CUDAGraphs because outputs from a previous step still require backward. "
    "Ensure backward() is invoked or detach outputs. "
    "You may also call torch.compiler.cudagraph_mark_step_begin() before each model invocation."
)


class _Place(NamedTuple):
    """A result's place in the pool, in bytes, and its layout."""

    start: int
    end: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class _Prepared(NamedTuple):
    """The memory of a result of a call that prepared a CUDA graph. `owner` is the parameter whose gradient it is."""

    block: weakref.ref[Allocation]
    owner: weakref.ref[torch.Tensor] | None


class ReplayedResults:
    """The results of a machine's replayed graphs.

    Results of calls that prepare a CUDA graph raise an error after the next call. The results of a graph's replays
    share memory, so all of them have the values of the last replay.
    """

    def __init__(self) -> None:
        self.backward_is_due = False
        """True between a forward graph and its backward graph."""
        self._call: tuple[int, int] | None = None
        self._prepared: list[_Prepared] = []
        self._runs: Counter[object] = Counter()
        """Runs of each graph since the pool was last used from the start."""
        self._live: list[weakref.ref[VirtualTensor]] = []
        """Results of these runs."""
        self._end = 0
        """Byte offset in the pool at which these results end."""
        self._memory: dict[_Place, tuple[torch.Tensor, Any]] = {}
        """CPU tensor and block of each result of a replay."""

    def begin(self, graph: object) -> None:
        """Use the pool from the start if a graph's run belongs to a new call, or if no result is left."""
        is_new_call = _current_call() != self._call
        self._live = [reference for reference in self._live if reference() is not None]
        if is_new_call and (active_machine().marked_steps or not self.backward_is_due):
            _overwrite(self._prepared)
        elif self._live:
            if is_new_call and self._runs[graph] == _RUNS_BEFORE_WARNING:
                warnings.warn(_NO_BACKWARD, stacklevel=2)
            return
        self._prepared, self._live, self._end = [], [], 0
        self._runs.clear()

    def add(
        self, graph: object, out: Any, args: Sequence[Any], *, is_replay: bool, owners: Sequence[torch.Tensor | None]
    ) -> None:
        """Put the results of a run into the pool. `owners` are the parameters whose gradients they are, if any."""
        self._call = _current_call()
        self._runs[graph] += 1
        self._prepared = [result for result in self._prepared if result.block() is not None]
        given = {id(value._block) for value in args if type(value) is VirtualTensor}
        results = torch_private.tree_leaves(out)
        for position, tensor in enumerate(results):
            if type(tensor) is not VirtualTensor or id(tensor._block) in given:
                continue
            self._live.append(weakref.ref(tensor))
            start, self._end = self._end, self._end + -(-tensor._host.untyped_storage().nbytes() // _GRANULE) * _GRANULE
            if is_replay and self._runs[graph] == 1:
                host = tensor._host
                self._write(tensor, _Place(start, self._end, host.dtype, tuple(host.shape), host.stride()))
            else:
                owner = owners[position] if owners else None
                kept = None if owner is None else weakref.ref(owner)
                self._prepared.append(_Prepared(weakref.ref(tensor._block), kept))

    def _write(self, tensor: VirtualTensor, place: _Place) -> None:
        """Move a result to its place in the pool, and overwrite the tensors there."""
        written = tensor._host
        tensor._host, tensor._block = self._memory.setdefault(place, (tensor._host, tensor._block))
        with torch_private.host_only():
            if tensor._host is not written:
                tensor._host.copy_(written)
            for other, (host, _) in self._memory.items():
                if other != place and other.start < place.end and place.start < other.end and not host.is_meta:
                    _copy_bytes(tensor._host, place.start, host, other.start)


def _current_call() -> tuple[int, int]:
    """Return an id of the current step: the number of marked steps, or of compiled calls if no step is marked."""
    steps = active_machine().marked_steps
    return steps, 0 if steps else pt2.generation()


def _copy_bytes(source: torch.Tensor, source_start: int, target: torch.Tensor, target_start: int) -> None:
    """Copy the bytes that two places share from one storage to another."""
    start = max(source_start, target_start)
    new, old = (torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()) for tensor in (source, target))
    new, old = new[start - source_start :], old[start - target_start :]
    old[: len(new)].copy_(new[: len(old)])


def _overwrite(prepared: Sequence[_Prepared]) -> None:
    """Make every use of the results' memory raise PyTorch's error: by views, and as gradients, too."""
    machine = active_machine()
    blocks = {id(block): result for result in prepared if (block := result.block()) is not None}
    # All objects are looked through, but few calls prepare a graph.
    for tensor in gc.get_objects() if blocks else ():
        if type(tensor) is VirtualTensor and (result := blocks.get(id(tensor._block))) is not None:
            index = machine.home(tensor._device).index
            tensor._device = machine.overwritten_device(index, is_gradient=result.owner is not None)


_results: weakref.WeakKeyDictionary[VirtualMachine, ReplayedResults] = weakref.WeakKeyDictionary()


def results_of(machine: VirtualMachine) -> ReplayedResults:
    """Return the results of the machine's replayed graphs."""
    return _results.setdefault(machine, ReplayedResults())
